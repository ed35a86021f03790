"""Totals over hand-made steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from specchat.decoders.stats import Totals
from specchat.decoders.step import StepRecord


def made(tokens: Sequence[int], **values: Any) -> StepRecord:
    """A step of 1.75 s."""
    return StepRecord(
        *("any", tokens),
        **{"draft_seconds": 0.25, "forward_seconds": 1.0, "other_seconds": 0.5, **values},
    )


def totals(*records: StepRecord) -> Totals:
    out = Totals()
    for record in records:
        out.add(record)
    return out


def test_an_empty_answer_divides_nothing() -> None:
    t = Totals()
    assert t.acceptance_rate == t.tokens_per_step == t.nodes_per_token == t.tokens_per_second == 0
    assert t.position_acceptance == []
    assert t.alpha == 0


def test_sums_and_ratios() -> None:
    t = totals(
        made((1, 2, 3), drafted=4, accepted=2, nodes=5),
        made((4,), drafted=4, accepted=0, nodes=5),
        made((5,)),
        made((6, 7, 8), drafted=2, accepted=2, nodes=3),
    )
    assert (t.steps, t.tokens, t.drafted, t.accepted, t.nodes) == (4, 8, 10, 4, 14)
    assert t.runs == [3, 1, 1, 3]
    assert t.acceptance_rate == 0.4
    assert t.tokens_per_step == 2
    assert t.nodes_per_token == 14 / 8
    assert t.seconds == 7
    assert t.tokens_per_second == 8 / 7
    # Three steps drafted a first token, two of them had it accepted; one of the two drafted a third token, refused.
    assert t.drafted_at == [3, 2, 1]
    assert t.accepted_at == [2, 2, 0]
    assert t.position_acceptance == [2 / 3, 1, 0]
    assert t.alpha == 4 / 6


def timed(nodes: int, run: int, draft: float = 0.0, forward: float | None = None) -> StepRecord:
    """A chain of `nodes - 1` draft tokens whose pass costs 10 + 1 per node, unless told."""
    seconds = 10 + nodes if forward is None else forward
    counts = {"drafted": nodes - 1, "accepted": run - 1, "nodes": nodes}
    took = {"draft_seconds": draft, "forward_seconds": seconds, "other_seconds": 0.0}
    return made(range(run), **counts, **took, tree_parents=range(-1, nodes - 1), path=range(run))


def test_a_step_costs_what_a_line_through_the_plain_one_and_the_mean_says() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0), timed(9, 2, 4.0), timed(5, 5, 2.0))
    assert t.depth == 16
    assert t.draft_token_seconds == 0.5
    for nodes in (1, 3, 20):
        assert t.step_seconds(nodes, 11) == pytest.approx(10 + nodes)
    assert t.step_seconds(9, 99) == 99, "no pass takes less for being larger"
    assert totals(timed(1, 1)).step_seconds(9, 11) == 11, "one size tells nothing about others"
    assert Totals().step_seconds(3, 11) == 11


def test_the_speedup_is_that_over_plain_steps() -> None:
    t = totals(*[timed(5, 4, 2.0) for _ in range(50)], timed(1, 1))
    assert t.speedup(11) == pytest.approx((50 * 4 + 1) * 11 / (50 * 17 + 11))
    assert totals(timed(1, 1), timed(1, 1)).speedup(11) == pytest.approx(1)
    assert Totals().speedup(11) == 0


def test_the_formula_gives_the_measured_speedup_of_steady_drafts() -> None:
    t = totals(*[timed(5, 5, 2.0) for _ in range(9)])
    assert t.alpha == 1
    assert t.what_if(4, t.alpha, 11) == pytest.approx(t.speedup(11))


def test_what_if_follows_the_formula() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0))
    table = [[t.what_if(k, rate, 11) for rate in (0.0, 0.5, 1.0)] for k in (0, 1, 4)]
    assert table[0] == pytest.approx([1, 1, 1])
    assert table[1] == pytest.approx([11 / 12.5, 1.5 * 11 / 12.5, 2 * 11 / 12.5])
    assert table[2][2] == pytest.approx(5 * 11 / 17)
    assert Totals().what_if(1, 0.5, 0) == 0


def test_the_ratio_for_a_speedup_is_where_it_is_reached() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0))
    found = t.ratio_for(1.5, 0.8, 11)
    assert found is not None
    ratio, length = found
    assert t.what_if(length, 0.8, 11, ratio) == pytest.approx(1.5)
    best, gain = t.best_length(0.8, 11, ratio)
    assert gain == pytest.approx(1.5), "no other length does better there"
    assert best == length
    assert t.best_length(0.8, 11, ratio * 1.1)[1] < 1.5 < t.best_length(0.8, 11, ratio * 0.9)[1]
    assert t.ratio_for(2.0, 0.3, 11) is None, "at most 1 / (1 - 0.3) tokens a pass"
    assert Totals().ratio_for(2.0, 0.9, 0.0) is None


def test_a_position_counts_once_however_many_branches_it_has() -> None:
    # 0 ─ 1 ─ 3 ─ 4, and 0 ─ 2: node 2 is right and has nothing below it, so nothing was refused after it.
    tree = [-1, 0, 0, 1, 3]
    t = totals(made((6, 1), drafted=4, accepted=1, nodes=5, tree_parents=tree, path=(0, 2)))
    assert (t.drafted_at, t.accepted_at) == ([1], [1])
    t = totals(made((5, 1), drafted=4, accepted=1, nodes=5, tree_parents=tree, path=(0, 1)))
    assert (t.drafted_at, t.accepted_at) == ([1, 1], [1, 0])
    t = totals(made((1,), drafted=4, accepted=0, nodes=5, tree_parents=tree, path=(0,)))
    assert (t.drafted_at, t.accepted_at) == ([1], [0])
    t = totals(made((1,), tree_parents=[-1]))
    assert (t.drafted_at, t.accepted_at) == ([], [])


def test_a_pass_that_took_prompt_tokens_along_says_nothing_of_what_a_pass_costs() -> None:
    t = totals(made((1,), forward_seconds=0.01, prefilled=90), made((1,)), made((1,)))
    assert (t.timed, t.timed_tokens, t.timed_seconds) == (2, 2, 3.5)
    assert t.forward_seconds == 2.01
