"""EAGLE and Medusa heads with random weights, in exactly the layouts that others publish."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..models.tiny import VOCAB

WIDTH = 32
"""Width of the target's hidden states."""

Style = Literal["eagle1", "eagle3", "speculators", "deepspec"]

TensorChanges = Mapping[str, Tensor | None]
"""Tensors to replace or (None) to leave out."""


def reduced(drafted: int, vocabulary: int, generator: torch.Generator) -> dict[str, Tensor]:
    """The tables of a drafter that knows a part of the vocabulary."""
    ids = torch.randperm(vocabulary, generator=generator)[:drafted].sort().values
    mask = torch.zeros(vocabulary, dtype=torch.bool).index_fill_(0, ids, True)
    return {"d2t": ids - torch.arange(drafted), "t2d": mask}


def save_drafter(
    folder: Path, tensors: Mapping[str, Tensor], config: dict[str, Any], changes: TensorChanges | None, file: str = "model"
) -> Path:
    """Write a drafter's folder; a key of the configuration that is "absent" is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors_ = {name: tensor for name, tensor in {**tensors, **(changes or {})}.items() if tensor is not None}
    save_file(
        {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors_.items()},
        folder / f"{file}.safetensors",
    )
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value != "absent"}))
    return folder


def load_weights(folder: Path, file: str = "model") -> dict[str, Tensor]:
    return load_file(folder / f"{file}.safetensors")


def write_head(
    folder: Path, style: Style = "eagle3", *, seed: int = 0, hidden: int = 0, width: int = WIDTH, vocabulary: int = VOCAB,
    layers: int = 1, taps: tuple[int, ...] | None = None, drafted: int = 0, own_head: bool = True, own_embeddings: bool = False,
    bias: bool = False, dtype: torch.dtype = torch.float32, changes: TensorChanges | None = None, **config: Any,
) -> Path:  # fmt: skip
    """Write a head in a layout: `hidden` is its own width, `drafted` how many tokens it can draft, `taps` as the layout names
    them, `bias` of EAGLE-1's fc or of attention, `changes` tensors to replace or (None) leave out, `config` more keys."""
    hidden, drafted = hidden or width, drafted or vocabulary
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape: int, around: float = 0.0) -> Tensor:
        return around + torch.randn(*shape, generator=generator) * (0.1 if around else 0.3)

    heads, keys, inner = 4, 2, 48
    size = hidden // heads
    count = len(taps) if taps else 3
    out: dict[str, Tensor] = {}
    for i in range(layers):
        prefix = "midlayer." if style == "eagle3" and layers == 1 else f"layers.{i}."
        reads = 2 * hidden if i == 0 and style != "eagle1" else hidden
        for name, rows in (("q", heads), ("k", keys), ("v", keys)):
            out[f"{prefix}self_attn.{name}_proj.weight"] = weight(rows * size, reads)
            if bias and style != "eagle1":
                out[f"{prefix}self_attn.{name}_proj.bias"] = weight(rows * size)
        out[f"{prefix}self_attn.o_proj.weight"] = weight(hidden, heads * size)
        out[f"{prefix}mlp.gate_proj.weight"], out[f"{prefix}mlp.up_proj.weight"] = weight(inner, hidden), weight(inner, hidden)
        out[f"{prefix}mlp.down_proj.weight"] = weight(hidden, inner)
        out[f"{prefix}post_attention_layernorm.weight"] = weight(hidden, around=1.0)
        if i or style != "eagle1":
            out[f"{prefix}input_layernorm.weight"] = weight(hidden, around=1.0)
        if i == 0 and style != "eagle1":
            out[f"{prefix}hidden_norm.weight"] = weight(hidden, around=1.0)
        if style == "deepspec":
            out |= {f"{prefix}self_attn.{name}_norm.weight": weight(size, around=1.0) for name in "qk"}
    out["fc.weight"] = weight(hidden, 2 * hidden if style == "eagle1" else count * width)
    if style == "eagle1" and bias:
        out["fc.bias"] = weight(hidden)
    if style != "eagle1":
        out["norm.weight"] = weight(hidden, around=1.0)
        if own_head:
            out["lm_head.weight"] = weight(drafted, hidden)
    if config.get("norm_before_fc"):
        out["input_norm.weight"] = weight(count * width, around=1.0)
    if config.get("fc_norm"):
        out |= {f"fc_norm.{i}.weight": weight(width, around=1.0) for i in range(count)}
    if own_embeddings:
        out["embed_tokens.weight"] = weight(vocabulary, hidden)
    out = {name: tensor.to(dtype) for name, tensor in out.items()}
    if drafted != vocabulary:
        out |= reduced(drafted, vocabulary, generator)
    figures: dict[str, Any] = {
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": heads,
        "num_key_value_heads": keys, "num_hidden_layers": layers, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "max_position_embeddings": 256, "vocab_size": vocabulary,
    }  # fmt: skip
    key = "eagle_aux_hidden_state_layer_ids"
    match style:
        case "eagle1":
            whole = {**figures, "architectures": ["LlamaForCausalLM"], "bias": bias}
        case "eagle3":
            whole = {**figures, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": drafted}
            if taps:
                whole["eagle_config"] = {key: list(taps), "use_aux_hidden_state": True}
        case "deepspec":
            whole = {**figures, "architectures": ["Qwen3Eagle3Model"], "ttt_length": 7, "target_layer_ids": list(taps or ())}
        case "speculators":
            whole = {
                "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": drafted,
                "norm_before_residual": True, key: list(taps) if taps else None, "transformer_layer_config": figures,
                "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "owner/verifier"}},
            }  # fmt: skip
    return save_drafter(folder, out, whole | config, changes)


def write_medusa(
    folder: Path, *, prefix: str = "", heads: int = 3, blocks: int = 1, width: int = WIDTH, vocabulary: int = VOCAB,
    dtype: torch.dtype = torch.float32, changes: TensorChanges | None = None, **config: Any,
) -> Path:  # fmt: skip
    """Write Medusa heads as FasterDecoding's training names them, or with a prefix."""
    generator = torch.Generator().manual_seed(0)

    def weight(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * 0.3).to(dtype)

    out: dict[str, Tensor] = {}
    for head in range(heads):
        for block in range(blocks):
            out[f"{prefix}{head}.{block}.linear.weight"] = weight(width, width)
            out[f"{prefix}{head}.{block}.linear.bias"] = weight(width)
        out[f"{prefix}{head}.{blocks}.weight"] = weight(vocabulary, width)
    described = {"medusa_num_heads": 2, "medusa_num_layers": blocks, "base_model_name_or_path": "owner/base"}
    return save_drafter(folder, out, described | config, changes, "medusa_lm_head")
