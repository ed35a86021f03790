"""Totals over hand-made steps."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pytest

from specchat.decoders.base import Tree
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
    tree: Tree | None = None
    path: tuple[int, ...] = (0,)


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


def test_a_position_counts_once_however_many_branches_it_has() -> None:
    # 0 ─ 1 ─ 3 ─ 4, and 0 ─ 2: node 2 is right and has nothing below it, so nothing was refused after it.
    tree = Tree([9, 5, 6, 7, 8], [-1, 0, 0, 1, 3])
    t = totals(Record((6, 1), drafted=4, accepted=1, nodes=5, tree=tree, path=(0, 2)))
    assert (t.offered, t.taken) == ([1], [1])
    t = totals(Record((5, 1), drafted=4, accepted=1, nodes=5, tree=tree, path=(0, 1)))
    assert (t.offered, t.taken) == ([1, 1], [1, 0])
    t = totals(Record((1,), drafted=4, accepted=0, nodes=5, tree=tree, path=(0,)))
    assert (t.offered, t.taken) == ([1], [0])
    t = totals(Record((1,), tree=Tree.root(9)))
    assert (t.offered, t.taken) == ([], [])


def test_fields_are_plain_data() -> None:
    t = totals(Record((1, 2), drafted=1, accepted=1, nodes=2))
    assert Totals(**json.loads(json.dumps(asdict(t)))) == t
