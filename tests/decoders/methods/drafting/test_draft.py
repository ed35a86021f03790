"""Draft model, early exit and token trees: what they draft, what they cost, and where they say no. Failures are patched in;
contexts are private."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from specchat.backends import Model, Sampling, UserError
from specchat.backends.hf.session import TransformersSession
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.loop import Step
from specchat.decoders.parts.vocabularies import Reencoded
from specchat.decoders.registry import methods

from ....cases import FULL
from ....fakes.answers import answered
from ....fakes.drafters import heads
from ....fakes.models.tiny import tiny_model
from ....fakes.prompts import TEXTS

STORY = "Tell me a story about a dog."
COPY = f"Repeat this text exactly: {TEXTS[0]}"
TOKENS = 96 if FULL else 48


def run(target: Model, draft: Model | None, *asked: Any, **options: Any) -> tuple[Generation, list[Step]]:
    """An answer and its steps."""
    return answered(target, *asked, draft=draft, **{"max_tokens": TOKENS, **options})


def plain(target: Model, prompt: str | Sequence[int], **options: Any) -> list[int]:
    return run(target, None, prompt, **options)[0].answer


def test_a_draft_model_that_is_the_target_is_always_right(builtin_model: Model) -> None:
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=9), Sampling(temperature=0.7, top_p=0.9, seed=1)):
        generation, _ = run(
            builtin_model, builtin_model, "Tell me a story.", "draft", {"tokens": 5, "schedule": "constant"}, sampling=sampling
        )
        assert generation.totals.acceptance_rate == 1.0
        assert max(generation.totals.runs) == 6


def test_a_tree_yields_no_less_than_its_chain(builtin_model: Model, draft_model: Model) -> None:
    for text in (TEXTS[0], "Tell me a story about a dog.", *(TEXTS[1:] if FULL else ())):
        chain, _ = run(builtin_model, draft_model, text, "draft", {"tokens": 5, "schedule": "constant"})
        tree, _ = run(builtin_model, draft_model, text, "tree", {"depth": 5})
        assert tree.answer == chain.answer
        assert tree.totals.steps <= chain.totals.steps + 1  # luck with the borders of steps


@pytest.mark.parametrize("nodes", [1, 40])
@pytest.mark.parametrize(("sampling", "rule"), [(Sampling(), "exact"), (Sampling(1.0, seed=2), "rejection")])
def test_an_expansion_grows_whole(builtin_model: Model, draft_model: Model, nodes: int, sampling: Sampling, rule: str) -> None:
    settings = {"nodes": nodes, "expansion": "1,1,3,1,1,1,1,1", "merge": "lookup"}
    rule_of = Acceptance.parse(rule)
    _, steps = run(builtin_model, draft_model, STORY, "tree", settings, sampling=sampling, acceptance=rule_of, max_tokens=32)
    found = [Counter(step.tree.depths()) for step in steps[:3]]
    assert all(widths[depth] >= (1 if depth < 3 else 3) for widths in found for depth in range(9))


@pytest.mark.parametrize("method", ["draft", "tree", "pard", "early-exit"])
def test_soft_acceptance_sees_the_drafts_probabilities_at_temperature_0(
    builtin_model: Model, draft_model: Model, method: str
) -> None:
    loose = 0
    soft = Acceptance("soft", beta=0.0)
    for step in run(builtin_model, draft_model, STORY, method, acceptance=soft)[1]:
        tree = step.tree
        proposed = {node for draws in (tree.probs or {}).values() for node in draws.nodes}
        assert proposed == set(range(1, len(tree)))
        for parent, draws in (tree.probs or {}).items():
            assert draws.q.sum() == pytest.approx(1, abs=1e-4)
            assert {tree.parents[node] for node in draws.nodes} == {parent}
            assert all(draws.q[tree.tokens[node]] > 0 for node in draws.nodes)
            loose += any(draws.q[tree.tokens[node]] < 0.999 for node in draws.nodes)
    assert loose


def test_an_error_in_the_middle_of_a_draft_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = tiny_model("llama")
    ids = list(range(20, 60))
    wanted = plain(model, ids, max_tokens=30)
    session_pass = TransformersSession._pass
    for fails_at in range(2, 12, 1 if FULL else 3):
        left = [fails_at]

        def counted(session: Any, *args: Any, left: list[int] = left, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise torch.OutOfMemoryError
            return session_pass(session, *args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(TransformersSession, "_pass", counted)
            conversation = Conversation(model)
            settings = {"layers": 2, "threshold": 0.0}
            generation = Generation(conversation, ids, "early-exit", settings=settings, max_tokens=30)
            failures = 0
            while generation.finish_reason is None:
                try:
                    generation.run_pass()
                except UserError:
                    failures += 1
        assert failures == 1
        assert generation.answer == wanted
        conversation.close()


def test_a_draft_through_text_is_right_when_the_draft_model_is(builtin_model: Model) -> None:
    generation, _ = run(builtin_model, builtin_model, COPY, "greedy", max_tokens=10)
    drafter = Reencoded(builtin_model, builtin_model, 512)
    line = drafter.line(generation._context(), 6)
    drafter.close()
    expected = plain(builtin_model, COPY, max_tokens=16)[10:]
    assert line
    assert line == expected[: len(line)]
    for sampling in (Sampling(), Sampling(0.8, repetition_penalty=1.2, seed=1)):
        expected = plain(builtin_model, COPY, max_tokens=16, sampling=sampling)
        generation, _ = run(
            builtin_model, tiny_model("llama"), COPY, "draft", {"reencode": True}, max_tokens=16, sampling=sampling
        )
        assert generation.answer == expected


@pytest.mark.parametrize("method", ["draft", "tree", "pard"])
def test_at_the_end_of_the_draft_models_context_it_decodes_plainly_and_says_so(
    builtin_model: Model, draft_model: Model, method: str
) -> None:
    prompt = encode_prompt(builtin_model, COPY)
    shorter = copy(draft_model)
    shorter.info = replace(draft_model.info, context=len(prompt) + 10)
    generation, steps = run(builtin_model, shorter, prompt, method)
    assert generation.answer == plain(builtin_model, COPY)
    assert steps[0].drafted > 0
    assert not steps[0].note
    assert steps[-1].drafted == 0
    assert "reads at most" in steps[-2].note


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("draft", {"tokens": 2, "schedule": "constant"}),
        ("tree", {"nodes": 8, "depth": 2}),
        ("tree", {"nodes": 9, "depth": 2, "merge": "draft,draft-2"}),
        ("eagle", {"nodes": 8, "depth": 2}),
        ("dflash", {"nodes": 8, "width": 3, "floor": 0}),
    ],
)
def test_rejection_gives_the_targets_joint_distribution_of_two_tokens(method: str, settings: dict[str, Any]) -> None:
    """Through the whole loop, on a model whose five likeliest tokens have most of the probability."""
    kind = methods()[method].head_kind()
    target, draft = heads.unsure_target() if kind else tiny_model("llama"), [] if kind else [tiny_model("qwen3")]
    if "merge" in settings:
        draft.append(tiny_model("mistral"))
    filters = {"temperature": 1.0, "top_k": 3}
    prompt = [0, 2, 70, 71, 72 if kind else 3]
    head = {"eagle": heads.unsure_head, "dflash": heads.unsure_paths}[kind]() if kind else None
    draws = 3000 if FULL else 250
    conversation = Conversation(target, draft_model=draft, head=head)
    seen: dict[tuple[int, ...], int] = {}
    accepted = 0
    for seed in range(draws):
        sampling = Sampling(**filters, seed=seed)  # type: ignore[arg-type]
        generation = Generation(
            conversation, prompt, method, settings=settings, sampling=sampling, acceptance=Acceptance("rejection"), max_tokens=2
        )
        list(generation)
        accepted += generation.totals.accepted
        pair = tuple(generation.answer)
        seen[pair] = seen.get(pair, 0) + 1
    session = target.open_session()
    session.prefill(prompt[:-1])
    p = session.evaluate(prompt[-1:], [-1]).probs(0, Sampling(**filters))  # type: ignore[arg-type]
    pairs: list[tuple[int, ...]] = []
    expected: list[float] = []
    for first in np.flatnonzero(p):
        session.rewind(len(prompt) - 1)
        scores = session.evaluate([prompt[-1], int(first)], [-1, 0])
        after = scores.probs(1, Sampling(**filters))  # type: ignore[arg-type]
        if int(first) in target.info.eos_ids:
            pairs.append((int(first),))
            expected.append(float(p[first]))
            continue
        for second in np.flatnonzero(after):
            pairs.append((int(first), int(second)))
            expected.append(float(p[first] * after[second]))
    assert set(seen) <= set(pairs)
    counts = np.array([seen.get(pair, 0) for pair in pairs])
    wanted = np.array(expected) / sum(expected) * draws
    assert chisquare(counts, wanted).pvalue > 1e-3
    assert accepted > draws / 30
    conversation.close()
