"""Methods labelled identical give the plain method's tokens: transformers' own `generate`, and each other when sampling."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from specchat.backends import Model, Sampling
from specchat.backends.hf.graphs.graphs import Rerun
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.parts.schedules import SCHEDULES
from specchat.decoders.registry import methods

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.references import generated
from ...fakes.prompts import TEXTS, mixed_prompts

TOKENS = 128 if FULL else 40
PROMPTS = 50 if FULL else 2
RECOMPUTE_PROMPTS = PROMPTS if FULL else 1
"""Without a KV cache each token costs a pass over everything."""
IDENTICAL = [name for name, method in methods().items() if method.label == "identical" and not method.head_kind()]


@pytest.fixture(scope="module", params=[None, Rerun], ids=["launched", "recorded"])
def endless(builtin_model: Model, request: pytest.FixtureRequest) -> Model:
    """The built-in model without an end token: every answer has all its tokens. Its passes are launched as they come, or run
    over buffers that never move, as on a GPU."""
    model: Any = copy(builtin_model)
    model.info = replace(model.info, eos_ids=())
    model._runner = replace(model._runner, graphs=request.param)
    return model  # type: ignore[no-any-return]


def answer(model: Model, draft: Model, prompt: Sequence[int], method: str, sampling: Sampling | None = None) -> list[int]:
    """TOKENS tokens of one method in a conversation of its own."""
    generation, _ = answered(model, prompt, method, draft=draft, sampling=sampling, max_tokens=TOKENS)
    assert generation.finish_reason == "length"
    return generation.answer


@pytest.fixture(scope="module")
def reference(endless: Model, reference_network: Any) -> list[tuple[list[int], list[int]]]:
    """(prompt, greedy answer by transformers' generate) for every prompt."""
    reference_network.generation_config.eos_token_id = None
    prompts = [encode_prompt(endless, text) for text in mixed_prompts(PROMPTS)]
    return [(prompt, generated(reference_network, prompt, TOKENS)) for prompt in prompts]


@pytest.mark.parametrize("endless", [None, Rerun] if FULL else [None], ids=["launched", "recorded"][: 1 + FULL], indirect=True)
@pytest.mark.parametrize("method", IDENTICAL)
def test_greedy_tokens_are_those_of_transformers_generate(
    endless: Model, draft_model: Model, reference: list[tuple[list[int], list[int]]], method: str
) -> None:
    for prompt, expected in reference[: RECOMPUTE_PROMPTS if method == "recompute" else None]:
        assert answer(endless, draft_model, prompt, method) == expected


def test_a_switch_changes_tokens_per_step_within_two_steps(builtin_model: Model) -> None:
    prompt = encode_prompt(builtin_model, f"Repeat this text exactly: {TEXTS[1]}")
    wanted = plain(builtin_model, prompt)
    assert builtin_model.decode(wanted) == TEXTS[1]
    generation = Generation(Conversation(builtin_model), prompt, "greedy")
    lengths: list[tuple[str, int]] = []
    for step in generation:
        lengths.append((step.method, len(step.tokens)))
        match len(lengths):
            case 10:
                generation.switch("lookup")
            case 12:
                generation.switch("greedy")
            case 20:
                generation.switch("lookup")
    assert generation.answer == wanted
    assert all(n == 1 for _, n in lengths[:10])
    assert max(n for _, n in lengths[10:12]) > 1, "lookup drafts within two steps"
    assert all(n == 1 for _, n in lengths[12:20]), "greedy at once"
    assert max(n for _, n in lengths[20:22]) > 1


FLOORS: list[tuple[str, dict[str, Any], float]] = [
    ("lookup", {}, 2.0),
    ("lookup", {"variant": "reference"}, 2.0),
    ("ngram", {}, 1.5),
    ("ngram", {"n": 5, "key": 1}, 1.5),
    ("recycle", {}, 1.5),
    ("jacobi", {}, 1.05),
    ("jacobi", {"slide": False}, 1.0),
    ("lookahead", {}, 1.2),
    ("lookahead", {"window": 1, "ngram": 2}, 1.2),
    ("lookahead", {"window": 15, "guesses": 15}, 1.2),
    *(("draft", {"schedule": schedule}, 1.5) for schedule in SCHEDULES),
    ("early-exit", {}, 1.4),
    ("early-exit", {"layers": 4}, 1.4),
    ("early-exit", {"layers": 4, "schedule": "cost"}, 1.4),
    ("early-exit", {"layers": 6, "cascade": False}, 1.4),
    ("tree", {}, 1.5),
    ("tree", {"expansion": "1,1,3,1,1,1,1,1"}, 1.5),
    ("tree", {"merge": "lookup,recycle"}, 1.5),
]
"""The fewest tokens a step on a copy."""
FROM_TEXT = ("lookup", "ngram", "recycle", "jacobi", "lookahead")
COPIES = [f"Repeat this text exactly: {text}" for text in TEXTS]


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(("method", "settings", "floor"), FLOORS)
def test_a_copy_takes_few_steps_and_changes_no_token(
    builtin_model: Model, draft_model: Model, method: str, settings: dict[str, Any], floor: float
) -> None:
    for text in COPIES if FULL else COPIES[:1]:
        for sampling in [Sampling()] + [Sampling(temperature=0.8, seed=4)] * (
            FULL or (settings == {} and method not in FROM_TEXT)
        ):
            options: dict[str, Any] = {"sampling": sampling, "max_tokens": TOKENS}
            found, _ = answered(builtin_model, text, method, settings, draft=draft_model, **options)
            assert found.answer == plain(builtin_model, text, **options)
            assert found.totals.tokens_per_step >= floor
            assert found.totals.draft_seconds > 0
