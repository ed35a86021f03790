"""What a long answer keeps in memory."""

from __future__ import annotations

import pytest

from specchat.benchmarks.transcript_memory import measure

from ....cases import FULL


@pytest.mark.parametrize("probs", [False, True] if FULL else [True])
def test_a_long_answer_takes_at_most_400_bytes_a_token(probs: bool) -> None:
    tokens = 30_000 if FULL else 800
    found = measure(tokens, 16, 100, probs=probs)
    assert found["tokens"] == tokens
    assert found["runs"] > tokens / 4.3
    assert all(found[f"{part}_bytes_per_token"] > 10 for part in ("runs", "log", "lines"))
    assert found["bytes_per_token"] <= 400
