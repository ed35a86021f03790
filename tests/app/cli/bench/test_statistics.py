"""Paired ratios, their intervals, and the lines of the table."""

from __future__ import annotations

import random
from typing import Any

import pytest

from specchat.app.cli.bench.report import table
from specchat.app.cli.bench.statistics import interval, pairs, summarise


def row(item: str, method: str, seconds: float, turn: int = 0, **more: Any) -> dict[str, Any]:
    base = {"item": item, "method": method, "round": turn, "category": "c", "count": 10, "digest": "d", "steps": 5}
    base |= {"seconds": seconds, "cpu_seconds": seconds / 2, "accepted": 5, "drafted": 10, "nodes": 15}
    return base | {"draft_seconds": 1.0, "forward_seconds": 2.0, "other_seconds": 1.0} | more


def test_ratios_pair_what_was_measured_side_by_side() -> None:
    rows = [row("a", "greedy", 2.0), row("a", "fast", 1.0), row("a", "greedy", 9.0, 1), row("a", "fast", 3.0, 1)]
    rows += [row("b", "greedy", 5.0), row("c", "fast", 5.0), row("d", "greedy", 1.0), row("d", "fast", 1.0, error="x")]
    assert pairs(rows, "fast", "greedy", "wall") == {"a": [2.0, 3.0]}


def test_one_wild_round_moves_nothing() -> None:
    quiet = [[2.0, 2.1, 1.9] for _ in range(9)]
    wild = [*quiet[:-1], [2.0, 40.0, 1.9]]
    assert interval(wild)[0] == interval(quiet)[0] == pytest.approx(2.0)


def test_intervals_hold_the_true_ratio_about_as_often_as_they_say() -> None:
    draw = random.Random(1)
    held = 0
    for trial in range(12):
        groups = [[1.5 * draw.lognormvariate(0, 0.2) for _ in range(2)] for _ in range(8)]
        _, low, high = interval(groups, trial)
        assert 0 < low <= high
        held += low <= 1.5 <= high
    assert held >= 10


def test_a_line_counts_each_prompt_once_and_every_pair() -> None:
    rows = []
    for item in "abc":
        for turn in range(2):
            rows += [row(item, "greedy", 2.0, turn, steps=10), row(item, "fast", 1.0, turn)]
    rows[-1] = {**rows[-1], "digest": "other"}
    greedy, fast = summarise(rows, ["greedy", "fast"], "greedy", "wall")
    assert (fast["prompts"], fast["pairs"], fast["tokens"], fast["steps"]) == (3, 6, 30, 15)
    assert (fast["speedup"], fast["tokens_per_step"], fast["acceptance_rate"], fast["nodes_per_token"]) == (2.0, 2.0, 0.5, 1.5)
    assert (fast["draft_share"], fast["forward_share"], fast["tokens_per_second"]) == (0.25, 0.5, 10.0)
    assert fast["identical"] == 3  # the first round's answers
    assert greedy["speedup"] == greedy["speedup_low"] == greedy["speedup_high"] == 1


def test_an_answer_that_differs_is_not_identical_and_a_failed_one_does_not_count() -> None:
    rows = [row("a", "greedy", 1.0), row("a", "fast", 1.0, digest="e"), row("b", "greedy", 1.0)]
    rows.append({"item": "b", "method": "fast", "round": 0, "category": "c", "error": "it broke"})
    (line,) = summarise(rows, ["fast"], "greedy", "wall")
    assert (line["identical"], line["prompts"]) == (0, 1)


def test_a_line_tells_what_a_token_costs() -> None:
    rows = [{**row("a", "draft", 1.0), "flops": 300e6}, {**row("b", "draft", 1.0), "flops": 100e6}]
    (line,) = summarise(rows, ["draft"], "greedy", "wall")
    assert line["flops_per_token"] == 400e6 / sum(each["count"] for each in rows)
    head, (cells, *_) = table([line])
    assert dict(zip(head, cells, strict=True))["FLOPs/tok"] == "20M"
    (none,) = summarise([row("c", "draft", 1.0)], ["draft"], "greedy", "wall")
    assert "FLOPs/tok" not in table([none])[0], "columns without a figure are left out"
