"""Totals over hand-made steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from specchat.decoders.stats import Totals


@dataclass(frozen=True)
class Record:
    """A step, as far as Totals looks at it."""

    tokens: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0
    nodes: int = 1
    draft_seconds: float = 0.25
    forward_seconds: float = 1.0
    other_seconds: float = 0.5
    tree_parents: Sequence[int] = ()
    path: tuple[int, ...] = (0,)
    prefilled: int = 0
    earlier: int = 0
    checked: int = 0


def totals(*records: Record) -> Totals:
    out = Totals()
    for record in records:
        out.add(record)
    return out


def test_an_empty_answer_divides_nothing() -> None:
    t = Totals()
    assert t.acceptance_rate == t.tokens_per_step == t.nodes_per_token == t.tokens_per_second == 0
    assert t.position_acceptance == []
    assert t.histogram == {}
    assert t.expected_tokens(5) == 1


def test_sums_and_ratios() -> None:
    t = totals(
        Record((1, 2, 3), drafted=4, accepted=2, nodes=5),
        Record((4,), drafted=4, accepted=0, nodes=5),
        Record((5,)),
        Record((6, 7, 8), drafted=2, accepted=2, nodes=3),
    )
    assert (t.steps, t.tokens, t.drafted, t.accepted, t.nodes) == (4, 8, 10, 4, 14)
    assert t.runs == [3, 1, 1, 3]
    assert t.histogram == {1: 2, 3: 2}
    assert t.acceptance_rate == 0.4
    assert t.tokens_per_step == 2
    assert t.nodes_per_token == 14 / 8
    assert t.seconds == 7
    assert t.tokens_per_second == 8 / 7
    # Three steps drafted a first token, two of them had it accepted; one of the two drafted a third token, refused.
    assert t.offered == [3, 2, 1]
    assert t.taken == [2, 2, 0]
    assert t.position_acceptance == [2 / 3, 1, 0]
    assert t.expected_tokens(0) == 1
    assert t.expected_tokens(2) == pytest.approx(1 + 2 / 3 + 2 / 3)
    assert t.expected_tokens(99) == t.expected_tokens(2)


def timed(nodes: int, run: int, draft: float = 0.0, forward: float | None = None) -> Record:
    """A chain of `nodes - 1` draft tokens whose pass costs 10 + 1 per node, unless told."""
    seconds = 10 + nodes if forward is None else forward
    tree = range(-1, nodes - 1)
    return Record(tuple(range(run)), nodes - 1, run - 1, nodes, draft, seconds, 0.0, tree, tuple(range(run)))


def test_costs_lie_on_a_line_through_the_passes() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0), timed(9, 2, 4.0), timed(5, 5, 2.0))
    assert t.depth == 16
    assert t.draft_token_seconds == 0.5
    for nodes in (1, 3, 20):
        assert t.pass_seconds(nodes) == pytest.approx(10 + nodes)
    assert t.passes == [[1, 1, 11.0], [5, 2, 30.0], [9, 1, 19.0]]
    assert totals(timed(4, 1), timed(4, 2)).pass_seconds(1) == 14, "one size tells nothing about others"
    assert Totals().pass_seconds(3) == 0
    assert totals(timed(1, 1, forward=30), timed(8, 1, forward=5)).pass_seconds(50) > 0, "no negative slope"


def test_alpha_is_the_mean_over_rounds() -> None:
    t = totals(timed(5, 3), timed(1, 1), timed(3, 3))
    assert (t.rounds, t.round_acceptance) == (2, 0.75)


def test_the_predicted_speedup_of_steady_rounds_is_the_measured_one() -> None:
    t = totals(*[timed(5, 4, 2.0) for _ in range(50)], timed(1, 1))
    assert t.measured_speedup == pytest.approx(t.predicted_speedup, rel=0.03)
    assert t.measured_speedup == pytest.approx(4 * 11 / (15 + 2), rel=0.03)
    # α = 3/4 of K = 4, l_d = 0.5: the published formula takes every pass for one of a single node.
    assert t.source_speedup == pytest.approx((0.75 * 4 + 1) / (4 * 0.5 / 11 + 1))


def test_an_answer_without_drafts_has_no_speedup() -> None:
    t = totals(timed(1, 1), timed(1, 1))
    assert t.predicted_speedup == 0
    assert t.source_speedup == 0
    assert t.measured_speedup == pytest.approx(1)


def test_what_if_follows_the_formula() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0))
    table = t.what_if([0, 1, 4], [0.0, 0.5, 1.0])
    assert [len(row) for row in table] == [3, 3, 3]
    assert table[0] == pytest.approx([1, 1, 1])
    assert table[1] == pytest.approx([11 / 12.5, 1.5 * 11 / 12.5, 2 * 11 / 12.5])
    assert table[2][2] == pytest.approx(5 * 11 / 17)
    assert Totals().what_if([1], [0.5]) == [[0.0]]


def test_a_position_counts_once_however_many_branches_it_has() -> None:
    # 0 ─ 1 ─ 3 ─ 4, and 0 ─ 2: node 2 is right and has nothing below it, so nothing was refused after it.
    tree = [-1, 0, 0, 1, 3]
    t = totals(Record((6, 1), drafted=4, accepted=1, nodes=5, tree_parents=tree, path=(0, 2)))
    assert (t.offered, t.taken) == ([1], [1])
    t = totals(Record((5, 1), drafted=4, accepted=1, nodes=5, tree_parents=tree, path=(0, 1)))
    assert (t.offered, t.taken) == ([1, 1], [1, 0])
    t = totals(Record((1,), drafted=4, accepted=0, nodes=5, tree_parents=tree, path=(0,)))
    assert (t.offered, t.taken) == ([1], [0])
    t = totals(Record((1,), tree_parents=[-1]))
    assert (t.offered, t.taken) == ([], [])


def test_a_pass_that_took_prompt_tokens_along_says_nothing_of_what_a_pass_costs() -> None:
    t = totals(Record((1,), forward_seconds=0.01, prefilled=90), Record((1,)), Record((1,)))
    assert t.pass_seconds(1) == 1.0
    assert t.forward_seconds == 2.01
