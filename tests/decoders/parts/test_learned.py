"""How often matches go on as before, learned from the text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders.parts.learned import LONGEST, Reliability, Shares


def test_longer_matches_are_surer() -> None:
    known = Reliability()
    values = [known[m] for m in range(LONGEST + 1)]
    assert values == sorted(values)
    assert values[1] == pytest.approx(1 / 3)
    assert values[8] < values[12] == values[LONGEST]
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


@given(st.integers(2, 4), st.integers(1, 64), st.integers(1, 12), st.data())
def test_all_nodes_are_allotted_and_nobody_is_left_out_for_good(
    count: int, nodes: int, chain: int, data: st.DataObject
) -> None:
    shares = Shares(count)
    lengths = st.one_of(st.none(), st.integers(0, 8))
    for _ in range(30):
        given_out = shares.allot(nodes, chain)
        assert sum(given_out) == nodes
        assert all(each == 0 or each >= min(chain, nodes // count) for each in given_out)
        shares.learn(data.draw(st.lists(lengths, min_size=count, max_size=count)))
        assert sum(shares.of_all()) == pytest.approx(1)
        assert min(shares.of_all()) > 0
    drafted = [0] * count
    for _ in range(64 * count * chain):
        drafted = [had or each for had, each in zip(drafted, shares.allot(nodes, chain), strict=True)]
    assert all(drafted) or nodes < count


def test_nodes_go_to_who_is_missed_more() -> None:
    shares = Shares(2)
    assert shares.allot(19, 5) == [10, 9]
    for _ in range(10):
        shares.learn([3, 1])
    assert shares.of_all()[0] > 0.9
    rounds = [shares.allot(19, 5) for _ in range(20)]
    assert 1 <= sum(second > 0 for _, second in rounds) <= 8, "who is of little use seldom costs its passes"
    assert all(second in (0, 5, 6) for _, second in rounds)
    before = shares.of_all()
    shares.learn([4, None])
    assert shares.of_all() == before, "who drafts alone proves nothing about the others"
    for _ in range(40):
        shares.learn([1, 3])
    assert shares.of_all()[1] > 0.6
