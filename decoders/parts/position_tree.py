"""The token tree of drafters that guess several positions at once, each without the others' tokens: PARD, Medusa, DFlash.
Any token of a position may then follow any token of the position before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

from ..base import Context
from ..tree import Draws, Tree
from .drafting import COUPLED, node_budget, weighs_draft
from .proposers import Guesses, Proposer


def draft_positions(proposer: Proposer, context: Context, params: Any, positions: int, filler: int, floor: float) -> Tree:
    """Draft a tree with a proposer whose first pass guesses all positions.

    Args:
        proposer: makes the guesses.
        context: of the step.
        params: `nodes` of the tree and `width` of a position.
        positions: to guess.
        filler: token in the place of those that are not known yet.
        floor: least probability of a path.
    """
    budget = node_budget(context, params.nodes)
    if positions < 1 or budget < 2:
        proposer.note = ""
        return Tree.root(context.pending)
    guesses = proposer.begin(context, params.width if context.branching else 1, [filler] * (positions - 1))
    return position_tree(context, guesses, budget, floor, proposer.distribution)


def position_tree(
    context: Context, guesses: Sequence[Guesses], nodes: int, floor: float, distribution: Callable[[int], Any]
) -> Tree:
    """Grow the most probable tree, best first: a path's probability is the product of its tokens'.

    Where guesses are sampled, the shape follows from their ranks alone: rejection sampling must not know the tokens drawn.

    Args:
        context: its pending token is the root.
        guesses: of each position below it.
        nodes: most nodes, the pending token included.
        floor: least probability of a path.
        distribution: q [vocab] of a position, from which its guesses were drawn.
    """
    sampling = context.sampling
    likely = [
        [p if sampling.greedy else COUPLED[min(rank, len(COUPLED) - 1)] for rank, (_, p) in enumerate(position)]
        for position in guesses
    ]
    tree = Tree.root(context.pending)
    children: dict[int, tuple[int, list[int]]] = {}
    order, chances = count(), [1.0]
    # (-probability of the path, order, probability of the parent's path, parent, position, rank)
    waiting: list[tuple[float, int, float, int | None, int, int]] = []

    def wait(reached: float, parent: int | None, position: int, rank: int) -> None:
        if position < len(likely) and rank < len(likely[position]) and reached * likely[position][rank] >= floor:
            heappush(waiting, (-reached * likely[position][rank], next(order), reached, parent, position, rank))

    wait(1.0, 0, 0, 0)
    for _ in range(nodes - 1):
        if not waiting:
            break
        reached, _, above, parent, position, rank = heappop(waiting)
        token, node = guesses[position][rank][0], None
        # Nodes below an EOS are counted, but not added: else the tokens drawn would decide how many other nodes there are.
        if parent is not None:
            node = tree.add(token, parent)
            chances.append(-reached)
            children.setdefault(parent, (position, []))[1].append(node)
        wait(above, parent, position, rank + 1)
        wait(-reached, None if token in context.eos_ids else node, position + 1, 0)
    tree.reached = chances
    # Branches share their draws.
    tree.apart = len({*tree.parents}) == len(tree)
    if weighs_draft(context):
        tree.probs = {parent: Draws(distribution(position), tuple(below)) for parent, (position, below) in children.items()}
    return tree
