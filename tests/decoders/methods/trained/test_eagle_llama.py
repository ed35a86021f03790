"""EAGLE on llama.cpp: the target's own tokens, and the drafts that a torch head makes from the same states."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import Model, Sampling
from specchat.backends.heads.base import Head
from specchat.decoders import Conversation, Generation
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.loop import Step

from ....cases import FULL
from ....fakes.models.gguf_heads import counting, eagle_file, llama_target, load_head, random_gguf_head, torch_target
from ....fakes.models.llama_tiny import VOCAB, needs_llama, room

pytestmark = needs_llama

TREE: dict[str, Any] = {"nodes": 16, "depth": 4, "width": 3, "grow": 3}
CHAIN: dict[str, Any] = {"width": 1, "depth": 5}
SAMPLED = Sampling(temperature=0.8, seed=11)


def prompts(count: int, length: int = 12) -> list[list[int]]:
    rng = random.Random(3)
    return [[1, *(rng.randrange(8, VOCAB) for _ in range(length))] for _ in range(count)]


def run(
    model: Model, head: Head | None, prompt: Sequence[int], method: str = "eagle", **options: Any
) -> tuple[list[int], list[Step]]:
    """An answer and its steps."""
    conversation = Conversation(model, head=head, context=256)
    generation = Generation(conversation, prompt, method, **{"max_tokens": 128 if FULL else 40, **options})
    steps = list(generation)
    conversation.close()
    return list(generation.answer), steps


@functools.cache
def torch_head() -> Head:
    """The random head on transformers."""
    random_gguf_head()
    return load_head(room() / "random-eagle3")


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED, Sampling(temperature=1.2, repetition_penalty=1.2, seed=2)])
@pytest.mark.parametrize("settings", [TREE, CHAIN, {"merge": "lookup,recycle", "nodes": 20}])
def test_it_gives_the_targets_own_tokens(settings: dict[str, Any], sampling: Sampling) -> None:
    for prompt in prompts(50 if FULL else 3):
        plain, _ = run(llama_target(), None, prompt, "greedy", sampling=sampling)
        answer, steps = run(llama_target(), random_gguf_head(), prompt, settings=settings, sampling=sampling)
        assert answer == plain
        assert all(step.drafted for step in steps[:-2])


@pytest.mark.parametrize("settings", [TREE, CHAIN])
def test_its_drafts_are_those_of_the_torch_head(settings: dict[str, Any]) -> None:
    """Step by step on the same model in float32: the same trees, from the states of either runtime."""
    for prompt in prompts(20 if FULL else 4):
        ours, ours_steps = run(llama_target(), random_gguf_head(), prompt, settings=settings)
        theirs, theirs_steps = run(torch_target(), torch_head(), prompt, settings=settings)
        assert ours == theirs
        trees = [[(step.tree.tokens, step.tree.parents) for step in steps] for steps in (ours_steps, theirs_steps)]
        assert trees[0] == trees[1]


def test_a_reduced_vocabulary_and_other_taps() -> None:
    head = load_head(eagle_file(room() / "reduced", drafted=300, taps=(0, 1, 5), own_embeddings=True, norm_before_fc=True))
    prompt = prompts(1)[0]
    answer, steps = run(llama_target(), head, prompt, settings=TREE)
    assert answer == run(llama_target(), None, prompt, "greedy")[0]
    assert len({token for step in steps for token in step.tree.tokens[1:]}) <= 300


def test_it_catches_up_after_other_methods_and_in_later_turns() -> None:
    rng = random.Random(8)
    for sampling in (Sampling(), SAMPLED):
        conversation = Conversation(llama_target(), head=random_gguf_head(), context=256)
        prompt = prompts(1)[0]
        for _ in range(6 if FULL else 3):
            generation = Generation(conversation, prompt, "eagle", max_tokens=30, sampling=sampling)
            for _ in generation:
                if rng.random() < 0.4:
                    generation.switch(rng.choice(("eagle", "greedy", "lookup", "recycle")))
            plain, _ = run(llama_target(), None, prompt, "greedy", max_tokens=30, sampling=sampling)
            assert list(generation.answer) == plain
            prompt = [*generation.tokens[: rng.randrange(5, len(generation.tokens))], *prompts(1, 4)[0]]
        conversation.close()


@pytest.mark.parametrize("settings", [TREE, CHAIN])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.2, seed=3)])
def test_a_head_that_is_right_is_believed(settings: dict[str, Any], sampling: Sampling) -> None:
    model, head = counting()
    answer, steps = run(model, head, [1, 70, 71, 72], settings=settings, sampling=sampling, max_tokens=40)
    assert answer == list(range(73, 113))
    assert {len(step.tokens) for step in steps[:-1]} == {2}


@pytest.mark.parametrize("right", [False, True])
def test_the_drafts_of_a_conversation_are_those_of_a_fresh_one(right: bool) -> None:
    """What the head's cache keeps comes from true states only, whatever was drafted, accepted and rejected before."""
    model, head = counting() if right else (llama_target(), random_gguf_head())
    prompt = prompts(1)[0]
    conversation = Conversation(model, head=head, context=256)
    list(Generation(conversation, prompts(2)[1], "eagle", settings=CHAIN, max_tokens=24))
    again = Generation(conversation, prompt, "eagle", settings=TREE, max_tokens=24)
    done = 0
    for step in again:
        tokens = [*prompt, *again.answer[:done]]
        fresh = Conversation(model, head=head, context=256)
        tree = next(Generation(fresh, tokens, "eagle", settings=TREE, max_tokens=24 - done)).tree
        assert (tree.tokens, tree.parents) == (step.tree.tokens, step.tree.parents)
        fresh.close()
        done += len(step.tokens)


def test_at_the_end_of_the_context_it_still_gives_the_targets_tokens() -> None:
    broad = {"nodes": 64, "depth": 8, "width": 8, "grow": 8}
    for length in (238, 246, 253):
        prompt = prompts(1, length - 2)[0]
        plain, _ = run(llama_target(), None, prompt, "greedy", max_tokens=None)
        assert run(llama_target(), random_gguf_head(), prompt, settings=broad, max_tokens=None)[0] == plain


def test_rejection_draws_from_the_heads_distribution() -> None:
    sampling = Sampling(temperature=1.0, top_k=4, seed=5)
    _, steps = run(
        llama_target(), random_gguf_head(), prompts(1)[0], settings=TREE, sampling=sampling, acceptance=Acceptance("rejection")
    )
    drawn = [(step, parent, draws) for step in steps for parent, draws in (step.tree.probs or {}).items()]
    assert drawn
    for step, parent, draws in drawn:
        assert (draws.q > 0).sum() == 4
        assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)
