"""Draft lengths, and the costs they are chosen from."""

from __future__ import annotations

import pytest

from specchat.decoders.parts.costs import PassCosts
from specchat.decoders.parts.schedules import Rates, Schedule, best_length


def costs(one: float, per_node: float, sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)) -> PassCosts:
    """What a target teaches whose passes cost `one` and a constant more per further node."""
    out = PassCosts()
    for _ in range(30):
        for size in sizes:
            out.learn(size, one + per_node * (size - 1))
    return out


def test_costs_between_and_beyond_what_was_measured_lie_on_a_line() -> None:
    known = costs(10.0, 1.0, (1, 8, 16))
    assert known.seconds(1) == pytest.approx(10, rel=0.02)
    assert known.seconds(4) == pytest.approx(13, rel=0.02)
    assert known.seconds(16) == pytest.approx(25, rel=0.02)
    assert known.seconds(32) == pytest.approx(41, rel=0.02)
    assert known.seconds(0) == 0


def test_costs_keep_the_dips_that_were_measured() -> None:
    known = PassCosts(((1, 10.0), (4, 24.0), (8, 19.0), (16, 40.0)))
    assert known.seconds(8) < known.seconds(4)
    assert [round(known.seconds(n) / 10, 1) for n in (1, 4, 8, 16)] == pytest.approx([1, 2.4, 1.9, 4.0], abs=0.15)
    for _ in range(40):
        known.learn(4, 15.0)
    assert known.seconds(4) == pytest.approx(15, abs=1), "passes while answering have the last word"


def test_one_interrupted_pass_does_not_change_the_picture() -> None:
    known = costs(10.0, 1.0)
    known.learn(1, 5000.0)
    assert known.seconds(1) < 11
    assert PassCosts().seconds(5) == 0
    assert not PassCosts().known


def test_rates_are_conditional_by_position() -> None:
    rates = Rates()
    for _ in range(400):
        rates.learn(3, 2)  # the first two are always accepted, the third never
    assert rates.at(0) > 0.99
    assert rates.at(1) > 0.99
    assert rates.at(2) < 0.01
    assert rates.expected(3) == pytest.approx([1, 2, 3, 3], abs=0.05)
    assert rates.at(9) == rates.at(2)


@pytest.mark.parametrize(
    ("accept", "draft", "per_node", "expected"),
    [
        (1.0, 0.01, 0.0, (14, 16)),  # always right and nearly free: as long as it may be
        (0.0, 0.5, 0.5, (1, 1)),  # never right and dear: the least
        (1.0, 1.0, 0.0, (1, 16)),
    ],
)
def test_the_cost_schedule_weighs_acceptance_against_seconds(
    accept: float, draft: float, per_node: float, expected: tuple[int, int]
) -> None:
    rates = Rates()
    for _ in range(300):
        rates.learn(16, round(16 * accept))
    low, high = expected
    assert low <= best_length(rates, costs(1.0, per_node), draft, 16) <= high


def test_the_cost_schedule_finds_the_optimum_of_its_formula() -> None:
    rates = Rates()
    for i in range(3000):
        rates.learn(8, min(8, i % 5))
    known, draft = costs(10.0, 0.4), 1.5
    speeds = {k: rates.expected(8)[k] / (k * draft + known.seconds(k + 1)) for k in range(1, 9)}
    best = best_length(rates, known, draft, 8)
    assert best == max(speeds, key=lambda k: speeds[k])
    assert 1 < best < 8


def lengths(name: str, outcomes: list[bool]) -> list[int]:
    """K of each round, where a round is accepted whole or not at all."""
    schedule = Schedule(name)
    out = []
    for whole in outcomes:
        k = schedule.length(4, 6)
        out.append(k)
        schedule.learn(k, k if whole else 0, k + 1, 1.0, [0.1] * k)
    return out


def test_the_published_schedules_step_as_published() -> None:
    outcomes = [True, True, False, True, True, True, True, False, False]
    assert lengths("constant", outcomes) == [4] * 9
    assert lengths("plus-minus-one", outcomes) == [1, 2, 3, 2, 3, 4, 5, 6, 5]
    assert lengths("heuristic", outcomes) == [4, 6, 6, 5, 6, 6, 6, 6, 5]
    assert lengths("confidence", outcomes) == [6] * 9
    assert lengths("plus-minus-one", [False] * 4) == [1, 1, 1, 1]


def test_sizes_off_the_line_are_learned() -> None:
    """A kernel that takes tiles of four nodes."""
    known = PassCosts()
    for _ in range(40):
        for size in (1, 4, 5, 8, 16):
            known.learn(size, 1.0 + 0.5 * ((size - 1) // 4))
    assert known.seconds(4) == pytest.approx(1.0, rel=0.12)
    assert known.seconds(5) == pytest.approx(1.5, rel=0.12)
    assert known.seconds(16) == pytest.approx(2.5, rel=0.05)
