"""One machine for the same text: whatever drafts, switches, is cancelled or asked next, it is plain decoding's. Every method of
a world begins as many answers as any other, which is why hypothesis draws none of this."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from specchat.backends import Sampling
from specchat.backends.hf.lean.int8 import works
from specchat.decoders import Conversation, Generation, describe_params
from specchat.decoders.registry import methods

from ..cases import FULL
from ..fakes.answers import one_by_one
from ..fakes.models.llama_tiny import needs_llama
from ..fakes.models.toy import ToyModel
from .worlds import LLAMA, ROUNDS, WORLDS, Talk, World, world_of


@pytest.mark.parametrize("name", [*WORLDS, *(pytest.param(name, marks=needs_llama) for name in LLAMA)])
def test_whatever_happens_the_text_is_plain_decodings(name: str) -> None:
    if name == "llama, int8" and not works():
        pytest.skip("this CPU multiplies no bytes")
    world = world_of(name)
    choices = world.ways()
    every = [(method, settings) for method, several in choices for settings in several]
    talk = Talk(world, name)
    for number in range(ROUNDS):
        for method, several in choices:
            settings = several[0] if number == 0 else talk.rng.choice(several)
            talk.ask((method, settings), every)
    talk.conversation.close()
    print(f"{name}: {len(choices)} methods, accepted: {dict(talk.accepted)}")
    drafting = {method for method, _ in choices if methods()[method].drafts}
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
        expected = one_by_one(world.model, prompt, Sampling(), spare + 1)
        assert (generation.answer, generation.finish_reason) == (expected, "context"), (method, several[-1])
        conversation.close()


def any_settings(method: str, rng: Random) -> dict[str, Any]:
    """Settings from all of their ranges; small numbers are as likely as large ones."""
    out: dict[str, Any] = {}
    for param in describe_params(methods()[method]):
        low, high = param["low"], param["high"]
        match param["type"]:
            case _ if rng.random() < 0.5:
                continue
            case "bool":
                out[param["name"]] = rng.random() < 0.5
            case "int" if low is not None:
                out[param["name"]] = rng.choice([low, low + 1, rng.randint(low, min(9, high or 9) if low < 9 else high)])
            case "float" if None not in (low, high):
                out[param["name"]] = rng.choice([low, rng.uniform(low, high), high])
            case "str" if param["choices"]:
                out[param["name"]] = rng.choice(param["choices"])
    return out


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("method", ["lookup", "fusion", "ngram", "suffix", "recycle", "jacobi", "lookahead", "auto"])
def test_what_drafts_from_the_text_does_so_with_any_settings(method: str, tree: bool) -> None:
    """The models have no weights, and loop and end: drafts are often right about them."""
    if method == "lookahead" and not tree:
        pytest.skip("it needs trees")
    accepted = 0
    for seed in range(200 if FULL else 12):
        rng = Random(seed)
        model = ToyModel(seed, memory=rng.randint(1, 4), vocabulary=rng.randint(2, 12), tree=tree)
        talk = Talk(World(model, letters=range(len(model.ids))), (method, seed))
        for _ in range(4):
            choices = [(name, any_settings(name, rng)) for name in (method, method, "greedy")]
            talk.ask(choices[0], choices)
        accepted += talk.accepted[method]
        talk.conversation.close()
    assert accepted > 50
