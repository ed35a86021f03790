"""Tiny GGUF models with random weights, and what to compare them with."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.gguf_export import export

from . import tiny

VOCAB = 2048
CONTEXT = 512

FLOAT32 = LoadOptions(device="cpu", dtype="float32", threads=1)
"""The most exact options of llama.cpp: float32 cache, no flash attention."""


_missing = [name for name in ("llama_cpp", "gguf") if importlib.util.find_spec(name) is None]
needs_llama = pytest.mark.skipif(bool(_missing), reason=f"not installed. Run: {', '.join(_missing)}")


def room() -> Path:
    """A folder for tiny GGUF models that lasts as long as the process."""
    return tiny.room("gguf")


def save_llama(name: str, layers: int) -> Path:
    """A folder with a Llama of random weights and grouped heads, and the built-in model's tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = room() / name
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                # A large spread keeps greedy answers from looping.
                weight.normal_(0, 0.3)
    model.save_pretrained(folder)
    return folder


@functools.cache
def tiny_folder() -> Path:
    return save_llama("tiny", layers=3)


@functools.cache
def gguf_of(folder: Path) -> Path:
    """A folder's model as a GGUF file, written once per process."""
    file = room() / f"{folder.name}.gguf"
    export(folder, file, "F32")
    return file


@functools.cache
def tiny_llama() -> LlamaModel:
    """The loaded tiny model in float32 (sessions are independent; do not close it)."""
    return load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)


def reference() -> Any:
    return tiny.network(tiny_folder())
