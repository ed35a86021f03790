"""Tiny models of families that carry MTP layers in their checkpoints, in the published layout."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specchat.backends import LoadOptions
from specchat.backends.hf.model import TransformersModel, load_transformers

from ..models.tiny import VOCAB, room, write_tokenizer

Family = Literal["deepseek-v3", "glm4-moe", "mimo", "qwen3.5"]
FAMILIES: tuple[Family, ...] = ("deepseek-v3", "glm4-moe", "mimo", "qwen3.5")
HYBRIDS: tuple[Family, ...] = ("qwen3.5",)
"""Those with linear attention: no trees."""
REFERENCED: tuple[Family, ...] = ("deepseek-v3", "glm4-moe")
"""Those whose MTP layers transformers itself can run."""
LAYERS, WIDTH = 3, 32

MIMO = {"enorm": "token_layernorm", "hnorm": "hidden_layernorm", "eh_proj": "input_proj", "shared_head.norm": "final_layernorm"}

QWEN = {"enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "eh_proj": "fc", "shared_head.norm": "norm"}


def published(family: Family, number: int, name: str) -> str:
    """Name a tensor of an MTP layer as a family's checkpoints do, from its name in DeepSeek's layout."""
    first, _, rest = name.rpartition(".")
    match family:
        case "deepseek-v3" | "glm4-moe":
            return f"model.layers.{LAYERS + number}.{name}"
        case "mimo":
            return f"model.mtp_layers.{number}.{MIMO.get(first, first)}.{rest}"
        case "qwen3.5":
            return f"mtp.{QWEN[first]}.{rest}" if first in QWEN else f"mtp.layers.{number}.{name}"


def _config(family: Family, layers: int = 1) -> Any:
    """Layers more than the model will have: their tensors become those of the MTP layers."""
    import transformers

    t: Any = transformers
    sizes: dict[str, Any] = {
        "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "moe_intermediate_size": 24,
        "num_hidden_layers": LAYERS + layers, "num_attention_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "max_position_embeddings": 256,
        "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None, "tie_word_embeddings": False,
    }  # fmt: skip
    match family:
        case "deepseek-v3":
            latent = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
            return t.DeepseekV3Config(**sizes, num_key_value_heads=4, **latent)
        case "glm4-moe":
            return t.Glm4MoeConfig(**sizes, num_key_value_heads=2, head_dim=8)
        case "qwen3.5":
            few = {key: size for key, size in sizes.items() if key in QWEN2}
            kinds = ["linear_attention"] * (LAYERS - 1) + ["full_attention"] * (1 + layers)
            linear = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_conv_kernel_dim": 4}
            linear |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
            few |= {"num_key_value_heads": 2, "head_dim": 16, "layer_types": kinds, **linear}
            return t.Qwen3_5TextConfig(**few)
        case "mimo":
            few = {key: size for key, size in sizes.items() if key in QWEN2}
            return t.Qwen2Config(**few, num_key_value_heads=2, rope_parameters={"rope_type": "default", "rope_theta": 640000.0})


QWEN2 = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
    "bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings",
)  # fmt: skip
"""Names of the sizes."""


def write_mtp(
    folder: Path, family: Family, *, layers: int = 1, right: bool = False, changes: Mapping[str, Tensor | None] | None = None
) -> Path:
    """Write a model with MTP layers; `right`: it repeats each token's successor, and they know; `changes`: tensors of the last
    one to replace or (None) leave out, by DeepSeek's names."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(_config(family, layers))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.4)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    tensors = load_file(folder / "model.safetensors")

    def around(*shape: int) -> Tensor:
        return 1 + 0.1 * torch.randn(*shape)

    for number in range(layers):
        begin = f"model.layers.{LAYERS + number}."
        layer_tensors = {f"{name}.weight": around(WIDTH) for name in ("enorm", "hnorm", "shared_head.norm")}
        layer_tensors["eh_proj.weight"] = torch.randn(WIDTH, 2 * WIDTH) * 0.3
        if family in REFERENCED:
            layer_tensors["embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
            layer_tensors["shared_head.head.weight"] = tensors["lm_head.weight"].clone()
        for name in [name for name in tensors if name.startswith(begin)]:
            layer_tensors[name.removeprefix(begin)] = tensors.pop(name)
        tensors |= {published(family, number, name): tensor for name, tensor in layer_tensors.items()}
    if right:
        _make_right(tensors, family, layers)
    for name, replaced in (changes or {}).items():
        tensors.pop(published(family, layers - 1, name), None)
        if replaced is not None:
            tensors[published(family, layers - 1, name)] = replaced
    if family == "qwen3.5":
        plain = ("mtp.", "lm_head.")
        tensors = {n if n.startswith(plain) else n.replace("model.", "model.language_model.", 1): t for n, t in tensors.items()}
        tensors["model.visual.pos_embed.weight"] = torch.randn(4, 16)
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"num_hidden_layers": LAYERS, "num_nextn_predict_layers": layers}
    config.pop("num_mtp_layers", None)
    if family in HYBRIDS:
        del config["num_nextn_predict_layers"]  # which it calls by another name
        config["layer_types"] = config["layer_types"][:LAYERS]
    if family == "qwen3.5":
        config = _seeing({**config, "mtp_num_hidden_layers": layers})
    if family == "mimo":
        code = {"AutoConfig": "configuration_mimo.MiMoConfig", "AutoModelForCausalLM": "modeling_mimo.MiMoForCausalLM"}
        config |= {"model_type": "mimo", "architectures": ["MiMoForCausalLM"], "auto_map": code, "attention_bias": True}
        config |= {"rope_theta": 640000, "rope_scaling": None, "head_dim": 8}
        config = {key: value for key, value in config.items() if key not in ("layer_types", "rope_parameters")}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _seeing(text: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a model that sees images too, around that of its language part."""
    from transformers import Qwen3_5Config

    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": WIDTH}
    marks = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    whole: Any = Qwen3_5Config
    out: dict[str, Any] = whole(vision_config=vision, **dict.fromkeys(marks, VOCAB - 1)).to_dict()
    return {**out, "text_config": text, "architectures": ["Qwen3_5ForConditionalGeneration"], "tie_word_embeddings": False}


def _make_right(tensors: dict[str, Tensor], family: Family, layers: int) -> None:
    """No layer adds anything: the model's choice follows from its last token alone, and so does the MTP layers'."""
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            tensor.zero_()
        elif "norm" in name:
            tensor.fill_(0 if family in HYBRIDS else 1)  # theirs are added to 1
    tensors["lm_head.weight"][1] = 0  # whose answers do not end at once
    halves = [torch.eye(WIDTH), torch.zeros(WIDTH, WIDTH)]
    for number in range(layers):
        tensors[published(family, number, "eh_proj.weight")] = torch.cat(halves[:: -1 if family == "mimo" else 1], 1)


@functools.cache
def mtp_folder(family: Family, right: bool = False, layers: int = 1) -> Path:
    name = f"mtp-{family}-{layers}{'-right' if right else ''}"
    return write_mtp(room() / name, family, right=right, layers=layers)


@functools.cache
def mtp_target(family: Family, right: bool = False, layers: int = 1) -> TransformersModel:
    return load_transformers(mtp_folder(family, right, layers), family, LoadOptions(device="cpu"))
