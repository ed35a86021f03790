"""Loaded drafters with random weights, and some that are always right, each beside its target."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specchat.backends import LoadOptions
from specchat.backends.files.checkpoint import check_folder
from specchat.backends.heads.base import Kind
from specchat.backends.heads.folders import read_format
from specchat.backends.heads.load import load_head
from specchat.backends.hf.model import TransformersModel, load_transformers

from ..models.tiny import VOCAB, hidden, network, room, tiny_model, write_model
from .dflash_files import Paths, write_dflash
from .head_files import Style, load_weights, write_head, write_medusa

LAYERS = 6
"""Layers of the target."""


@functools.cache
def target() -> TransformersModel:
    """A tiny model deep enough to have the usual three taps: 2, 3 and 3 of six layers."""
    return load_transformers(target_folder(), "target", LoadOptions(device="cpu"))


@functools.cache
def target_folder() -> Path:
    return write_model("llama", room() / "heads-target", num_hidden_layers=LAYERS)


def states_of(text: Sequence[int], taps: Sequence[int]) -> Tensor:
    """The hidden states of `target` at all tokens of a text, by transformers itself."""
    return hidden(network(target_folder()), text, taps)


def load(folder: Path, model: TransformersModel | None = None) -> Any:
    layout = read_format(folder, check_folder(folder))
    assert layout is not None
    return load_head(layout, folder.name, model or target())


@functools.cache
def random_medusa() -> Any:
    return load(write_medusa(room() / "random-medusa"))


@functools.cache
def right_medusa() -> Any:
    """Heads that always draft what `cyclic_target` chooses: they are nothing but an LM head each."""
    changes = {f"{head}.0.weight": 2 * torch.eye(VOCAB).roll(head + 2, 0) for head in range(3)}
    return load(write_medusa(room() / "right-medusa", heads=3, blocks=0, changes=changes), cyclic_target())


@functools.cache
def random_dflash() -> Any:
    return load(write_dflash(room() / "random-dflash"))


@functools.cache
def random_paths(paths: Paths) -> Any:
    """A drafter that knows nothing and whose guesses go by the token before, for `target`."""
    return load(write_dflash(room() / f"random-{paths}", paths=paths))


def _stepping_on(name: str, target: TransformersModel, second: bool, follows: Tensor) -> Any:
    """A DFlash 2 or DSpark drafter for which the token before alone says what follows it, by `follows` [vocab, vocab]."""
    one, zero = torch.eye(VOCAB), torch.zeros(VOCAB, VOCAB)
    changes = {
        "fc.weight": torch.zeros(VOCAB, 2 * VOCAB),
        "embed_tokens.weight": torch.ones(VOCAB, VOCAB),
        "lm_head.weight": zero,
    }
    changes |= {"norm.weight": torch.ones(VOCAB), "layers.0.mlp.down_proj.weight": torch.zeros(VOCAB, 48)}
    changes["layers.0.self_attn.o_proj.weight"] = zero
    if second:
        prefix = "candidate_selector."
        changes |= {f"{prefix}predecessor_codebook": one, f"{prefix}successor_codebook": follows}
        changes[f"{prefix}hidden_projection.weight"] = one
    else:
        changes |= {"markov_head.markov_w1.weight": one, "markov_head.markov_w2.weight": follows}
    sizes: dict[str, Any] = {
        "layers": 1, "block": 4 if second else 3, "rank": VOCAB, "candidates": VOCAB, "own_embeddings": True,
    }  # fmt: skip
    sizes |= {"heads": 2, "head": VOCAB // 2, "width": VOCAB, "hidden": VOCAB, "paths": "dflash2" if second else "vanilla"}
    return load(write_dflash(room() / name, changes=changes, **sizes), target)


@functools.cache
def right_paths(second: bool) -> Any:
    """A drafter that always drafts what `cyclic_target` chooses, three tokens at a time."""
    return _stepping_on(f"right-paths-{second}", cyclic_target(), second, 8 * torch.eye(VOCAB).roll(1, 0))


@functools.cache
def unsure_paths() -> Any:
    """A DSpark drafter that drafts tokens of `unsure_target`, with other probabilities."""
    return _stepping_on("unsure-paths", unsure_target(), False, VOCAB**0.5 * _following(1, (1.0, 1.6, 1.2)))


@functools.cache
def right_dflash() -> Any:
    """A drafter that always drafts what `cyclic_target` chooses: position n stands for the token n after the pending one. Each
    layer hands what the position before stands for on to the next, one token further."""
    zero, one, positions = torch.zeros(VOCAB, VOCAB), torch.eye(VOCAB), 3
    changes = {
        "fc.weight": torch.zeros(VOCAB, 2 * VOCAB),
        "embed_tokens.weight": 1000 * one.index_fill(0, torch.tensor(3), 0.0),
        "lm_head.weight": 8 * one,
        "norm.weight": torch.ones(VOCAB),
    }
    for i in range(positions):
        prefix = f"layers.{i}."
        changes |= {f"{prefix}self_attn.{name}_proj.weight": zero for name in "qk"}
        changes |= {f"{prefix}self_attn.v_proj.weight": one.roll(1, 0), f"{prefix}self_attn.o_proj.weight": one}
        changes[f"{prefix}mlp.down_proj.weight"] = torch.zeros(VOCAB, 48)
        changes[f"{prefix}input_layernorm.weight"] = torch.ones(VOCAB)
    options: dict[str, Any] = {"layer_types": ["sliding_attention"] * positions, "sliding_window": 2, "own_embeddings": True}
    options |= {"layers": positions, "block": positions + 1, "heads": 2, "head": VOCAB // 2, "width": VOCAB, "hidden": VOCAB}
    return load(write_dflash(room() / "right-dflash", changes=changes, **options), cyclic_target())


@functools.cache
def random_head(style: Style = "eagle3") -> Any:
    return load(write_head(room() / f"random-{style}", style))


@functools.cache
def tiny_head(kind: Kind) -> Any:
    """A head of a kind that knows nothing, for tiny.py's Llama."""
    folder = room() / f"tiny-{kind}"
    if kind == "dflash":
        return load(write_dflash(folder, taps=(0, 1)), tiny_model("llama"))
    head = load(write_medusa(folder) if kind == "medusa" else write_head(folder), tiny_model("llama"))
    if kind == "mtp":  # which no Llama has; it drafts as an EAGLE head does
        head.info = replace(head.info, kind=kind)
    return head


def _cyclic(name: str, lm_head: Tensor) -> TransformersModel:
    """A model that knows its last token alone, which `lm_head` turns into the next; its layers add nothing."""
    folder = room() / name
    write_model("llama", folder, num_hidden_layers=LAYERS, hidden_size=VOCAB, num_attention_heads=4, head_dim=8)
    weights = load_weights(folder)
    for tensor_name, tensor in weights.items():
        if tensor_name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    weights["model.embed_tokens.weight"] = torch.eye(VOCAB)
    weights["lm_head.weight"] = lm_head.index_fill(0, torch.tensor([1]), 0.0)  # no end
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return load_transformers(folder, name, LoadOptions(device="cpu"))


def _following(first: int, logits: Sequence[float]) -> Tensor:
    """An LM head that gives these logits to the tokens from the `first` after the last on [vocab, vocab]."""
    out = torch.zeros(VOCAB, VOCAB)
    for ahead, logit in enumerate(logits, first):
        out += logit * torch.eye(VOCAB).roll(ahead, 0) / VOCAB**0.5
    return out


@functools.cache
def cyclic_target() -> TransformersModel:
    """A model whose next token is the one after the last, whatever came before."""
    return _cyclic("cyclic", 2 * torch.eye(VOCAB).roll(1, 0))


@functools.cache
def unsure_target() -> TransformersModel:
    """A model that is not sure which of the three tokens after the last comes next."""
    return _cyclic("unsure", _following(1, (2.0, 1.4, 1.0)))


def _handing_on(name: str, target: TransformersModel, scale: float) -> Any:
    """A head that hands the token's embedding on to the target's LM head, so large."""
    folder = write_head(room() / name, "eagle1", hidden=VOCAB)
    weights = load_weights(folder)
    for tensor_name, tensor in weights.items():
        if tensor_name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    weights["fc.weight"] = torch.cat((scale * torch.eye(VOCAB), torch.zeros(VOCAB, VOCAB)), 1)
    save_file(weights, folder / "model.safetensors")
    return load(folder, target)


@functools.cache
def right_head() -> Any:
    """The head that always drafts what `cyclic_target` chooses, and is as sure of it."""
    return _handing_on("right", cyclic_target(), VOCAB**0.5)


@functools.cache
def unsure_head() -> Any:
    """A head that drafts the tokens of `unsure_target`, but prefers none as much: its distribution is another one."""
    return _handing_on("unsure-head", unsure_target(), 0.2 * VOCAB**0.5)
