"""Trained drafters with random weights as GGUF files, and a target for them; the same on both runtimes."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import torch

from specchat.backends import LoadOptions
from specchat.backends.heads.base import Head
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import find_model
from specchat.builtin.recipe.gguf_export import new_file
from specchat.builtin.recipe.training.gguf_head import export_head

from ..models.llama_tiny import FLOAT32, VOCAB, gguf_of, room, save_llama
from .dflash_files import write_dflash
from .head_files import write_head
from .mtp_files import mtp_folder

WIDTH, LAYERS = 64, 6
"""Sizes of the target."""


@functools.cache
def target_folder() -> Path:
    """A model deep enough to have three taps, with the built-in one's tokenizer."""
    return save_llama("heads-target", LAYERS)


@functools.cache
def llama_target() -> LlamaModel:
    return load_llama(gguf_of(target_folder()), "heads-target", FLOAT32)


@functools.cache
def torch_target() -> TransformersModel:
    return load_transformers(target_folder(), "heads-target", LoadOptions(device="cpu"))


def write_eagle(folder: Path, **options: Any) -> Path:
    """A head in safetensors (see `write_head`)."""
    return write_head(folder, **{"width": WIDTH, "vocabulary": VOCAB, **options})


def exported(folder: Path, kind: str) -> Path:
    """Export a drafter's folder to a GGUF file next to it."""
    file = folder.with_name(f"{folder.name}-{kind}.gguf")
    export_head(folder, target_folder(), file, kind)
    return file


def eagle_file(folder: Path, kind: str = "F32", **options: Any) -> Path:
    return exported(write_eagle(folder, **options), kind)


def write_blocks(folder: Path, **options: Any) -> Path:
    """A DFlash drafter in safetensors (see `write_dflash`)."""
    return write_dflash(folder, **{"width": WIDTH, "hidden": WIDTH, "head": 16, "vocabulary": VOCAB, **options})


def dflash_file(folder: Path, kind: str = "F32", **options: Any) -> Path:
    return exported(write_blocks(folder, **options), kind)


def load_head(path: Path, target: Any = None) -> Head:
    """The head in a folder or file, beside its target."""
    runtime = llama_target() if path.suffix == ".gguf" else torch_target()
    return find_model(str(path)).beside(path.name, target or runtime)


@functools.cache
def counting() -> tuple[LlamaModel, Head]:
    """A model whose next token is the one after the last, and a head that is right about each draft's first token."""
    from safetensors.torch import load_file, save_file

    folder = room() / "counting-target"
    shutil.copytree(target_folder(), folder)
    weights = load_file(folder / "model.safetensors")
    directions = torch.nn.functional.normalize(torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(1)), dim=-1)
    for name, tensor in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()  # a token stands for itself in the residual stream, and the layers add nothing
    weights |= {"model.embed_tokens.weight": directions, "lm_head.weight": directions.roll(1, 0)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = load_llama(gguf_of(folder), "counting-target", FLOAT32)
    zero, one = torch.zeros, torch.eye(WIDTH)
    changes = {
        "fc.weight": torch.cat((one, zero(WIDTH, 2 * WIDTH)), 1),
        "midlayer.self_attn.o_proj.weight": zero(WIDTH, WIDTH),
        "midlayer.mlp.down_proj.weight": zero(WIDTH, 48),
        "norm.weight": torch.ones(WIDTH),
        "lm_head.weight": directions.roll(2, 0),
    }
    return model, load_head(eagle_file(room() / "counting", taps=(0, 1, 2), changes=changes), model)


@functools.cache
def random_gguf_head() -> Head:
    return load_head(eagle_file(room() / "random-eagle3"))


@functools.cache
def random_gguf_blocks() -> Head:
    return load_head(dflash_file(room() / "random-dflash"))


@functools.cache
def random_gguf_paths(kind: str) -> Head:
    """A drafter that knows nothing, on llama.cpp: dspark or dflash2."""
    paths: dict[str, Any] = {"paths": "vanilla"} if kind == "dspark" else {"paths": "dflash2", "candidates": 7}
    return load_head(dflash_file(room() / f"random-{kind}", **paths))


GLM = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
    **{f"self_attn.{name}_proj": f"attn_{name}" for name in "qkv"}, "self_attn.o_proj": "attn_output",
    **{f"mlp.{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")}, "mlp.gate": "ffn_gate_inp",
    **{f"mlp.shared_experts.{name}_proj": f"ffn_{name}_shexp" for name in ("gate", "up", "down")},
    "eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm", "shared_head.norm": "nextn.shared_head_norm",
}  # fmt: skip
"""Tensors of a layer of GLM-4.5, in transformers and in llama.cpp."""


def glm_file(folder: Path, file: Path, *, mtp: bool = True) -> Path:
    """A model that `write_mtp` made, of the family glm4-moe, as llama.cpp's converter writes it; `mtp`: with its layer."""
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    layers, experts = config["num_hidden_layers"], config["n_routed_experts"]
    rope = config["rope_parameters"]
    with new_file(file, "glm4moe", "F32", folder.name) as (writer, add):
        writer.add_vocab_size(config["vocab_size"])
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_block_count(layers + 1)
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
        writer.add_rope_dimension_count(int(config["head_dim"] * rope.get("partial_rotary_factor", 0.5)))
        writer.add_rope_freq_base(float(rope["rope_theta"]))
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_leading_dense_block_count(config["first_k_dense_replace"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_uint32("glm4moe.expert_gating_func", 2)  # sigmoid
        writer.add_uint32("glm4moe.nextn_predict_layers", 1)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])
        writer.add_token_types([1] * config["vocab_size"])
        writer.add_token_merges(["t 1"])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        for theirs, ours in (("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")):
            add(f"{ours}.weight", tensors[f"{theirs}.weight"].numpy())
        for i in range(layers + mtp):
            prefix = f"model.layers.{i}."
            for theirs, ours in GLM.items():
                if f"{prefix}{theirs}.weight" in tensors:
                    add(f"blk.{i}.{ours}.weight", tensors[f"{prefix}{theirs}.weight"].numpy())
            if i >= config["first_k_dense_replace"]:
                add(f"blk.{i}.exp_probs_b.bias", tensors[f"{prefix}mlp.gate.e_score_correction_bias"].numpy())
                for part in ("gate", "up", "down"):
                    every = [tensors[f"{prefix}mlp.experts.{expert}.{part}_proj.weight"] for expert in range(experts)]
                    add(f"blk.{i}.ffn_{part}_exps.weight", torch.stack(every).numpy())
    return file


@functools.cache
def glm_llama() -> LlamaModel:
    return load_llama(glm_file(mtp_folder("glm4-moe"), room() / "glm.gguf"), "glm", FLOAT32)
