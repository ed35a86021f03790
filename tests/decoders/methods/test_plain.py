"""Greedy follows the sampling settings in force; who asks for a method that samples is told so."""

from __future__ import annotations

import pytest

from specchat.backends import Sampling
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import get
from specchat.errors import UserError

from ...fakes.models.tiny import tiny_model


def answer(sampling: Sampling | None = None, others: str = "greedy") -> list[int]:
    """Greedy and another method take turns."""
    generation = Generation(Conversation(tiny_model("llama")), list(range(20, 30)), sampling=sampling, max_tokens=40)
    for number, _ in enumerate(generation):
        generation.switch("greedy" if number % 2 else others)
    return generation.answer


def test_with_a_temperature_greedy_samples() -> None:
    tokens = answer(Sampling(temperature=0.9, seed=3))
    assert tokens == answer(Sampling(temperature=0.9, seed=3), "lookup")
    assert tokens != answer(Sampling(temperature=0.9, seed=4))
    assert tokens != answer()


def test_who_asks_for_sample_is_told_that_greedy_samples() -> None:
    with pytest.raises(UserError, match="'sample': greedy samples at a temperature above 0"):
        get("sample")
