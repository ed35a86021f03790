"""Constrained answers: identical methods give the plain constrained answer, whatever drafts it and whenever that changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.hf.graphs.graphs import Rerun
from specchat.backends.loading import builtin_path
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.registry import methods
from specchat.decoders.text import Stops

from ...cases import FULL
from ...fakes import answers
from .cases import CONSTRAINTS, plain, prompts, valid

MOST = 120 if FULL else 48
PROMPTS = 50 if FULL else 1
SHAPES = [*CONSTRAINTS] if FULL else ["flat", "regex"]
IDENTICAL = [name for name, method in methods().items() if method.label == "identical" and not method.head_kind()]
SAMPLINGS = {"greedy": Sampling(), "seeded": Sampling(temperature=0.8, seed=7)}
FILTERED = {
    "top-k": Sampling(temperature=0.8, top_k=40, seed=3),
    "top-p": Sampling(temperature=1.0, top_p=0.9, min_p=0.02, seed=4),
    "penalty": Sampling(temperature=0.7, repetition_penalty=1.2, seed=5),
    "greedy penalty": Sampling(repetition_penalty=1.3),
}


@pytest.fixture(scope="module", params=["transformers", "recorded", "llama.cpp"] if FULL else ["transformers", "llama.cpp"])
def model(request: pytest.FixtureRequest, builtin_model: Model) -> Iterator[Model]:
    """The built-in model on both runtimes; with transformers its passes are launched as they come, or run over buffers that
    never move, as on a GPU."""
    if request.param == "llama.cpp":
        pytest.importorskip("llama_cpp")
        loaded = load_model(str(builtin_path().parent / "target-Q8_0.gguf"), LoadOptions(device="cpu"))
        yield loaded
        loaded.close()
        return
    other: Any = copy(builtin_model)
    other._runner = replace(other._runner, graphs=Rerun if request.param == "recorded" else None)
    yield other


@cache
def reference(model: Model, text: str, name: str, sampling: Sampling) -> list[int]:
    return plain(model, encode_prompt(model, text), CONSTRAINTS[name], sampling, MOST)


def answered(model: Model, draft: Model, text: str, name: str, method: str, **options: Any) -> tuple[Generation, str]:
    asked = {"max_tokens": MOST, "constraint": CONSTRAINTS[name], **options}
    generation, steps = answers.answered(model, text, method, draft=draft, **asked)
    return generation, "".join(step.text for step in steps)


def usable(model: Model, method: str) -> bool:
    return method != "early-exit" or model.info.capabilities.layers


@pytest.mark.parametrize("method", IDENTICAL)
def test_every_method_gives_the_plain_constrained_answer(model: Model, draft_model: Model, method: str) -> None:
    if not usable(model, method):
        pytest.skip("its first layers would be a file of their own")
    compared = written = 0
    for i, text in enumerate(prompts(PROMPTS)):
        for j, name in enumerate(CONSTRAINTS):
            for k, sampling in enumerate(SAMPLINGS.values()):
                if not FULL and (i + j + 6 * k + len(method)) % 4:
                    continue
                generation, shown = answered(model, draft_model, text, name, method, sampling=sampling)
                assert generation.answer == reference(model, text, name, sampling), (text, name, sampling)
                assert generation.valid is (generation.finish_reason == "eos")
                assert generation.valid is valid(name, shown) or generation.finish_reason == "length"
                compared += 1
                written += generation.totals.grammar
    print(f"{method}: {compared} answers, {written} tokens written by the grammar")
    assert written


@pytest.mark.parametrize("name", [*FILTERED])
def test_filters_and_penalties_hold_among_what_is_allowed(model: Model, draft_model: Model, name: str) -> None:
    for text in prompts(20 if FULL else 1):
        for shape in SHAPES:
            for method in ("greedy", "lookup", "recycle") if FULL else ("recycle",):
                generation, _ = answered(model, draft_model, text, shape, method, sampling=FILTERED[name])
                assert generation.answer == reference(model, text, shape, FILTERED[name]), (text, shape, method)


def test_switching_in_mid_answer_changes_nothing(model: Model, draft_model: Model) -> None:
    usual = [method for method in IDENTICAL if usable(model, method)]
    rng = random.Random(5)
    for text in prompts(PROMPTS):
        for name in CONSTRAINTS:
            sampling = rng.choice([*SAMPLINGS.values()])
            conversation = Conversation(model, draft_model=draft_model)
            options: dict[str, Any] = {"sampling": sampling, "max_tokens": MOST, "constraint": CONSTRAINTS[name]}
            generation = Generation(conversation, encode_prompt(model, text), **options)
            while generation.finish_reason is None:
                generation.advance()
                if generation.finish_reason is None and rng.random() < 0.5:
                    generation.switch(rng.choice(usual))
            assert generation.answer == reference(model, text, name, sampling), (text, name)
            conversation.close()


@pytest.mark.parametrize("rule", ["rejection", "soft:1", "soft:0.5", "typical"] if FULL else ["rejection", "typical"])
def test_other_acceptance_rules_stay_within_the_constraint(model: Model, draft_model: Model, rule: str) -> None:
    for method in ("lookup", "tree", "lookahead", "jacobi"):
        for i, name in enumerate(SHAPES):
            options = {"acceptance": Acceptance.parse(rule), "sampling": Sampling(temperature=0.9, seed=i)}
            generation, shown = answered(model, draft_model, prompts(2)[1], name, method, **options)
            assert generation.valid is valid(name, shown) or generation.finish_reason == "length", (method, name, shown)


def test_beam_search_follows_a_constraint_and_one_beam_is_greedy(model: Model, draft_model: Model) -> None:
    if not model.info.capabilities.tree:
        pytest.skip("no trees")
    for text in prompts(PROMPTS)[:12]:
        for name in SHAPES:
            one, _ = answered(model, draft_model, text, name, "beam", settings={"beams": 1})
            assert one.answer == reference(model, text, name, Sampling())
            four, shown = answered(model, draft_model, text, name, "beam")
            assert valid(name, shown) or four.finish_reason == "length"


@pytest.mark.parametrize("limit", [1, 3, 9])
def test_a_limit_or_a_stop_cuts_what_the_grammar_writes(model: Model, draft_model: Model, limit: int) -> None:
    text = prompts(1)[0]
    for name in SHAPES:
        whole = reference(model, text, name, Sampling())
        cut, _ = answered(model, draft_model, text, name, "lookup", max_tokens=limit)
        assert cut.answer == whole[:limit]
        assert cut.valid is (limit >= len(whole))
    generation, shown = answered(model, draft_model, text, "flat", "lookup", stops=Stops(['": '[: limit % 3 + 1]]))
    assert generation.finish_reason == "stop"
    assert not generation.valid
    assert '{"name": '.startswith(shown)


@pytest.mark.parametrize("name", [*CONSTRAINTS])
def test_what_the_grammar_writes_is_counted_apart(builtin_model: Model, draft_model: Model, name: str) -> None:
    """A step without nodes is the grammar's; elsewhere what it leaves no choice about is neither drafted nor accepted."""
    text = prompts(1)[0]
    conversation = Conversation(builtin_model)
    generation = Generation(conversation, encode_prompt(builtin_model, text), constraint=CONSTRAINTS[name], max_tokens=MOST)
    steps = [*generation]
    wrote = [step for step in steps if not step.nodes]
    assert all(step.grammar == len(step.tokens) > 0 for step in wrote)
    assert all(step.grammar == 0 and len(step.tokens) == 1 for step in steps if step.nodes)
    totals = generation.totals
    assert totals.steps == len(steps) - len(wrote)
    assert totals.tokens == totals.steps + totals.grammar
    assert totals.own_tokens_per_step == 1
    # Every token but the last, which nobody reads, goes through the model once.
    assert conversation.session.length in (len(generation.tokens) - 1, len(generation.tokens) - 1 - len(steps[-1].tokens))
