"""One machine for the same text: whatever drafts, switches, is cancelled or asked next, it is plain decoding's.

Each world is a model on a runtime with what drafts for it. A conversation goes through all of its methods in turn, and what is
asked of each is drawn at random. Every method begins as many answers as any other, which is why hypothesis draws none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.grammars.constraint import regex
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.hf.graphs.graphs import Rerun
from specchat.backends.hf.lean.int8 import works
from specchat.backends.hf.model import load_transformers
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import find_model
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.base import describe_params
from specchat.decoders.parts.ahead import OwnThread
from specchat.decoders.registry import methods

from ..cases import FULL
from ..fakes.answers import one_by_one
from ..fakes.drafters import gguf_heads, heads
from ..fakes.drafters.mtp_files import FAMILIES, Family, mtp_target
from ..fakes.models import gemma
from ..fakes.models.llama_tiny import FLOAT32, needs_llama, room, tiny_llama
from ..fakes.models.thinkers import thinker
from ..fakes.models.tiny import smaller_model, tiny_folder, tiny_model
from ..fakes.models.toy import ToyModel
from ..fakes.prompts import TEXTS
from ..zoo import gguf_files as zoo
from .constrained.cases import CONSTRAINTS
from .talk import ROUNDS, Talk, World

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
    "llama.cpp": lambda: World(tiny_llama(), (tiny_llama(),)),
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


@pytest.mark.parametrize("name", [*WORLDS, *(pytest.param(name, marks=needs_llama) for name in LLAMA)])
def test_whatever_happens_the_text_is_plain_decodings(name: str) -> None:
    if name == "llama, int8" and not works():
        pytest.skip("this CPU multiplies no bytes")
    world = world_of(name)
    ways = world.ways()
    every = [(method, settings) for method, several in ways for settings in several]
    talk = Talk(world, name)
    for number in range(ROUNDS):
        for method, several in ways:
            settings = several[0] if number == 0 else talk.rng.choice(several)
            talk.ask((method, settings), every)
    talk.conversation.close()
    print(f"{name}: {len(ways)} methods, accepted: {dict(talk.accepted)}")
    drafting = {method for method, _ in ways if methods()[method].drafts}
    assert bool(drafting) is world.model.info.capabilities.chain
    if world.prompts:  # which have something to copy, and a model that does
        assert sum(not talk.accepted[method] for method in drafting) < 5


@pytest.mark.parametrize(
    "name", ["llama", "mistral", "bloom", "eagle eagle3", "mtp mimo", pytest.param("llama.cpp", marks=needs_llama)]
)
def test_at_the_end_of_the_context_too(name: str) -> None:
    world = world_of(name)
    world.model.info = replace(world.model.info, eos_ids=())
    rng = Random(name)
    for method, several in world.ways():
        spare = rng.randint(1, 12)
        prompt = [8 + rng.randrange(9) for _ in range(40)]
        context = len(prompt) + spare
        conversation = Conversation(world.model, draft_model=world.drafts or None, head=world.head, context=context)
        generation = Generation(conversation, prompt, method, settings=several[-1])
        list(generation)
        wanted = one_by_one(world.model, prompt, Sampling(), spare + 1)
        assert (generation.answer, generation.finish_reason) == (wanted, "context"), (method, several[-1])
        conversation.close()


def any_settings(method: str, rng: Random) -> dict[str, Any]:
    """Settings from all of their ranges; small numbers are as likely as large ones."""
    out: dict[str, Any] = {}
    for each in describe_params(methods()[method]):
        low, high = each["low"], each["high"]
        match each["type"]:
            case _ if rng.random() < 0.5:
                continue
            case "bool":
                out[each["name"]] = rng.random() < 0.5
            case "int" if low is not None:
                out[each["name"]] = rng.choice([low, low + 1, rng.randint(low, min(9, high or 9) if low < 9 else high)])
            case "float" if None not in (low, high):
                out[each["name"]] = rng.choice([low, rng.uniform(low, high), high])
            case "str" if each["choices"]:
                out[each["name"]] = rng.choice(each["choices"])
    if out.get("min_ngram", 0) > out.get("max_ngram", 3):
        del out["min_ngram"]
    return out


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("method", ["lookup", "fusion", "ngram", "suffix", "recycle", "jacobi", "lookahead", "auto"])
def test_what_drafts_from_the_text_does_so_with_any_settings(method: str, tree: bool) -> None:
    """On models without weights that loop and end, which drafts are often right about."""
    if method == "lookahead" and not tree:
        pytest.skip("it needs trees")
    accepted = 0
    for seed in range(200 if FULL else 12):
        rng = Random(seed)
        model = ToyModel(seed, memory=rng.randint(1, 4), vocabulary=rng.randint(2, 12), tree=tree)
        talk = Talk(World(model, letters=range(len(model.ids))), (method, seed))
        for _ in range(4):
            ways = [(each, any_settings(each, rng)) for each in (method, method, "greedy")]
            talk.ask(ways[0], ways)
        accepted += talk.accepted[method]
        talk.conversation.close()
    assert accepted > 50
