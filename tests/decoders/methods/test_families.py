"""Every method labelled identical gives the plain method's tokens on every family of models, greedy and sampled alike.

A fast subset runs always; SPECCHAT_FULL=1 runs 30 prompts of 200 tokens for each method, family and temperature.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import pytest

from specchat.backends import ROOT, Model, Sampling
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import methods, unavailable

from ...cases import FULL
from ...fakes import answers
from ...fakes.models.tiny import VOCAB, WINDOW, smaller_model, tiny_model

PROMPTS, TOKENS = (30, 200) if FULL else (2, 28)
FAMILIES = ("qwen3", "gpt2", "qwen3-moe", "gemma3", "mistral")
"""gemma3 and mistral have windows of 32 tokens: shorter than the texts here."""
SETTINGS = (Sampling(), Sampling(temperature=0.8, seed=20))
IDENTICAL = [
    name for name, method in methods().items() if method.label == "identical" and not method.head_kind() and name != "greedy"
]
NEAR_TIE = 1e-3
"""Passes over one node and over many round differently. A first difference whose logits are closer than this, in models whose
logits spread over tens, is a near tie and no mistake; none is known, so it fails the test with the gap named."""


@functools.cache
def endless(kind: str) -> Model:
    """A tiny model without an end token: every answer has all its tokens."""
    model = copy(tiny_model(kind))
    model.info = replace(model.info, eos_ids=())
    return model


@functools.cache
def prompts(kind: str) -> list[list[int]]:
    """Random text with something in it twice, so that there is something to look up; some shorter than the window."""
    rng = random.Random(kind)
    out = []
    for _ in range(PROMPTS):
        text = [rng.randrange(4, VOCAB) for _ in range(rng.randint(3, WINDOW - 8))]
        out.append(text + text[: rng.randrange(len(text))])
    return out


@functools.cache
def plain(kind: str, sampling: Sampling) -> list[list[int]]:
    """The plain method's answers."""
    return [answers.plain(endless(kind), prompt, sampling=sampling, max_tokens=TOKENS) for prompt in prompts(kind)]


def explained(kind: str, prompt: Sequence[int], found: Sequence[int], wanted: Sequence[int]) -> str:
    """Where two answers part, and how close the logits are there."""
    at = next(i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b)
    session = endless(kind).open_session()
    text = [*prompt, *wanted[:at]]
    session.prefill(text[:-1])
    scores = session.evaluate(text[-1:], (ROOT,))
    gap = abs(scores.gap(0, found[at]) - scores.gap(0, wanted[at]))
    return f"token {at} is {found[at]}, not {wanted[at]}; {gap:.2g} apart: {'a near tie' if gap < NEAR_TIE else 'a mistake'}"


def through(generation: Generation) -> Generation:
    list(generation)
    return generation


PAIRINGS = [
    pytest.param(method, kind, sampling, id=f"{method}-{kind}-{'greedy' if sampling.greedy else 'sampled'}")
    for number, method in enumerate(IDENTICAL)
    for place, kind in enumerate(FAMILIES)
    for sampling in SETTINGS
    if FULL or (place - number) % len(FAMILIES) == (0 if sampling.greedy else 2)
]
"""Each method on two families, greedy on one and sampled on the other; switching at random meets the other pairs."""


@pytest.mark.parametrize(("method", "kind", "sampling"), PAIRINGS)
def test_tokens_are_the_plain_methods(method: str, kind: str, sampling: Sampling) -> None:
    model = endless(kind)
    assert not unavailable(methods()[method], model.info.capabilities)
    # One conversation: what the method learns from one answer it brings to the next.
    conversation = Conversation(model, draft_model=smaller_model(kind))
    for prompt, wanted in zip(prompts(kind), plain(kind, sampling), strict=True):
        generation = through(Generation(conversation, prompt, method, sampling=sampling, max_tokens=TOKENS))
        assert len(generation.answer) == TOKENS
        assert generation.answer == wanted, explained(kind, prompt, generation.answer, wanted)
        assert conversation.session.length == len(generation.tokens) - 1
    conversation.close()


@pytest.mark.parametrize("sampling", SETTINGS, ids=("greedy", "sampled"))
@pytest.mark.parametrize("kind", FAMILIES)
def test_switching_at_random_steps_changes_no_token(kind: str, sampling: Sampling) -> None:
    rng = random.Random(kind)
    conversation = Conversation(endless(kind), draft_model=smaller_model(kind))
    for prompt, wanted in zip(prompts(kind), plain(kind, sampling), strict=True):
        generation = Generation(conversation, prompt, "greedy", sampling=sampling, max_tokens=TOKENS)
        for _ in generation:
            if rng.random() < 0.3:
                generation.switch(rng.choice(["greedy", *IDENTICAL]))
        assert generation.answer == wanted, explained(kind, prompt, generation.answer, wanted)
    conversation.close()


def test_drafts_are_accepted_on_random_models_too() -> None:
    # A matrix of methods that draft nothing would be green as well.
    accepted = dict.fromkeys(IDENTICAL, 0)
    drafting = {name for name in IDENTICAL if methods()[name].drafts}
    for name in drafting:
        # Of the depths that early exit compares, measured times would decide which gets the rounds.
        settings = {"layers": 2} if name == "early-exit" else None
        for kind in ("gpt2", "mistral"):
            conversation = Conversation(endless(kind), draft_model=smaller_model(kind))
            for prompt, answer in zip(prompts(kind)[:2], plain(kind, SETTINGS[0])[:2], strict=True):
                # What the model is about to write stands in the prompt already.
                text = [*prompt, *answer[:60], *prompt]
                generation = through(Generation(conversation, text, name, settings=settings, max_tokens=32))
                accepted[name] += generation.totals.accepted
    assert {name for name in drafting if not accepted[name]} <= {"auto"}, accepted


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_answer_ends_where_the_plain_method_ends_it(kind: str) -> None:
    # What it writes after a while is made an end token, so that drafts run into an end.
    prompt, answer = prompts(kind)[0], plain(kind, SETTINGS[0])[0]
    model = copy(tiny_model(kind))
    model.info = replace(model.info, eos_ids=(answer[TOKENS // 2], VOCAB - 1))
    wanted = answer[: answer.index(answer[TOKENS // 2]) + 1]
    for method in IDENTICAL:
        found = through(Generation(Conversation(model, draft_model=smaller_model(kind)), prompt, method, max_tokens=TOKENS))
        assert (found.answer, found.finish_reason) == (wanted, "eos"), method
