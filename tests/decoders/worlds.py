"""Models on both runtimes with what drafts for them, for tests that go through all of a model's methods."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cache, partial
from typing import Any

from specchat.backends import LoadOptions, Model, load_model
from specchat.backends.grammars.constraint import regex
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.hf.graphs.graphs import Rerun
from specchat.backends.hf.model import load_transformers
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import find_model
from specchat.decoders import encode_prompt
from specchat.decoders.parts.ahead import OwnThread

from ..cases import FULL
from ..fakes.drafters import gguf_heads, heads
from ..fakes.drafters.mtp_files import FAMILIES, Family, mtp_target
from ..fakes.models import gemma
from ..fakes.models.llama_tiny import FLOAT32, room, tiny_llama
from ..fakes.models.thinkers import thinker
from ..fakes.models.tiny import smaller_model, tiny_folder, tiny_model
from ..fakes.prompts import TEXTS
from ..zoo import gguf_files as zoo
from .constrained.cases import CONSTRAINTS
from .talk import World

ARCHITECTURES: tuple[str, ...] = ("gemma2", "lfm2", "mamba2", "qwen35")
if FULL:
    ARCHITECTURES += (
        "qwen3next",
        "minimax-01",
        "granitehybrid",
        "falcon-h1",
        "plamo2",
        "jamba",
        "kimi-linear",
        "rwkv7",
        "deepseek4",
    )
"""Windows, snapshots of states, and states that are kept here, on llama.cpp."""
LETTERS = {"letters": regex("[a-z]{3} [A-Z]{4,30}[.!]")}


def endless(kind: str, **runner: Any) -> World:
    """A tiny model on transformers."""
    model: Any = copy(tiny_model(kind))
    model._runner = replace(model._runner, **runner)  # as a GPU would have it, with `graphs`
    if kind == "bloom":  # whose layers can be left out whole only, which an answer that has begun is told
        return World(model, (model,), constraints=LETTERS, without=("early-exit",))
    return World(model, (smaller_model(kind), model), constraints=LETTERS)


def int8() -> World:
    model = load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu", dtype="int8"))
    return World(model, (smaller_model("llama"),))


def built_in(*, ahead: bool = False, eagle: bool = False, **options: Any) -> World:
    """The built-in models; their ids are words."""
    given = LoadOptions(device="cpu", threads=1, **options)
    target, draft = load_model("builtin", given), load_model("builtin-draft", given)
    asked = ("Write as JSON: name Anna, age 20, city Paris.", f"Repeat this text exactly: {TEXTS[0]}")
    prompts = [encode_prompt(target, text) for text in asked]
    constraints = {name: CONSTRAINTS[name] for name in ("flat", "regex")}
    if ahead:
        return World(target, (OwnThread(lambda: load_model("builtin-draft", given)),), constraints=constraints, prompts=prompts)
    if eagle:
        return World(target, head=find_model("builtin-eagle", given).beside("builtin-eagle", target), prompts=prompts)
    return World(target, (draft,), constraints=constraints, prompts=prompts)


def drafted(target: Callable[[], Model], head: Callable[[], Head]) -> World:
    return World(target(), head=head())


def mtp(family: Family, layers: int = 1) -> World:
    target = mtp_target(family, layers=layers)
    return World(target, head=load_mtp(target))


def in_zoo(architecture: str) -> World:
    file = room() / f"same-{architecture}.gguf"
    model = load_llama(zoo.write(architecture, file), architecture, FLOAT32)
    return World(model, (model,))


def glm() -> World:
    from specchat.backends.llama.drafters.load import load_gguf_mtp

    return World(gguf_heads.glm_llama(), head=load_gguf_mtp(gguf_heads.glm_llama()))


def thinking(name: str, runtime: str) -> World:
    model = thinker(name, runtime)
    return World(model, begins=encode_prompt(model, "Hi"))


WORLDS: dict[str, Callable[[], World]] = {
    **{kind: partial(endless, kind) for kind in ("llama", "qwen3", "gpt2", "qwen3-moe", "gemma3", "mistral", "bloom")},
    "llama, recorded": partial(endless, "llama", graphs=Rerun),
    "llama, int8": int8,
    "built-in": partial(built_in, backend="transformers"),
    "built-in, drafted ahead": partial(built_in, ahead=True, backend="transformers"),
    "built-in, eagle": partial(built_in, eagle=True, backend="transformers"),
    **{f"eagle {style}": partial(drafted, heads.target, partial(heads.random_head, style)) for style in ("eagle1", "eagle3")},
    "medusa": partial(drafted, heads.target, heads.random_medusa),
    "dflash": partial(drafted, heads.target, heads.random_dflash),
    **{
        f"dflash {paths}": partial(drafted, heads.target, partial(heads.random_paths, paths))
        for paths in ("vanilla", "gated", "rnn", "dflash2")
    },
    "assistant": partial(drafted, gemma.gemma, gemma.random_assistant),
    **{f"mtp {family}": partial(mtp, family) for family in FAMILIES},
    "mtp glm4-moe, 3 layers": partial(mtp, "glm4-moe", 3),
    "opened": partial(thinking, "opened", "transformers"),
}
LLAMA: dict[str, Callable[[], World]] = {
    "llama.cpp": lambda: World(tiny_llama(), (tiny_llama(), gguf_heads.llama_target())),
    "llama.cpp built-in": partial(built_in, backend="llama.cpp"),
    "llama.cpp built-in, drafted ahead": partial(built_in, ahead=True, backend="llama.cpp"),
    "llama.cpp built-in, eagle": partial(built_in, eagle=True, backend="llama.cpp"),
    **{f"llama.cpp {architecture}": partial(in_zoo, architecture) for architecture in ARCHITECTURES},
    "llama.cpp eagle": partial(drafted, gguf_heads.llama_target, gguf_heads.random_gguf_head),
    "llama.cpp dflash": partial(drafted, gguf_heads.llama_target, gguf_heads.random_gguf_blocks),
    "llama.cpp dspark": partial(drafted, gguf_heads.llama_target, partial(gguf_heads.random_gguf_paths, "dspark")),
    "llama.cpp dflash2": partial(drafted, gguf_heads.llama_target, partial(gguf_heads.random_gguf_paths, "dflash2")),
    "llama.cpp mtp": glm,
    "llama.cpp assistant": partial(drafted, gemma.gemma_llama, gemma.random_assistant_file),
    "llama.cpp channels": partial(thinking, "channels", "llama.cpp"),
}


@cache
def world_of(name: str) -> World:
    return (WORLDS | LLAMA)[name]()
