"""Tiny GGUF models with random weights, and what to compare them with."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import builtin_path
from specchat.backends.options import LoadOptions
from specchat.builtin.recipe.gguf_export import export

VOCAB = 2048
CONTEXT = 512

FLOAT32 = LoadOptions(device="cpu", dtype="float32", threads=1)
"""As exact as llama.cpp gets: float32 cache, no flash attention."""


_missing = [name for name in ("llama_cpp", "gguf") if importlib.util.find_spec(name) is None]
needs_llama = pytest.mark.skipif(bool(_missing), reason=f"not installed. Run: {', '.join(_missing)}")


@functools.cache
def _room() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="specchat-gguf-")


def room() -> Path:
    """A folder that lasts as long as the process."""
    return Path(_room().name)


def save_llama(folder: Path, vocabulary: int, layers: int) -> None:
    """Write a Llama with random weights and grouped heads, in transformers' format."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                # A large spread keeps greedy answers from looping.
                weight.normal_(0, 0.3)
    model.save_pretrained(folder)


@functools.cache
def tiny_folder() -> Path:
    """A folder with such a model and the built-in one's tokenizer."""
    folder = room() / "tiny"
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    save_llama(folder, VOCAB, layers=3)
    return folder


@functools.cache
def gguf_of(folder: Path, kind: str = "F32") -> Path:
    """A folder's model as a GGUF file, written once per process."""
    file = room() / f"{folder.name}-{kind}.gguf"
    export(folder, file, kind)
    return file


@functools.cache
def tiny_llama() -> LlamaModel:
    """The loaded tiny model in float32 (sessions are independent; do not close it)."""
    return load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)


@functools.cache
def reference() -> Any:
    """The tiny model's weights as transformers loads them."""
    from transformers import AutoModelForCausalLM

    network: Any = AutoModelForCausalLM.from_pretrained(tiny_folder(), dtype=torch.float32)
    return network.eval()


def linear(texts: list[list[int]]) -> torch.Tensor:
    """Logits [texts, vocab] after each of some texts, by transformers, without a cache."""
    longest = max(map(len, texts))
    ids = torch.zeros((len(texts), longest), dtype=torch.long)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    with torch.inference_mode():
        logits = reference()(input_ids=ids, use_cache=False).logits
    # Attention is causal: what stands behind a text does not change its logits.
    return torch.stack([row[len(text) - 1] for row, text in zip(logits, texts, strict=True)])
