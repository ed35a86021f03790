"""DFlash, DSpark and DFlash 2 drafters with random weights, in exactly the layouts that others publish."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from ..models.tiny import VOCAB
from .head_files import TensorChanges, reduced, save_drafter

Layout = Literal["z-lab", "speculators", "deepspec", "transformers"]

Paths = Literal["", "vanilla", "dflash2"]
"""Ways in which guesses go by the token before: not at all, by DSpark's Markov head, or by DFlash 2's selector."""

KERNEL, GROUP = 2, 8
"""DFlash 2's convolutions: positions that they see, and channels that share a kernel."""


def write_dflash(
    folder: Path, layout: Layout = "z-lab", *, width: int = 32, vocabulary: int = VOCAB, hidden: int = 32,
    taps: tuple[int, ...] | None = (1, 3), block: int = 6, mask: int = 3, layers: int = 2, heads: int = 4, head: int = 8,
    drafted: int = 0, own_embeddings: bool = False, bias: bool = False, paths: Paths = "", rank: int = 12, candidates: int = 5,
    seed: int = 0, scale: float = 0.3, dtype: torch.dtype = torch.float32, changes: TensorChanges | None = None,
    inner: Mapping[str, Any] | None = None, **config: Any,
) -> Path:  # fmt: skip
    """Write a drafter in a layout, with `taps` named as it names them (None for none, where there are two); `drafted`: how many
    tokens it can draft, if not all; `rank` and `candidates`: of `paths`; `inner`: more keys of `dflash_config`, `config` of
    config.json, where "absent" leaves one out."""
    drafted = drafted or vocabulary
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape: int, around: float = 0.0) -> Tensor:
        return around + torch.randn(*shape, generator=generator) * (0.1 if around else scale)

    wide = 48
    out = {"fc.weight": weight(hidden, width * len(taps or (0, 0)))}
    out |= {name: weight(hidden, around=1.0) for name in ("hidden_norm.weight", "norm.weight")}
    for i in range(layers):
        prefix = f"layers.{i}."
        for name, rows in (("q", heads), ("k", 2), ("v", 2)):
            out[f"{prefix}self_attn.{name}_proj.weight"] = weight(rows * head, hidden)
            if bias:
                out[f"{prefix}self_attn.{name}_proj.bias"] = weight(rows * head)
        out[f"{prefix}self_attn.o_proj.weight"] = weight(hidden, heads * head)
        if bias:
            out[f"{prefix}self_attn.o_proj.bias"] = weight(hidden)
        out |= {f"{prefix}self_attn.{name}_norm.weight": weight(head, around=1.0) for name in "qk"}
        out[f"{prefix}mlp.gate_proj.weight"], out[f"{prefix}mlp.up_proj.weight"] = weight(wide, hidden), weight(wide, hidden)
        out[f"{prefix}mlp.down_proj.weight"] = weight(hidden, wide)
        out |= {f"{prefix}{name}_layernorm.weight": weight(hidden, around=1.0) for name in ("input", "post_attention")}
    if own_embeddings:
        out["embed_tokens.weight"] = weight(vocabulary, hidden)
    if own_embeddings or drafted != vocabulary:
        out["lm_head.weight"] = weight(drafted, hidden)
    if paths == "dflash2":
        out |= {f"candidate_selector.{name}_codebook": weight(vocabulary, rank) for name in ("predecessor", "successor")}
        out["candidate_selector.hidden_projection.weight"] = weight(rank, hidden)
        for prefix in (f"layers.{i}.{part}_conv" for i in range(layers) for part in ("attention", "mlp")):
            out[f"{prefix}.base_kernel"] = weight(2, KERNEL, hidden) + torch.eye(KERNEL)[0][:, None]
            out[f"{prefix}.kernel_projection.weight"] = weight(2 * KERNEL * hidden // GROUP, hidden)
    elif paths:
        out["markov_head.markov_w1.weight"] = weight(vocabulary, rank)
        out["markov_head.markov_w2.weight"] = 4 * weight(drafted, rank)
        out |= {"confidence_head.proj.weight": weight(1, hidden + rank), "confidence_head.proj.bias": weight(1)}
    out = {name: tensor.to(dtype) for name, tensor in out.items()}
    if drafted != vocabulary:
        out |= reduced(drafted, vocabulary, generator)
    if layout == "transformers":
        out["encoder.fc.weight"] = out.pop("fc.weight")
        out["encoder.output_norm_enc.weight"] = out.pop("hidden_norm.weight")
    figures: dict[str, Any] = {
        "model_type": "qwen3", "hidden_size": hidden, "intermediate_size": wide, "num_attention_heads": heads,
        "num_key_value_heads": 2, "head_dim": head, "num_hidden_layers": layers, "rms_norm_eps": 1e-6, "rope_theta": 500.0,
        "hidden_act": "silu", "max_position_embeddings": 512, "vocab_size": vocabulary,
    }  # fmt: skip
    ids = {} if taps is None else {"target_layer_ids": list(taps)}
    more: dict[str, Any] = {}
    if paths == "dflash2":
        more = {"selector_rank": rank, "selector_top_k": candidates, "conv_kernel_size": KERNEL, "conv_group_size": GROUP}
    elif paths:
        more = {"markov_rank": rank, "markov_head_type": paths, "enable_confidence_head": True}
    match layout:
        case "z-lab":
            inner_config = {"mask_token_id": mask, **ids, **more, **(inner or {})}
            whole = {**figures, "architectures": ["DFlashDraftModel"], "block_size": block, "dflash_config": inner_config}
        case "deepspec":
            whole = {**figures, "architectures": ["Qwen3DSparkModel"], "markov_rank": 0, "block_size": block, **ids}
            whole |= {"mask_token_id": mask, "num_anchors": 512, "enable_confidence_head": False, **more}
        case "transformers":
            del figures["vocab_size"], figures["rope_theta"]
            whole = {**figures, "model_type": "muse_glimmer_assistant", "architectures": ["MuseGlimmerAssistantModel"]}
            whole |= {"block_size": block, "mask_token_id": mask, **ids, "sliding_window": 2048}
            whole["rope_parameters"] = {"rope_theta": 500.0, "rope_type": "default"}
        case "speculators":
            whole = {
                "architectures": ["DFlashSpeculator"],
                "speculators_model_type": {"": "dflash", "dflash2": "dflash2"}.get(paths, "dspark"),
                "draft_vocab_size": drafted, "block_size": block, "mask_token_id": mask,
                "aux_hidden_state_layer_ids": list(taps) if taps else None, "sliding_window_non_causal": False,
                "sample_from_anchor": bool(paths) and paths != "dflash2", **more, "transformer_layer_config": figures,
                "speculators_config": {"algorithm": "dflash", "verifier": {"name_or_path": "owner/verifier"}},
            }  # fmt: skip
    layer_types = config.pop("layer_types", None)
    if layer_types is not None:
        (figures if layout == "speculators" else whole)["layer_types"] = layer_types
    if layout == "speculators" and "sliding_window" in config:
        figures["sliding_window"] = config.pop("sliding_window")
    return save_drafter(folder, out, whole | config, changes)
