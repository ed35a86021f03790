"""How often matches go on as before, learned from the text."""

from __future__ import annotations

import random

import pytest

from specchat.decoders.parts.learned import LONGEST, Reliability


def test_longer_matches_are_surer() -> None:
    known = Reliability()
    values = [known[m] for m in range(LONGEST + 1)]
    assert values == sorted(values)
    assert values[1] == pytest.approx(1 / 3)
    assert 0 <= values[0] < values[-1] < 1


@pytest.mark.parametrize("odds", [0.2, 1.0, 5.0])
def test_what_a_text_keeps_of_its_promises_is_learned(odds: float) -> None:
    """A text whose odds are so many times the usual ones."""
    rng, known = random.Random(0), Reliability()
    for _ in range(2000):
        match = rng.choice((1, 2, 4, 8, 16))
        usual = Reliability()[match]
        true = odds * usual / (1 - usual + odds * usual)
        known.learn(match, rng.random() < true)
    for match in (1, 4, 16):
        usual = Reliability()[match]
        true = odds * usual / (1 - usual + odds * usual)
        assert known[match] == pytest.approx(true, abs=0.15)


def test_another_text_is_noticed_within_a_few_sentences() -> None:
    known = Reliability()
    for _ in range(300):
        known.learn(4, True)
    sure = known[4]
    for i in range(60):
        known.learn(4, i % 4 == 0)
    assert known[4] < 0.6 < sure
