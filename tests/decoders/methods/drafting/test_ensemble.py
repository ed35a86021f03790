"""Several draft models that grow one token tree: the same text in fewer passes, and more nodes for the better of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.decoders import Generation
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.loop import Step

from ....cases import FULL, only_full
from ....fakes.answers import answered, plain
from ....fakes.models.tiny import tiny_model
from ....fakes.prompts import TEXTS

PROMPTS = ("Tell me a story about a dog.", f"Repeat this text exactly: {TEXTS[0]}", *(TEXTS if FULL else ()))
TOKENS = 64 if FULL else 48


@pytest.fixture(scope="module")
def drafts(draft_model: Model) -> tuple[Model, Model]:
    """Two draft models, the better one first."""
    options = LoadOptions(device="cpu", dtype="float32", backend="transformers", threads=1)
    return draft_model, load_model("builtin-draft", options)


def run(
    target: Model, drafts: Sequence[Model], prompt: str, settings: Any = None, *, method: str = "tree", **more: Any
) -> tuple[Generation, list[Step]]:
    """An answer and its steps."""
    return answered(target, prompt, method, settings, draft=drafts, **{"max_tokens": TOKENS, **more})


@pytest.mark.parametrize(
    ("settings", "temperature"),
    [
        ({}, 0.0),
        ({"expansion": "3,2,1,1", "nodes": 24}, 0.8),
        pytest.param({}, 0.8, marks=only_full),
        pytest.param({"merge": "lookup,recycle", "nodes": 24}, 0.0, marks=only_full),
    ],
)
def test_a_tree_of_several_models_is_accepted_and_changes_no_token(
    builtin_model: Model, drafts: tuple[Model, Model], settings: Any, temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, seed=4)
    most = 1 + 2 * 21 if "expansion" in settings else settings.get("nodes", 20)  # each model's expansion is whole
    for prompt in PROMPTS:
        generation, steps = run(builtin_model, drafts, prompt, settings, sampling=sampling)
        assert generation.answer == plain(builtin_model, prompt, sampling=sampling, max_tokens=TOKENS)
        assert generation.totals.tokens_per_step >= 2.0
        assert {"draft", "draft-2"} <= set(generation.totals.parts)
        assert all(part.drafted > 0 for part in generation.totals.parts.values())
        for step in steps:
            if step.drafted:
                assert len(step.sources) == len(step.tree) <= most
                assert step.sources[0] == 0
                assert all(0 < source < 1 << len(step.drafters) for source in step.sources[1:])
                assert sum(step.shares) == pytest.approx(1)


def test_only_those_that_are_named_draft(builtin_model: Model, drafts: tuple[Model, Model]) -> None:
    for name, only in (("draft", drafts[0]), ("draft-2", drafts[1])):
        named, _ = run(builtin_model, drafts, PROMPTS[0], {"merge": name})
        alone, _ = run(builtin_model, (only,), PROMPTS[0])
        assert named.totals.runs == alone.totals.runs
        assert not named.totals.parts, "it is all one model's own"
    # Where a chain ends depends with the cascade on what a pass was measured to take.
    own = {"cascade": False}
    first, _ = run(builtin_model, drafts, PROMPTS[0], own, method="draft")
    assert first.totals.runs == run(builtin_model, drafts[:1], PROMPTS[0], own, method="draft")[0].totals.runs


def test_rejection_sampling_gets_independent_draws_from_each_model(builtin_model: Model, draft_model: Model) -> None:
    """One model twice: with the same noise both would draw the same, and the test of the second draw would prove nothing."""
    sampling, prompt = Sampling(temperature=2.0, seed=1), PROMPTS[0]
    _, steps = run(builtin_model, (draft_model, draft_model), prompt, sampling=sampling, acceptance=Acceptance("rejection"))
    pairs = []
    for step in steps:
        draws = (step.tree.probs or {}).get(0)
        if draws is not None and draws.then is not None:
            pairs.append((step.tree.tokens[draws.nodes[0]], step.tree.tokens[draws.then.nodes[0]]))
    assert sum(first != second for first, second in pairs) > len(pairs) / 4 > 0
    _, steps = run(builtin_model, (draft_model, draft_model), prompt, sampling=sampling)
    assert all(step.tree.probs is None for step in steps)


def test_it_names_the_model_that_does_not_fit(builtin_model: Model, draft_model: Model) -> None:
    stranger = tiny_model("llama")
    with pytest.raises(UserError, match=rf"tokenizer differs .* to {stranger.info.name}"):
        run(builtin_model, (draft_model, stranger), PROMPTS[0])
    with pytest.raises(
        UserError, match=r"tree\.merge names draft-3, and 2 draft models are loaded\. Load another with --draft"
    ):
        run(builtin_model, (draft_model, builtin_model), PROMPTS[0], {"merge": "draft,draft-3"})
    with pytest.raises(UserError, match=r"tree\.merge takes lookup, .* not 'draft-x'"):
        run(builtin_model, (draft_model, builtin_model), PROMPTS[0], {"merge": "draft-x"})
