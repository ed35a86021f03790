"""What drafts by n-gram, suffix, recycling, Jacobi and lookahead share: the plain method's tokens, on toys, and limits."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.base import Sampling
from specchat.decoders.conversation import Conversation
from specchat.decoders.loop import Generation
from specchat.decoders.parts.drafting import Trie, drawn

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting, run

METHODS = ["ngram", "suffix", "recycle", "jacobi", "lookahead"]
CHAINS = METHODS[:4]
SETTINGS: dict[str, dict[str, tuple[object, ...]]] = {
    "ngram": {"n": (2, 3, 7), "key": (1, 2, 5), "completions": (1, 3), "nodes": (1, 2, 12), "fill": ("none", "random")},
    "suffix": {
        "factor": (0.5, 1.0, 4.0),
        "floor": (0.0, 0.1, 0.5),
        "tree": (True, False),
        "depth": (4, 64),
        "past": (0, 1, 100),
    },
    "recycle": {"successors": (1, 2, 8), "nodes": (1, 2, 20), "shape": ("measured", "fixed"), "text": (True, False)},
    "jacobi": {"tokens": (1, 2, 7), "slide": (True, False), "start": ("text", "repeat"), "seed": (0, 1)},
    "lookahead": {"window": (1, 2, 6), "ngram": (2, 3, 5), "guesses": (1, 4), "text": (True, False), "seed": (0, 1)},
}
FLOORS = {"ngram": 2.0, "suffix": 2.0, "recycle": 1.5, "jacobi": 1.05, "lookahead": 1.5}
"""Tokens per step on text that repeats itself."""
SEEDS = st.integers(0, 10**6)
SAMPLINGS = st.sampled_from([Sampling(), Sampling(temperature=0.8, seed=3)])


def toys(tree: bool = True) -> st.SearchStrategy[ToyModel]:
    return st.builds(
        ToyModel, SEEDS, memory=st.integers(1, 4), vocabulary=st.integers(2, 12), ends=st.booleans(), tree=st.just(tree)
    )


def pick(method: str, rng: random.Random) -> dict[str, Any]:
    """Random settings of a method."""
    return {name: rng.choice(values) for name, values in SETTINGS[method].items() if rng.random() < 0.7}


def prompt_of(rng: random.Random, model: ToyModel) -> list[int]:
    return [rng.choice(model.ids[:-1]) for _ in range(rng.randint(1, 30))]


@cases(60)
@given(st.sampled_from(METHODS), toys(), SAMPLINGS, SEEDS)
def test_the_tokens_are_those_of_the_plain_method(method: str, model: ToyModel, sampling: Sampling, seed: int) -> None:
    rng = random.Random(seed)
    prompt = prompt_of(rng, model)
    generation = Generation(Conversation(model), prompt, method, settings=pick(method, rng), sampling=sampling, max_tokens=120)
    assert run(generation).answer == plain(model, prompt, 120, sampling)


@cases(60)
@given(toys(), SAMPLINGS, SEEDS)
def test_switching_and_new_settings_at_random_steps_change_no_token(model: ToyModel, sampling: Sampling, seed: int) -> None:
    rng = random.Random(seed)
    conversation = Conversation(model)
    prompt = prompt_of(rng, model)
    for _ in range(3):  # turns
        answer = plain(model, prompt, 60, sampling)
        generation = Generation(conversation, prompt, "greedy", max_tokens=60, sampling=sampling)
        for _ in generation:
            if rng.random() < 0.3:
                method = rng.choice(METHODS)
                generation.switch(method, pick(method, rng))
        assert generation.answer == answer
        # The next turn goes on from this one, or from an earlier place in it.
        prompt = (prompt + answer)[: rng.randint(1, len(prompt + answer))] + prompt_of(rng, model)


@cases(40)
@given(st.sampled_from(CHAINS), toys(tree=False), SEEDS)
def test_a_model_without_trees_gets_chains(method: str, model: ToyModel, seed: int) -> None:
    rng = random.Random(seed)
    prompt = prompt_of(rng, model)
    generation = Generation(Conversation(model), prompt, method, settings=pick(method, rng), max_tokens=80)
    for step in generation:
        assert step.tree.parents == list(range(-1, len(step.tree) - 1))
    assert generation.answer == plain(model, prompt, 80)


@pytest.mark.parametrize("method", METHODS)
def test_limits_of_tokens_and_of_the_context_are_exact(method: str) -> None:
    model, prompt = ToyModel(5, vocabulary=3), [0, 1, 2, 0, 1, 2, 0, 1]
    conversation = Conversation(model)
    run(Generation(conversation, prompt, method, max_tokens=50))  # so that there is something to draft
    for limit in range(1, 10):
        generation = run(Generation(conversation, prompt, method, max_tokens=limit))
        assert (generation.answer, generation.finish_reason) == (plain(model, prompt, limit), "length")
    for spare in range(1, 40, 3):
        generation = run(Generation(Conversation(model, context=len(prompt) + spare), prompt, method))
        assert (generation.answer, generation.finish_reason) == (plain(model, prompt, spare + 1), "context")


@pytest.mark.parametrize(("method", "floor"), FLOORS.items())
def test_repetitive_text_is_drafted(method: str, floor: float) -> None:
    rates = []
    for seed in range(8):
        model = ToyModel(seed, vocabulary=5)
        totals = run(Generation(Conversation(model), [0, 1, 2], method, max_tokens=150)).totals
        assert totals.accepted > 0
        rates.append(totals.tokens_per_step)
    assert sum(rates) / len(rates) > floor, rates


def test_a_trie_has_no_equal_siblings_and_keeps_its_budget() -> None:
    trie = Trie(9, 6)
    assert trie.add([1, 2, 3]) == [1, 2, 3]
    assert trie.add([1, 2, 4]) == [1, 2, 4]
    assert trie.add([1, 2], parent=3) == [5]
    assert trie.add([1, 2, 3, 1]) == [1, 2, 3, 5]
    assert (trie.tree.tokens, trie.tree.parents) == ([9, 1, 2, 3, 4, 1], [-1, 0, 1, 2, 2, 3])


def test_drawn_tokens_are_of_the_text_and_repeat_by_seed() -> None:
    text = [1, 2, 3, 99, 4]
    some = drawn(text, 50, 1, {99})
    assert some == drawn(text, 50, 1, {99}) != drawn(text, 50, 2, {99})
    assert set(some) == {1, 2, 3, 4}
    assert drawn(text, 50, 1, {99}) != drawn([*text, 4], 50, 1, {99}), "another place, other tokens"
    assert drafting(text).pending == 4
