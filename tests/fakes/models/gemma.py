"""A tiny Gemma 4 and assistants for it, with random weights, as transformers writes them."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specchat.backends import LoadOptions
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import builtin_path, find_model
from specchat.builtin.recipe.gguf_export import add_tokenizer, new_file

from ..drafters.heads import load
from .llama_tiny import FLOAT32
from .tiny import room

VOCAB, WIDTH, WINDOW = 2048, 24, 8
LAYERS = ["sliding_attention", "sliding_attention", "full_attention"]

SHAPE: dict[str, Any] = {
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "head_dim": 8, "global_head_dim": 16,
    "vocab_size": VOCAB, "hidden_size_per_layer_input": 0, "sliding_window": WINDOW, "max_position_embeddings": 512,
    "attention_k_eq_v": True, "enable_moe_block": False, "use_double_wide_mlp": False, "tie_word_embeddings": True,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
"""Sizes that the target and its assistants have in common."""


def _random(model: Any, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.3, generator=generator)
    return model.eval()


@functools.cache
def gemma_folder() -> Path:
    """Two blocks of two sliding layers and a full one, the last of which share the keys of those before."""
    from transformers import Gemma4ForCausalLM, Gemma4TextConfig

    sizes: dict[str, Any] = {"hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 9, "layer_types": LAYERS * 3}
    sizes |= {"num_kv_shared_layers": 3, "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8}
    config = Gemma4TextConfig(**{**SHAPE, **sizes})
    torch.manual_seed(0)
    folder = room() / "gemma"
    _random(Gemma4ForCausalLM(config), 3).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(builtin_path() / file, folder / file)
    return folder


@functools.cache
def gemma() -> TransformersModel:
    return load_transformers(gemma_folder(), "gemma", LoadOptions(device="cpu"))


def whole_assistants() -> Any:
    """While it is open, transformers makes assistants. The class of 5.23 takes their layers, which all reuse keys, for a
    mistake."""
    from transformers import Gemma4TextConfig

    every = property(lambda config: ["reuse" if config.num_kv_shared_layers else None] * config.num_hidden_layers)
    return mock.patch.object(Gemma4TextConfig, "kv_sharing_modes", every)


def write_assistant(
    folder: Path, *, ordered: bool = False, changes: Mapping[str, Tensor | None] | None = None, **config: Any
) -> Path:
    """Write an assistant; `ordered`: it scores the best clusters only; `config`: keys to replace, text_config's with
    `text_`."""
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4TextConfig

    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "layer_types": LAYERS}
    text = Gemma4TextConfig(**SHAPE, **sizes, num_kv_shared_layers=3, vocab_size_per_layer_input=0)
    clusters: dict[str, Any] = {"use_ordered_embeddings": ordered, "num_centroids": 64, "centroid_intermediate_top_k": 5}
    whole = Gemma4AssistantConfig(text_config=text, backbone_hidden_size=WIDTH, **clusters)
    with whole_assistants():
        model = _random(Gemma4AssistantForCausalLM(whole), 5)
    if ordered:
        order = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(1))
        model.masked_embedding.token_ordering.copy_(order.view_as(model.masked_embedding.token_ordering))
    model.save_pretrained(folder)
    if changes:
        tensors = {**load_file(folder / "model.safetensors"), **changes}
        rest = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})
    if config:
        described = json.loads((folder / "config.json").read_text())
        for key, value in config.items():
            (described["text_config"] if key.startswith("text_") else described)[key.removeprefix("text_")] = value
        (folder / "config.json").write_text(json.dumps(described))
    return folder


def load_assistant(folder: Path) -> Any:
    return load(folder, gemma())


@functools.cache
def random_assistant() -> Any:
    return load_assistant(write_assistant(room() / "random-assistant"))


GGUF = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "post_per_layer_input_norm": "post_norm",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "layer_scalar": "layer_output_scale",
    "embed_tokens": "token_embd", "embed_tokens_per_layer": "per_layer_token_embd", "norm": "output_norm",
    "per_layer_model_projection": "per_layer_model_proj", "per_layer_projection_norm": "per_layer_proj_norm",
    "pre_projection": "nextn.pre_projection", "post_projection": "nextn.post_projection",
}  # fmt: skip
"""transformers' names of tensors → llama.cpp's."""


def gemma_file(folder: Path, file: Path) -> Path:
    """The target or an assistant in a folder as a GGUF file, in float32, as llama.cpp's converter writes it."""
    whole = json.loads((folder / "config.json").read_text())
    config, assistant = whole.get("text_config", whole), "text_config" in whole
    kinds, rope = config["layer_types"], config["rope_parameters"]
    figures: dict[str, Any] = {
        "embedding_length": config["hidden_size"], "embedding_length_out": whole.get("backbone_hidden_size"),
        "nextn_predict_layers": len(kinds) if assistant else None,
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "context_length": config["max_position_embeddings"], "block_count": len(kinds),
        "feed_forward_length": config["intermediate_size"], "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": [1 if kind == "full_attention" else config["num_key_value_heads"] for kind in kinds],
        "attention.shared_kv_layers": config["num_kv_shared_layers"], "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in kinds],
        **{f"attention.{part}_length": SHAPE["global_head_dim"] for part in ("key", "value")},
        **{f"attention.{part}_length_swa": config["head_dim"] for part in ("key", "value")},
        "rope.dimension_count": SHAPE["global_head_dim"], "rope.dimension_count_swa": config["head_dim"],
    }  # fmt: skip
    half = SHAPE["global_head_dim"] // 2
    turning = int(rope["full_attention"]["partial_rotary_factor"] * half)
    with new_file(file, "gemma4-assistant" if assistant else "gemma4", "F32", folder.name) as (writer, add):
        for key, value in figures.items():
            if value is not None:
                add_value = writer.add_array if isinstance(value, list) else writer.add_uint32
                add_value(f"{writer.arch}.{key}", value)
        writer.add_float32(f"{writer.arch}.rope.freq_base", rope["full_attention"]["rope_theta"])
        writer.add_float32(f"{writer.arch}.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        if config.get("final_logit_softcapping"):
            writer.add_final_logit_softcapping(config["final_logit_softcapping"])
        add_tokenizer(writer, gemma_folder(), config)
        # Pairs of numbers that stand still turn a thousandth of nothing.
        add("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (half - turning), np.float32))
        for name, tensor in load_file(folder / "model.safetensors").items():
            layer, _, bare = name.removeprefix("model.").removeprefix("layers.").partition(".")
            at, bare = (f"blk.{layer}.", bare) if layer.isdigit() else ("", name.removeprefix("model."))
            if "masked_embedding" not in bare:  # converters leave it out, as llama.cpp scores the whole vocabulary
                add(f"{at}{GGUF[bare.removesuffix('.weight')]}.weight", tensor.numpy())
    return file


@functools.cache
def gemma_llama() -> LlamaModel:
    return load_llama(gemma_file(gemma_folder(), room() / "gemma.gguf"), "gemma", FLOAT32)


def load_assistant_file(file: Path) -> Any:
    return find_model(str(file)).beside(file.name, gemma_llama())


@functools.cache
def random_assistant_file() -> Any:
    folder = write_assistant(room() / "random-assistant-to-be")
    return load_assistant_file(gemma_file(folder, room() / "random-assistant.gguf"))
