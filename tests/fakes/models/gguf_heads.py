"""Trained drafters with random weights as GGUF files, and a target for them; the same on both runtimes."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import torch

from specchat.backends.heads.base import Head
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import builtin_path, find_model
from specchat.backends.options import LoadOptions
from specchat.builtin.training.gguf_head import export_head

from .dflash_files import write_dflash
from .heads import write_head
from .llama_tiny import FLOAT32, VOCAB, gguf_of, room, save_llama

WIDTH, LAYERS = 64, 6
"""Of the target."""


@functools.cache
def target_folder() -> Path:
    """A model deep enough to have three taps, with the built-in one's tokenizer."""
    folder = room() / "heads-target"
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    save_llama(folder, VOCAB, layers=LAYERS)
    return folder


@functools.cache
def llama_target() -> LlamaModel:
    """It on llama.cpp in float32."""
    return load_llama(gguf_of(target_folder()), "heads-target", FLOAT32)


@functools.cache
def torch_target() -> TransformersModel:
    """It on transformers."""
    return load_transformers(target_folder(), "heads-target", LoadOptions(device="cpu"))


def write_eagle(folder: Path, **options: Any) -> Path:
    """A head in safetensors (see `write_head`)."""
    return write_head(folder, **{"width": WIDTH, "vocabulary": VOCAB, **options})


def eagle_file(folder: Path, kind: str = "F32", **options: Any) -> Path:
    """The same as a GGUF file beside its folder."""
    file = folder.with_name(f"{folder.name}-{kind}.gguf")
    export_head(write_eagle(folder, **options), target_folder(), file, kind)
    return file


def write_blocks(folder: Path, **options: Any) -> Path:
    """A DFlash drafter in safetensors (see `write_dflash`)."""
    return write_dflash(folder, **{"width": WIDTH, "hidden": WIDTH, "head": 16, "vocabulary": VOCAB, **options})


def dflash_file(folder: Path, kind: str = "F32", **options: Any) -> Path:
    """The same as a GGUF file beside its folder."""
    file = folder.with_name(f"{folder.name}-{kind}.gguf")
    export_head(write_blocks(folder, **options), target_folder(), file, kind)
    return file


def load_head(path: Path, target: Any = None) -> Head:
    """The head in a folder or file, beside its target."""
    runtime = llama_target() if path.suffix == ".gguf" else torch_target()
    return find_model(str(path)).beside(path.name, target or runtime)


@functools.cache
def counting() -> tuple[LlamaModel, Head]:
    """A model whose next token is the one after the last, and a head that is right about the first token of each draft: it goes
    by the state of the last token but one, and never by what it drafted itself."""
    from safetensors.torch import load_file, save_file

    folder = room() / "counting-target"
    shutil.copytree(target_folder(), folder)
    weights = load_file(folder / "model.safetensors")
    known = torch.nn.functional.normalize(torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(1)), dim=-1)
    for name, tensor in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()  # a token stands for itself in the residual stream, and the layers add nothing
    weights |= {"model.embed_tokens.weight": known, "lm_head.weight": known.roll(1, 0)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = load_llama(gguf_of(folder), "counting-target", FLOAT32)
    zero, one = torch.zeros, torch.eye(WIDTH)
    changes = {
        "fc.weight": torch.cat((one, zero(WIDTH, 2 * WIDTH)), 1),
        "midlayer.self_attn.o_proj.weight": zero(WIDTH, WIDTH),
        "midlayer.mlp.down_proj.weight": zero(WIDTH, 48),
        "norm.weight": torch.ones(WIDTH),
        "lm_head.weight": known.roll(2, 0),
    }
    return model, load_head(eagle_file(room() / "counting", taps=(0, 1, 2), changes=changes), model)


@functools.cache
def random_gguf_head() -> Head:
    """A head that knows nothing, on llama.cpp."""
    return load_head(eagle_file(room() / "random-eagle3"))


@functools.cache
def random_gguf_blocks() -> Head:
    """A DFlash drafter that knows nothing, on llama.cpp."""
    return load_head(dflash_file(room() / "random-dflash"))
