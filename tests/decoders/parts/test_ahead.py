"""Drafting on while the target verifies: the same tokens on both runtimes, what it wastes, and what happens when it fails. What
it thinks of its chances is replaced, so that a random model drafts on."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, Sampling, Scores, UserError, load_model
from specchat.decoders import Acceptance, Conversation, Generation, Step, Verified, encode_prompt
from specchat.decoders.parts import ahead as module
from specchat.decoders.parts.ahead import Ahead, OwnThread

from ...cases import FULL
from ...fakes.answers import answered
from ...fakes.models.tiny import tiny_model
from ...fakes.prompts import TEXTS

PROMPT = "Write a short story about a lighthouse keeper and a lost boat."
TOKENS = 64 if FULL else 40

RUNTIMES = ["transformers", *(["llama.cpp"] if importlib.util.find_spec("llama_cpp") else [])]


@functools.cache
def pair(backend: str) -> tuple[Model, Model, OwnThread]:
    """The built-in model, its draft model, and that once more in a thread of its own."""
    options = LoadOptions(device="cpu", threads=1, backend=backend)
    target, draft = load_model("builtin", options), load_model("builtin-draft", options)
    return target, draft, OwnThread(lambda: load_model("builtin-draft", options))


@pytest.fixture(params=RUNTIMES)
def models(request: pytest.FixtureRequest) -> tuple[Model, Model, OwnThread]:
    return pair(str(request.param))


def answer(
    target: Model, draft: Model | None, method: str = "draft", prompt: str | Sequence[int] = PROMPT, **options: Any
) -> tuple[list[int], list[Step]]:
    generation, steps = answered(target, prompt, method, draft=draft, **{"max_tokens": TOKENS, **options})
    return generation.answer, steps


@pytest.fixture
def slow_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every verdict came late: what can be drafted on has been."""
    real = Ahead.judge

    def judge(self: Ahead, verified: Verified) -> None:
        if self._job is not None:
            self._job.exception()
        real(self, verified)

    monkeypatch.setattr(Ahead, "judge", judge)


def ahead(steps: Sequence[Step]) -> tuple[int, int]:
    """Tokens drafted on, and those that were thrown away."""
    return sum(step.ahead for step in steps), sum(step.wasted for step in steps)


@pytest.mark.parametrize(
    ("settings", "sampling", "rule"),
    [
        ({}, {}, "exact"),
        ({"schedule": "constant", "tokens": 2}, {"temperature": 0.8, "seed": 7}, "exact"),
        ({"schedule": "constant", "tokens": 2, "cascade": False}, {"temperature": 0.8, "seed": 7}, "rejection"),
        # Drafts whose lengths nobody knows beforehand.
        ({"schedule": "confidence", "cascade": False}, {"temperature": 0.8, "seed": 7}, "rejection"),
    ],
)
def test_the_tokens_do_not_change(
    models: tuple[Model, Model, OwnThread], slow_target: None, settings: dict[str, Any], sampling: dict[str, Any], rule: str
) -> None:
    target, draft, own = models
    how: dict[str, Any] = {"sampling": Sampling(**sampling), "acceptance": Acceptance.parse(rule), "settings": settings}
    for prompt in (PROMPT, f"Repeat this text exactly: {TEXTS[0]}")[: 1 + FULL]:
        wanted, _ = answer(target, draft, prompt=prompt, **how)
        found, steps = answer(target, own, prompt=prompt, **how)
        assert found == wanted
        assert rule != "exact" or wanted == answer(target, None, "greedy", prompt, sampling=how["sampling"])[0]
        made, wasted = ahead(steps)
        assert made > 0
        assert wasted <= made
        how["settings"] = {**settings, "ahead": False}
        assert ahead(answer(target, own, prompt=prompt, **how)[1]) == (0, 0)
        how["settings"] = settings


def test_one_draft_begins_where_the_one_before_drafted_on(slow_target: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 0.0)  # a random model is never sure, not even of its own choice
    model = tiny_model("llama")
    conversation = Conversation(model, draft_model=OwnThread(lambda: model))
    settings = {"schedule": "constant", "tokens": 3, "cascade": False}
    generation = Generation(conversation, range(9, 30), "draft", settings=settings, max_tokens=41)
    session = generation.drafter._proposer.session  # type: ignore[attr-defined]
    for step in generation:
        assert step.wasted == 0
        assert len(step.tokens) == min(4, 41 - sum(generation.totals.runs[:-1]))
    assert generation.answer == answer(model, None, "greedy", range(9, 30), max_tokens=41)[0]
    assert session.nodes_evaluated <= 21 + 41  # none twice
    conversation.close()


def test_what_the_target_does_not_want_is_thrown_away(slow_target: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 0.0)
    target, other = tiny_model("llama"), tiny_model("mistral")
    settings = {"schedule": "constant", "tokens": 2, "cascade": False}
    found, steps = answer(target, OwnThread(lambda: other), "draft", range(9, 30), settings=settings)
    assert found == answer(target, None, "greedy", range(9, 30))[0]
    refused = [step for step in steps[:-1] if step.accepted < step.drafted]
    assert refused
    for step in refused:
        assert step.ahead <= step.wasted
    made, wasted = ahead(steps)
    assert 0 < sum(step.wasted for step in refused) <= wasted <= made


def test_an_error_in_the_thread_is_one_sentence(
    models: tuple[Model, Model, OwnThread], slow_target: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _, own = models
    ids = encode_prompt(target, PROMPT)
    wanted, _ = answer(target, None, "greedy")
    conversation = Conversation(target, draft_model=own)
    with monkeypatch.context() as patch:
        real = Ahead._draft_ahead

        def fails(self: Ahead, most: int, length: int, nodes: int) -> None:
            def evaluate(*args: Any) -> Scores:
                raise UserError("There was not enough memory on cpu.")

            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(self.session, "evaluate", evaluate)
                real(self, most, length, nodes)

        patch.setattr(Ahead, "_draft_ahead", fails)
        generation = Generation(conversation, ids, "draft", max_tokens=TOKENS)
        with pytest.raises(UserError, match=r"^There was not enough memory on cpu\.$"):
            list(generation)
        assert generation.answer
        assert generation.answer == wanted[: len(generation.answer)]
    again = Generation(conversation, ids, "draft", max_tokens=TOKENS)
    list(again)
    assert again.answer == wanted
    conversation.close()
