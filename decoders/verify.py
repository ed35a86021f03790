"""Exact verification: the target's own choice decides, for greedy and for sampling alike, for a chain and for a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.base import Scores
from .base import Tree


def walk(tree: Tree, chosen: Sequence[int]) -> list[int]:
    """The accepted path: from node 0 to a child that carries what the target chose, as long as there is one.

    Args:
        tree: tokens and parents [n]; of two equal siblings the first counts.
        chosen: the target's choice after each node [n].

    Returns:
        indices of the accepted nodes, node 0 first. The choice after the last of them is the next pending token, so a step
        produces as many tokens as this has entries.
    """
    path = [0]
    # Parents precede children, so one pass in index order finds the whole path.
    for node in range(1, len(tree.tokens)):
        last = path[-1]
        if tree.parents[node] == last and tree.tokens[node] == chosen[last]:
            path.append(node)
    return path


def probabilities(tree: Tree, scores: Scores, end: int, last: int) -> tuple[float, ...]:
    """The target's probability (plain softmax) of every token after node 0, in node order, then of `last` after node `end`.

    Args:
        tree: what was verified [n].
        scores: row i is node i's.
        end: the last accepted node.
        last: the token chosen after it.
    """
    rows: dict[int, Any] = {}

    def prob(node: int, token: int) -> float:
        if node not in rows:
            rows[node] = scores.probs(node)
        return float(rows[node][token])

    return (*(prob(tree.parents[node], tree.tokens[node]) for node in range(1, len(tree))), prob(end, last))
