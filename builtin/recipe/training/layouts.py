"""An EAGLE-3 head as a folder in the layouts that engines load: config.json and model.safetensors.

The target's embeddings are not in it; engines take the target's own.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig

from ..export import new_folder

LAYOUTS = ("safeailab", "speculators")
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
STANDARD_TAPS = 3
"""Number of layers that engines read if the configuration names none."""


def export_eagle(
    state: Mapping[str, torch.Tensor],
    config: LlamaConfig,
    taps: Sequence[int],
    named: bool,
    folder: Path,
    *,
    target: tuple[str, Sequence[str]],
    layout: str = "safeailab",
    dtype: str = "float16",
) -> None:
    """Write the folder; readers see the old one or the new one, never half of it.

    Args:
        state: of an `EagleHead`.
        config: of its layer.
        taps: the layers of the target whose inputs it reads.
        named: whether the configuration has to name them, as they are unusual.
        folder: the head's; replaced if it exists.
        target: the folder and the architectures of the model that it drafts for.
        layout: SafeAILab's, which SpecForge, vLLM, SGLang and llama.cpp's converter read as well; or that of speculators.
        dtype: of the weights.
    """
    draft_ids = state["draft_ids"]
    reduced = len(draft_ids) < config.vocab_size
    tensors = {name: value.to(DTYPES[dtype]) for name, value in state.items() if name != "draft_ids"}
    if layout == "speculators":
        tensors = {name.replace("midlayer.", "layers.0."): value for name, value in tensors.items()}
    if reduced:
        # Engines add d2t to the draft's id: it is an offset, not the target's id itself.
        tensors["d2t"] = draft_ids - torch.arange(len(draft_ids))
        tensors["t2d"] = torch.zeros(config.vocab_size, dtype=torch.bool).index_fill(0, draft_ids, True)
    describe = speculators if layout == "speculators" else safeailab
    with new_folder(folder) as new:
        save_file({name: value.contiguous() for name, value in tensors.items()}, new / "model.safetensors", {"format": "pt"})
        described = describe(config, len(draft_ids), list(taps), named, dtype, target)
        (new / "config.json").write_text(json.dumps(described, indent=2) + "\n")


def _layer(config: LlamaConfig) -> dict[str, Any]:
    """Describe the layer, as in both layouts."""
    rope: Any = config.rope_parameters
    return {
        "model_type": "llama",
        "attention_bias": False,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "initializer_range": config.initializer_range,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.max_position_embeddings,
        "mlp_bias": False,
        "num_attention_heads": config.num_attention_heads,
        "num_hidden_layers": 1,
        "num_key_value_heads": config.num_key_value_heads,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_scaling": None,
        "rope_theta": rope["rope_theta"],
        "tie_word_embeddings": False,
        "vocab_size": config.vocab_size,
    }


def safeailab(
    config: LlamaConfig, draft_ids: int, taps: list[int], named: bool, dtype: str, target: tuple[str, Sequence[str]]
) -> dict[str, Any]:
    """Make config.json as SafeAILab and SpecForge publish it."""
    described = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
        **_layer(config),
        "draft_vocab_size": draft_ids,
        "torch_dtype": dtype,
        "use_cache": True,
    }
    if named:
        described["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": taps, "use_aux_hidden_state": True}
    if len(taps) != STANDARD_TAPS:
        described["num_aux_hidden_states"] = len(taps)
    return described


def speculators(
    config: LlamaConfig, draft_ids: int, taps: list[int], named: bool, dtype: str, target: tuple[str, Sequence[str]]
) -> dict[str, Any]:
    """Make config.json as the speculators library writes it."""
    name, architectures = target
    proposal = {"proposal_type": "greedy", "speculative_tokens": 5, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    layer = _layer(config) | ({"num_aux_hidden_states": len(taps)} if len(taps) != STANDARD_TAPS else {})
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.1.0",
        "draft_vocab_size": draft_ids,
        "eagle_aux_hidden_state_layer_ids": taps if named else None,
        "fc_norm": False,
        "norm_before_fc": False,
        # Engines differ in their default.
        "norm_before_residual": False,
        "norm_output": False,
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": name, "architectures": list(architectures)},
        },
    }
