"""Token trees that grow level by level from a proposer's guesses, and the trees of other drafters merged into them.

The shape follows the proposer's own confidence, as Li et al., "EAGLE-2: Faster Inference of Language Models with Dynamic Draft
Trees" (2024), arXiv:2406.16858, have it: the most probable nodes of a level are expanded, and of all nodes the most probable
ones are kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from ...backends.base import ROOT
from ...errors import UserError
from ..base import Context, Drafter, Verified
from ..tree import Draws, Tree
from .drafting import COUPLED, node_budget
from .proposers import Guesses, Proposer

MERGED = ("lookup", "ngram", "recycle", "suffix", "fusion")
"""Drafters that may be merged: they cost next to nothing."""

EXPANDED = 1.75
"""Least probability of a path that goes on, in floors: a pass of the drafter costs more than a node of the target's."""


@dataclass(slots=True)
class Growth:
    """The tree under construction: its nodes in the order in which the proposer evaluates them."""

    tree: Tree
    reached: list[float]
    """By node: the probability of its path, as the draft sees it [n]."""
    depths: list[int]
    evaluated: dict[int, int]
    """Tree node → the draft's own number of it."""


class Grower(Drafter):
    """A drafter of a proposer's most probable tree.

    Under an acceptance rule that samples, children are drawn without replacement from the draft's distribution, which travels
    with the tree; merged drafters' nodes count as certain. Where the target verifies chains only, it drafts the chain of first
    guesses.

    Its `Params` have `nodes`, `depth`, `width`, `grow` and `merge`.
    """

    reads_cache = False
    params: Any

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self._proposer: Proposer | None = None
        self._growth: Growth | None = None
        self._merged: list[Drafter] = []

    @abstractmethod
    def _open(self, context: Context) -> Proposer | None:
        """The proposer; None if there is none but other drafters.

        Raises:
            UserError: there is neither, or it cannot draft for this target.
        """

    def _expansion(self) -> list[int]:
        """Successors of each node, by depth, where the shape is fixed; empty where it follows the draft's confidence."""
        return []

    def _floor(self, context: Context) -> float:
        """The least probability of a path, as the draft sees it."""
        return 0.0

    def draft(self, context: Context) -> Tree:
        self._merged = merged(self.name, self.params.merge, context)
        budget = node_budget(context, self.params.nodes)
        self._growth = None
        if context.room < 1 or budget < 2:
            return Tree.root(context.pending)
        proposer = self._open(context)
        tree = Tree.root(context.pending)
        if proposer is not None:
            self._growth = Growth(tree, [1.0], [0], {})
            # Half of the nodes are for the others, if there are any.
            share = budget if not self._merged else 1 + budget // 2
            self._grow(proposer, context, self._growth, share)
        for drafter in self._merged:
            graft(tree, drafter.draft(context), budget)
        return tree

    def _grow(self, proposer: Proposer, context: Context, growth: Growth, budget: int) -> None:
        """Level by level: guesses for some nodes of a level become the next one."""
        params, tree = self.params, growth.tree
        expansion = self._expansion()
        widths, most = expansion or [params.width] * params.depth, params.grow
        if not context.branching:
            widths, most = [1] * len(widths), 1
        sampled = not context.sampling.greedy and context.acceptance.rule in ("rejection", "soft")
        prune = not expansion and not sampled
        floor = self._floor(context) if prune else 0.0
        level = [0]
        for width in widths[: context.room]:
            room = (1 << 30) if prune else budget - len(tree)
            if not level or room < 1:
                break
            if not expansion:
                # The chain of first guesses always goes on, so that it is never better than the tree.
                first = level[0]
                level = nlargest(most, level, key=lambda node: growth.reached[node])
                level = [first, *(node for node in level if node != first)][:most]
                level = [node for node in level if growth.reached[node] >= EXPANDED * floor]
                if not level:
                    break
            guesses = self._guess(proposer, context, growth, level, width)
            level = self._hang(context, growth, guesses, room, sampled, proposer, floor)
        if prune:
            _prune(growth, budget)

    def _guess(
        self, proposer: Proposer, context: Context, growth: Growth, level: Sequence[int], width: int
    ) -> list[tuple[int, Guesses]]:
        """(node, guesses) for the nodes of a level that could be evaluated."""
        tree, evaluated = growth.tree, growth.evaluated
        if level[0] == 0:
            guesses = proposer.begin(context, width)
        else:
            guesses = proposer.grow(
                [tree.tokens[node] for node in level], [evaluated[tree.parents[node]] for node in level], width
            )
        for node, found in zip(level, guesses, strict=True):
            if found:
                evaluated[node] = len(evaluated)
        return [(node, found) for node, found in zip(level, guesses, strict=True) if found]

    def _hang(
        self,
        context: Context,
        growth: Growth,
        guesses: Sequence[tuple[int, Guesses]],
        room: int,
        sampled: bool,
        proposer: Proposer,
        floor: float,
    ) -> list[int]:
        """Add the guesses to the tree as far as there is room; return the nodes that may be expanded next."""
        tree, greedy = growth.tree, context.sampling.greedy
        # (rank, order, probability of the path, node, token); the first one is the first guess of the first node.
        wishes = []
        for order, (node, found) in enumerate(guesses):
            for rank, (token, probability) in enumerate(found):
                # Where the noise is shared, the order of drawing says more than the probabilities.
                likely = probability if greedy or sampled else COUPLED[min(rank, len(COUPLED) - 1)]
                wishes.append((rank, order, growth.reached[node] * likely, node, token))
        if floor:
            # The very first guess is tried whatever it is worth: its pass is paid for.
            wishes = [wish for wish in wishes if wish[2] >= floor or (len(tree) == 1 and wish[:2] == (0, 0))]
        if len(wishes) > room:
            # What is left out must not depend on what was drawn: the last ones of every node, not the least likely ones.
            wishes = sorted(wishes)[:room]
        children: dict[int, list[int]] = {}
        out = []
        for _, _, reached, parent, token in wishes:
            node = tree.add(token, parent)
            growth.reached.append(reached)
            growth.depths.append(growth.depths[parent] + 1)
            children.setdefault(parent, []).append(node)
            if token not in context.eos_ids:
                out.append(node)
        if sampled:
            drawn = {
                parent: Draws(proposer.distribution(growth.evaluated[parent]), tuple(nodes))
                for parent, nodes in children.items()
            }
            tree.probs = (tree.probs or {}) | drawn
        return out

    def learn(self, verified: Verified) -> None:
        growth = self._growth
        if growth is not None and self._proposer is not None and growth.tree is verified.tree:
            path = [growth.evaluated[node] for node in verified.path if node in growth.evaluated]
            self._proposer.settle(path)
        for drafter in self._merged:
            drafter.learn(verified)

    def close(self) -> None:
        if self._proposer is not None:
            self._proposer.close()
        self._proposer = self._growth = None


def merged(method: str, names: str, context: Context) -> list[Drafter]:
    """The drafters whose trees to merge into a method's own.

    Args:
        method: its name.
        names: theirs, separated by commas.
        context: of the step.

    Raises:
        UserError: one that cannot be.
    """
    wanted = [name for name in names.replace(" ", "").split(",") if name]
    for name in wanted:
        if name not in MERGED:
            raise UserError(f"{method}.merge takes {', '.join(MERGED)}, not {name!r}.")
    if not wanted or context.drafter is None or not context.branching:
        return []
    return [context.drafter(name) for name in dict.fromkeys(wanted)]


def _prune(growth: Growth, budget: int) -> None:
    """Leave the most probable nodes, `budget` of them, and the chain of first guesses among them."""
    tree, reached = growth.tree, growth.reached
    if len(tree) <= budget:
        return
    first = {0}
    for node, parent in enumerate(tree.parents[1:], 1):
        # Of each node's children the first comes first.
        if parent in first and not any(tree.parents[other] == parent for other in first):
            first.add(node)
    # A path is never more probable than its start, and of equals the earlier stays: no node loses its parent.
    ranked = sorted(range(len(tree)), key=lambda node: (node not in first, -reached[node], node))
    kept = sorted(ranked[:budget])
    place = {node: i for i, node in enumerate(kept)}
    tree.tokens[:] = [tree.tokens[node] for node in kept]
    tree.parents[:] = [place.get(tree.parents[node], ROOT) for node in kept]
    growth.reached = [reached[node] for node in kept]
    growth.depths = [growth.depths[node] for node in kept]
    growth.evaluated = {place[node]: number for node, number in growth.evaluated.items() if node in place}


def graft(tree: Tree, other: Tree, budget: int) -> None:
    """Merge another tree of the same pending token into `tree`: what both have is one node (a trie)."""
    children = {(parent, token): node for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True))}
    place = {0: 0}
    for node in range(1, len(other)):
        parent = place.get(other.parents[node])
        if parent is None or node in other.window:
            continue
        key = (parent, other.tokens[node])
        known = children.get(key)
        if known is None:
            if len(tree) >= budget:
                continue
            known = children[key] = tree.add(other.tokens[node], parent)
        place[node] = known
