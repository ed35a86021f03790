"""The tree of guesses for several positions: the most probable paths, whatever the budget."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from typing import Any

import pytest

from specchat.backends import Sampling
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.base import Context
from specchat.decoders.parts.position_tree import position_tree
from specchat.decoders.parts.proposers import Guesses
from specchat.decoders.tree import Tree

EOS = 9


def context(temperature: float = 0.0, rule: Any = "exact") -> Context:
    return Context([7], None, Sampling(temperature=temperature), 99, frozenset({EOS}), acceptance=Acceptance(rule))  # type: ignore[arg-type]


def paths(tree: Tree) -> list[tuple[int, ...]]:
    """The tokens of each node's path, below the root."""
    return [tuple(tree.tokens[step] for step in tree.path(node)[1:]) for node in range(1, len(tree))]


def guessed(rng: random.Random) -> list[Guesses]:
    """Up to four guesses for each of up to four positions, the most probable first."""
    return [
        sorted(((token, rng.random()) for token in rng.sample(range(10, 90), rng.randint(1, 4))), key=lambda pair: -pair[1])
        for _ in range(rng.randint(1, 4))
    ]


def test_the_most_probable_paths_are_in_it() -> None:
    rng = random.Random(1)
    for _ in range(300):
        guesses, nodes, floor = guessed(rng), rng.randint(1, 30), rng.choice((0.0, 0.1, 0.3))
        found = paths(position_tree(context(), guesses, nodes, floor, lambda _: None))
        every = [path for depth in range(1, len(guesses) + 1) for path in product(*guesses[:depth])]
        reached = {tuple(token for token, _ in path): prod(p for _, p in path) for path in every}
        best = sorted((p for p in reached.values() if p >= floor), reverse=True)[: nodes - 1]
        assert sorted((reached[path] for path in found), reverse=True) == pytest.approx(best)
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("rule", ["exact", "rejection", "soft"])
def test_where_guesses_are_drawn_their_ranks_alone_decide(rule: Any) -> None:
    rng = random.Random(2)
    for _ in range(100):
        guesses, nodes = guessed(rng), rng.randint(2, 30)
        other = [[(token + 100, rng.random()) for token, _ in found] for found in guesses]
        trees = [
            position_tree(context(0.8, rule), each, nodes, 0.0, lambda position: f"q{position}") for each in (guesses, other)
        ]
        assert trees[0].parents == trees[1].parents
        assert [token + 100 for token in trees[0].tokens[1:]] == trees[1].tokens[1:]
        if rule == "exact":
            assert trees[0].probs is None
            continue
        depths = trees[0].depths()
        for parent, draws in (trees[0].probs or {}).items():
            assert draws.q == f"q{depths[parent]}"
            below = [node for node, above in enumerate(trees[0].parents) if above == parent]
            assert draws.nodes == tuple(below)
            assert [trees[0].tokens[node] for node in below] == [token for token, _ in guesses[depths[parent]]][: len(below)]


def test_an_eos_takes_its_place_and_ends_its_path() -> None:
    rng = random.Random(3)
    seen = 0
    for _ in range(100):
        guesses, nodes = guessed(rng), rng.randint(2, 30)
        whole = position_tree(context(0.8), guesses, nodes, 0.0, lambda _: None)
        position = rng.randrange(len(guesses))
        rank = rng.randrange(len(guesses[position]))
        gone, p = guesses[position][rank]
        guesses[position][rank] = (EOS, p)
        cut = position_tree(context(0.8), guesses, nodes, 0.0, lambda _: None)
        wanted = [
            tuple(EOS if depth == position and token == gone else token for depth, token in enumerate(path))
            for path in paths(whole)
        ]
        assert paths(cut) == [path for path in wanted if EOS not in path[:-1]]
        seen += len(cut) < len(whole)
    assert seen > 10
