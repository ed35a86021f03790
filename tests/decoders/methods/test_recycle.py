"""Token recycling: the table of successors, the tree that grows from it, and that it survives. The table is private, and read
here: a draft shows a few of its rows."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders import Conversation, Generation
from specchat.decoders.base import Verified
from specchat.decoders.methods.recycle import SHARES, Recycle, RecycleParams, SuccessorTable
from specchat.decoders.tree import Tree

from ...cases import cases
from ...fakes.models.toy import ToyModel, drafting


def recycle(rows: dict[int, tuple[int, ...]] | None = None, **params: Any) -> Recycle:
    drafter = Recycle(RecycleParams(**params))
    for token, row in (rows or {}).items():
        drafter._table.write(token, row)
    return drafter


def paths(tree: Tree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[i] for i in tree.path(node)) for node in range(len(tree))}


@cases(100)
@given(st.integers(0, 10**6), st.integers(1, 24), st.integers(0, 5), st.booleans())
def test_the_tree_is_the_most_probable_one(seed: int, nodes: int, room: int, branching: bool) -> None:
    rng = random.Random(seed)
    rows = {token: tuple(rng.sample(range(6), rng.randint(0, 4))) for token in range(6)}
    tree = recycle(rows, nodes=nodes, shape="fixed", text=False).draft(drafting([0], room=room, branching=branching, eos=[5]))
    # Every path there is, with the product of its ranks' shares.
    level: dict[tuple[int, ...], float] = {(0,): 1.0}
    everything = dict(level)
    for _ in range(room):
        level = {
            (*path, token): p * SHARES[rank]
            for path, p in level.items()
            if path[-1] != 5
            for rank, token in enumerate(rows[path[-1]])
            if branching or rank == 0
        }
        everything |= level
    grown = paths(tree)
    assert len(grown) == len(tree) == min(nodes, len(everything))
    best = sorted(everything.values(), reverse=True)[: len(tree)]
    assert sorted((everything[path] for path in grown), reverse=True) == best


def test_every_evaluated_node_fills_its_row() -> None:
    model = ToyModel(1, memory=1, vocabulary=20)
    conversation = Conversation(model)
    evaluated = set()
    for step in Generation(conversation, [1, 2, 3], "recycle", settings={"successors": 5, "text": False}, max_tokens=60):
        evaluated |= set(step.tree.tokens)
    drafter = conversation.drafter("recycle", {"successors": 5, "text": False})
    assert isinstance(drafter, Recycle)
    assert set(drafter._table._rows) == evaluated
    for token in evaluated:
        assert drafter._table.row(token) == tuple(model.ranked([token])[:5])


def test_of_a_token_met_twice_the_accepted_one_counts() -> None:
    model = ToyModel(2, memory=2, vocabulary=30)
    session = model.open_session()
    tree = Tree([1, 2, 3, 2], [-1, 0, 0, 2])
    scores = session.evaluate(tree.tokens, tree.parents)
    drafter = recycle(successors=4)
    drafter.learn(Verified(tree, [2, 5, 6, 7], [0, 1], scores))
    assert model.ranked([1, 2])[:4] != model.ranked([3, 2])[:4]
    assert drafter._table.row(2) == tuple(model.ranked([1, 2])[:4])
    assert drafter._table.row(3) == tuple(model.ranked([1, 3])[:4])


def test_the_text_gives_first_successors() -> None:
    tree = recycle(nodes=8).draft(drafting([1, 2, 3, 1, 4, 1]))
    assert paths(tree) >= {(1, 4), (1, 2), (1, 2, 3), (1, 4, 1)}
    assert tree.tokens[1] == 4, "the latest first"
    assert len(recycle(nodes=8, text=False).draft(drafting([1, 2, 3, 1, 4, 1]))) == 1
    # What the target thinks replaces it, and keeps its width.
    drafter = recycle({1: (7, 8)}, successors=2)
    assert drafter.draft(drafting([1, 9, 1])).tokens[:2] == [1, 9]
    assert drafter._table.row(1) == (9, 7)


def test_the_table_is_bounded() -> None:
    table = SuccessorTable(rows=10)
    for token in range(100):
        table.write(token, (1, 2))
        table.write(0, (3,))
    assert set(table._rows) == {0, *range(91, 100)}
    table = SuccessorTable(rows=10)
    table.follow(range(100))
    assert len(table._rows) == 10
