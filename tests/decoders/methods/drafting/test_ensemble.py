"""Several draft models that grow one token tree: the same text in fewer passes, and more nodes for the better of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.loading import builtin_path
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.loop import Step

from ....cases import FULL, only_full
from ....fakes.answers import answered, plain
from ....fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama
from ....fakes.models.tiny import tiny_model
from ....fakes.prompts import TEXTS

PROMPTS = ("Tell me a story about a dog.", f"Repeat this text exactly: {TEXTS[0]}", *(TEXTS if FULL else ()))
TOKENS = 64 if FULL else 48


@dataclass
class Models:
    """A target and two draft models for it, of different quality."""

    target: Model
    better: Model
    other: Model
    plain: dict[Any, list[int]] = field(default_factory=dict)

    def answer(self, prompt: str, sampling: Sampling) -> list[int]:
        """What plain decoding gives."""
        if (prompt, sampling) not in self.plain:
            self.plain[prompt, sampling] = plain(self.target, prompt, sampling=sampling, max_tokens=TOKENS)
        return self.plain[prompt, sampling]


def models_of(runtime: str, draft_model: Model) -> Models:
    """The built-in draft model twice, each a model of its own: on llama.cpp as two GGUF files."""
    if runtime == "transformers":
        options = LoadOptions(device="cpu", dtype="float32", backend="transformers", threads=1)
        return Models(load_model("builtin", options), draft_model, load_model("builtin-draft", options))
    from specchat.backends.llama.model import load_llama

    target = load_llama(gguf_of(builtin_path(), "F32"), "builtin F32", FLOAT32)
    small = load_llama(gguf_of(builtin_path("builtin-draft"), "F32"), "builtin-draft F32", FLOAT32)
    other = load_llama(gguf_of(builtin_path("builtin-draft"), "Q8_0"), "builtin-draft Q8_0", FLOAT32)
    return Models(target, small, other)


@pytest.fixture(scope="module", params=["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def models(request: pytest.FixtureRequest, draft_model: Model) -> Models:
    return models_of(request.param, draft_model)


def run(
    target: Model, drafts: Sequence[Model], prompt: str, settings: Any = None, *, method: str = "tree", **more: Any
) -> tuple[Generation, list[Step]]:
    """An answer and its steps."""
    return answered(target, prompt, method, settings, draft=drafts, **{"max_tokens": TOKENS, **more})


def tokens_per_step(models: Models, drafts: Sequence[Model], settings: Any = None, **more: Any) -> float:
    totals = [run(models.target, drafts, prompt, settings, **more)[0].totals for prompt in PROMPTS]
    return sum(each.tokens for each in totals) / sum(each.steps for each in totals)


@pytest.mark.parametrize(
    ("settings", "temperature"),
    [
        ({}, 0.0),
        ({"expansion": "3,2,1,1", "nodes": 24}, 0.8),
        pytest.param({}, 0.8, marks=only_full),
        pytest.param({"merge": "lookup,recycle", "nodes": 24}, 0.0, marks=only_full),
    ],
)
def test_a_tree_of_several_models_is_accepted_and_changes_no_token(models: Models, settings: Any, temperature: float) -> None:
    sampling = Sampling(temperature=temperature, seed=4)
    most = 1 + 2 * 21 if "expansion" in settings else settings.get("nodes", 20)  # each model's expansion is whole
    for prompt in PROMPTS:
        generation, steps = run(models.target, (models.better, models.other), prompt, settings, sampling=sampling)
        assert generation.answer == models.answer(prompt, sampling)
        assert generation.totals.tokens_per_step >= 2.0
        assert {"draft", "draft-2"} <= set(generation.totals.parts)
        assert all(part.drafted > 0 for part in generation.totals.parts.values())
        for step in steps:
            if step.drafted:
                assert len(step.sources) == len(step.tree) <= most
                assert step.sources[0] == 0
                assert all(0 < source < 1 << len(step.drafters) for source in step.sources[1:])
                assert sum(step.shares) == pytest.approx(1)


def test_only_those_that_are_named_draft(models: Models) -> None:
    both = (models.other, models.better)
    for name, only in (("draft", models.other), ("draft-2", models.better)):
        named, _ = run(models.target, both, PROMPTS[0], {"merge": name})
        alone, _ = run(models.target, (only,), PROMPTS[0])
        assert named.totals.runs == alone.totals.runs
        assert not named.totals.parts, "it is all one model's own"
    # Where a chain ends depends with the cascade on what a pass was measured to take.
    own = {"cascade": False}
    first, _ = run(models.target, both, PROMPTS[0], own, method="draft")
    assert first.totals.runs == run(models.target, both[:1], PROMPTS[0], own, method="draft")[0].totals.runs


@pytest.fixture(scope="module")
def useless() -> Model:
    """The built-in draft model with noise that leaves nothing of what it knew."""
    model: Any = load_model("builtin-draft", LoadOptions(device="cpu", dtype="float32", backend="transformers", threads=1))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in model._runner.module.parameters():
            weight += weight.std() * torch.randn(weight.shape, generator=generator)
    return model  # type: ignore[no-any-return]


@only_full
@pytest.mark.parametrize("rule", ["exact", "rejection"])
def test_the_better_model_gets_the_nodes_and_a_useless_one_hardly_costs_tokens(
    builtin_model: Model, draft_model: Model, useless: Model, rule: str
) -> None:
    models, sampling = Models(builtin_model, draft_model, useless), Sampling(0.8 if rule == "rejection" else 0.0, seed=3)
    more: dict[str, Any] = {"acceptance": Acceptance.parse(rule), "max_tokens": 160, "sampling": sampling}
    alone = tokens_per_step(models, [draft_model], **more)
    # A tree of one model is tested by whole paths, one of several token by token; and the texts differ.
    least = 0.85 if rule == "rejection" else 0.93
    for drafts, name in (((draft_model, useless), "draft"), ((useless, draft_model), "draft-2")):
        assert tokens_per_step(models, drafts, **more) > least * alone
        generation, steps = run(builtin_model, drafts, PROMPTS[0], **more)
        parts = generation.totals.parts
        assert steps[0].shares == (0.5, 0.5)
        assert parts[name].share > 0.75
        assert parts[name].accepted > 20 * sum(part.accepted for other, part in parts.items() if other != name)
        sat_out = sum(not any(source >> (name == "draft") & 1 for source in step.sources) for step in steps if step.drafted)
        assert sat_out > len(steps) / 2, "the useless one takes no passes in most rounds"


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


def test_the_caches_follow_the_text_through_switches_and_cancel(models: Models) -> None:
    conversation = Conversation(models.target, draft_model=[models.better, models.other])
    prompt = encode_prompt(models.target, PROMPTS[0])
    generation = Generation(conversation, prompt, "tree", max_tokens=TOKENS)
    ways = [
        ("draft", {}),
        ("tree", {"merge": "draft-2"}),
        ("lookup", {}),
        ("tree", {"merge": "lookup"}),
        ("greedy", {}),
        ("tree", {}),
    ]
    refused = 0
    for number, step in enumerate(generation):
        refused += step.drafted > step.accepted
        drafter: Any = generation.drafter
        if generation.method == "tree":
            for name, growth in drafter._growths.items():
                session = drafter._proposers[name].session
                known = len(growth.along(step.tokens[:-1])) - 1
                assert session.tokens == generation.tokens[: session.length], "nothing refused is left in it"
                assert session.length >= len(generation.tokens) - len(step.tokens) + min(known, 1) - 1
        if number % 2:
            name, settings = ways[number // 2 % len(ways)]
            generation.switch(name, settings)
    assert refused > 0
    assert generation.answer == models.answer(PROMPTS[0], Sampling())

    again = Generation(conversation, encode_prompt(models.target, PROMPTS[1]), "tree", max_tokens=TOKENS)
    next(again)
    again.cancel()
    list(again)
    assert again.finish_reason == "cancelled"
    assert again.answer == models.answer(PROMPTS[1], Sampling())[: len(again.answer)]
    after = Generation(conversation, prompt, "tree", max_tokens=TOKENS)
    list(after)
    assert after.answer == models.answer(PROMPTS[0], Sampling())
    conversation.close()


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
