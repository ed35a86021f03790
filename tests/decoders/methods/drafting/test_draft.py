"""Draft models, several of them, early exit and token trees: what they draft, what they cost, where they say no."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.base import Block
from specchat.backends.hf.session import TransformersSession
from specchat.decoders import Acceptance, Conversation, Generation, Step, encode_prompt
from specchat.decoders.methods.early_exit import parse_skip, skip_text

from ....cases import FULL
from ....fakes.answers import answered, plain
from ....fakes.drafters import heads
from ....fakes.models.llama_tiny import needs_llama
from ....fakes.models.tiny import tiny_model
from ....fakes.prompts import TEXTS

STORY = "Tell me a story about a dog."
COPY = f"Repeat this text exactly: {TEXTS[0]}"
TOKENS = 96 if FULL else 48


def drafted_answer(
    target: Model, draft: Model | Sequence[Model] | None, *arguments: Any, **options: Any
) -> tuple[Generation, list[Step]]:
    return answered(target, *arguments, draft=draft, **{"max_tokens": TOKENS, **options})


def plain_answer(target: Model, prompt: str | Sequence[int], **options: Any) -> list[int]:
    return drafted_answer(target, None, prompt, **options)[0].answer


def test_a_draft_model_that_is_the_target_is_always_right(builtin_model: Model) -> None:
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=9), Sampling(temperature=0.7, top_p=0.9, seed=1)):
        generation, _ = drafted_answer(
            builtin_model, builtin_model, "Tell me a story.", "draft", {"tokens": 5, "schedule": "constant"}, sampling=sampling
        )
        assert generation.totals.acceptance_rate == 1.0
        assert max(generation.totals.runs) == 6


def test_a_tree_yields_no_less_than_its_chain(builtin_model: Model, draft_model: Model) -> None:
    for text in (TEXTS[0], "Tell me a story about a dog.", *(TEXTS[1:] if FULL else ())):
        chain, _ = drafted_answer(builtin_model, draft_model, text, "draft", {"tokens": 5, "schedule": "constant"})
        tree, _ = drafted_answer(builtin_model, draft_model, text, "tree", {"depth": 5})
        assert tree.answer == chain.answer
        assert tree.totals.steps <= chain.totals.steps + 1  # luck with the borders of steps


@pytest.mark.parametrize("method", ["draft", "tree", "pard", "early-exit"])
def test_soft_acceptance_sees_the_drafts_probabilities_at_temperature_0(
    builtin_model: Model, draft_model: Model, method: str
) -> None:
    loose = 0
    soft = Acceptance("soft", beta=0.0)
    for step in drafted_answer(builtin_model, draft_model, STORY, method, acceptance=soft)[1]:
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
    expected = plain_answer(model, ids, max_tokens=30)
    session_pass = TransformersSession._pass
    for fails_at in range(2, 12, 1 if FULL else 5):
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
                    generation.advance()
                except UserError:
                    failures += 1
        assert failures == 1
        assert generation.answer == expected
        conversation.close()


@pytest.mark.parametrize("method", ["draft", "tree", "pard"])
def test_at_the_end_of_the_draft_models_context_it_decodes_plainly_and_says_so(
    builtin_model: Model, draft_model: Model, method: str
) -> None:
    prompt = encode_prompt(builtin_model, COPY)
    shorter = copy(draft_model)
    shorter.info = replace(draft_model.info, context=len(prompt) + 10)
    generation, steps = drafted_answer(builtin_model, shorter, prompt, method)
    assert generation.answer == plain_answer(builtin_model, COPY)
    assert steps[0].drafted > 0
    assert not steps[0].note
    assert steps[-1].drafted == 0
    assert "reads at most" in steps[-2].note


@pytest.mark.parametrize(("method", "settings", "models"), [
    ("draft", {"tokens": 2, "schedule": "constant"}, 1), ("tree", {"nodes": 9, "depth": 2}, 2),
    ("eagle", {"nodes": 8, "depth": 2}, 0), ("dflash", {"nodes": 8, "width": 3, "floor": 0}, 0),
])  # fmt: skip
def test_rejection_gives_the_targets_joint_distribution_of_two_tokens(
    method: str, settings: dict[str, Any], models: int
) -> None:
    """Through the whole loop, on a model whose five likeliest tokens have most of the probability."""
    kind = method if not models else ""
    target = heads.unsure_target() if kind else tiny_model("llama")
    draft = [tiny_model(family) for family in ("qwen3", "mistral")[:models]]
    filters = {"temperature": 1.0, "top_k": 3}
    prompt = [0, 2, 70, 71, 72 if kind else 3]
    head = {"eagle": heads.unsure_head, "dflash": heads.unsure_paths}[kind]() if kind else None
    draws = 3000 if FULL else 150
    conversation = Conversation(target, draft_model=draft, head=head)
    drawn: dict[tuple[int, ...], int] = {}
    accepted = 0
    for seed in range(draws):
        sampling = Sampling(**filters, seed=seed)  # type: ignore[arg-type]
        generation = Generation(
            conversation, prompt, method, settings=settings, sampling=sampling, acceptance=Acceptance("rejection"), max_tokens=2
        )
        list(generation)
        accepted += generation.totals.accepted
        pair = tuple(generation.answer)
        drawn[pair] = drawn.get(pair, 0) + 1
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
    assert set(drawn) <= set(pairs)
    counts = np.array([drawn.get(pair, 0) for pair in pairs])
    expected_counts = np.array(expected) / sum(expected) * draws
    assert chisquare(counts, expected_counts).pvalue > 1e-3
    assert accepted > draws / 30
    conversation.close()


PROMPTS = ("Tell me a story about a dog.", f"Repeat this text exactly: {TEXTS[0]}", *(TEXTS if FULL else ()))


@pytest.fixture(scope="module")
def drafts(draft_model: Model) -> tuple[Model, Model]:
    """Two draft models, the better one first."""
    options = LoadOptions(device="cpu", dtype="float32", backend="transformers", threads=1)
    return draft_model, load_model("builtin-draft", options)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_tree_of_several_models_is_accepted_and_changes_no_token(
    builtin_model: Model, drafts: tuple[Model, Model], temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, seed=4)
    for prompt in PROMPTS:
        generation, steps = drafted_answer(builtin_model, drafts, prompt, "tree", sampling=sampling)
        assert generation.answer == plain(builtin_model, prompt, sampling=sampling, max_tokens=TOKENS)
        assert generation.totals.tokens_per_step >= 2.0
        assert {"draft", "draft-2"} <= set(generation.totals.parts)
        assert all(part.drafted > 0 for part in generation.totals.parts.values())
        for step in steps:
            if step.drafted:
                assert len(step.sources) == len(step.tree) <= 20
                assert step.sources[0] == 0
                assert all(0 < source < 1 << len(step.drafters) for source in step.sources[1:])
                assert sum(step.shares) == pytest.approx(1)


def test_a_chain_has_the_first_model_alone(builtin_model: Model, drafts: tuple[Model, Model]) -> None:
    first, _ = drafted_answer(builtin_model, drafts, PROMPTS[0], "draft")
    assert first.totals.runs == drafted_answer(builtin_model, drafts[:1], PROMPTS[0], "draft")[0].totals.runs


def test_rejection_sampling_gets_independent_draws_from_each_model(builtin_model: Model, draft_model: Model) -> None:
    """One model twice: with the same noise both would draw the same, and the test of the second draw would prove nothing."""
    sampling, prompt = Sampling(temperature=2.0, seed=1), PROMPTS[0]
    options: dict[str, Any] = {"sampling": sampling, "acceptance": Acceptance("rejection")}
    _, steps = drafted_answer(builtin_model, (draft_model, draft_model), prompt, "tree", **options)
    pairs = []
    for step in steps:
        draws = (step.tree.probs or {}).get(0)
        if draws is not None and draws.then is not None:
            pairs.append((step.tree.tokens[draws.nodes[0]], step.tree.tokens[draws.then.nodes[0]]))
    assert sum(first != second for first, second in pairs) > len(pairs) / 4 > 0
    _, steps = drafted_answer(builtin_model, (draft_model, draft_model), prompt, "tree", sampling=sampling)
    assert all(step.tree.probs is None for step in steps)


def test_of_themselves_half_of_the_layers_draft(builtin_model: Model) -> None:
    drafted = {}
    for layers in (0, 4, 7):
        settings = {"layers": layers, "tokens": 3, "schedule": "constant"}
        text = "What is the capital of France?"
        drafted[layers] = answered(builtin_model, text, "early-exit", settings, max_tokens=48)[0].totals.drafted
    assert drafted[0] == drafted[4] != drafted[7]


def test_lists_of_layers_and_blocks() -> None:
    a2, m2 = Block(2, "attention"), Block(2, "mlp")
    assert parse_skip("2", 4) == parse_skip("2a,2m", 4) == parse_skip(" 2 , 2A ", 4) == (0, 1, 3)
    assert parse_skip("2a", 4) == (0, 1, m2, 3)
    assert parse_skip("1-2m,3", 4) == (0, Block(1, "attention"), a2)
    for text in ("2", "0-2", "1a,3m", "0a,1-2,3-4m", "2a,3m,4"):
        left_out = {(layer, kind) for layer in range(6) for kind in "am"}
        for part in parse_skip(text, 6):
            left_out -= {(part.layer, part.kind[0])} if isinstance(part, Block) else {(part, "a"), (part, "m")}
        assert skip_text(left_out) == text
    refused = dict.fromkeys(("", "3,", "a", "3b", "3-4-5", "²", "1" * 5000), "is a list of layers and blocks such as 3a,4-6,7m")
    refused |= dict.fromkeys(("8", "3-8", "5-3m"), "takes layers from 0 to 7 in ascending order")
    for text, words in (refused | {"0-7a,0-7m": "leaves nothing to run"}).items():
        with pytest.raises(UserError, match=words):
            parse_skip(text, 8)


def test_a_model_whose_blocks_cannot_be_told_apart_says_so_and_goes_on() -> None:
    model = tiny_model("bloom")
    with pytest.raises(UserError, match="whole layers only"):
        answered(model, [5, 6, 7], "early-exit", {"skip": "1a"}, max_tokens=8)
    for skip in ("1", "1-2"):
        assert answered(model, [5, 6, 7], "early-exit", {"skip": skip}, max_tokens=8)[0].answer == plain(model, [5, 6, 7], 8)


@needs_llama
def test_llama_cpp_says_that_it_runs_all_layers() -> None:
    with (
        closing(load_model("builtin", LoadOptions(backend="llama.cpp"))) as model,
        pytest.raises(UserError, match=r"early-exit is not available here: llama\.cpp runs all layers of a model or none"),
    ):
        answered(model, COPY, "early-exit", max_tokens=8)
