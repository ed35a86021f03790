"""Plain decoding gives the tokens of transformers' own `generate`; on a copy, methods that draft take few steps."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from specchat.backends import Model, Sampling
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.parts.schedules import SCHEDULES

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.references import generated
from ...fakes.prompts import TEXTS, mixed_prompts

TOKENS = 128 if FULL else 40
PROMPTS = 50 if FULL else 2
RECOMPUTE_PROMPTS = PROMPTS if FULL else 1
"""Without a KV cache each token costs a pass over everything."""


@pytest.mark.parametrize("method", ["greedy", "recompute"])
def test_greedy_tokens_are_those_of_transformers_generate(builtin_model: Model, reference_network: Any, method: str) -> None:
    """The same without an end token, so that every answer has all its tokens; what drafts is held to these methods' text."""
    endless, reference_network.generation_config.eos_token_id = copy(builtin_model), None
    endless.info = replace(endless.info, eos_ids=())
    for text in mixed_prompts(RECOMPUTE_PROMPTS if method == "recompute" else PROMPTS):
        prompt = encode_prompt(endless, text)
        found, _ = answered(endless, prompt, method, max_tokens=TOKENS)
        assert found.answer == generated(reference_network, prompt, TOKENS)


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
