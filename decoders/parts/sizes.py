"""The size of a draft that is verified: as many nodes as promise the most tokens for the cost of their pass.

A pass over n nodes costs C(n) plain ones, a curve that was measured at load (`backends/pass_times.py`), and gives E(n) tokens:
one, and the probabilities of the paths to its draft nodes. Of all n that with the highest E(n) / C(n) is taken. The curve is no
line: where two nodes cost 2.6 plain passes and sixteen 5.5, a copy is drafted 15 tokens at a time and a doubtful guess not at
all; and where six cost more than eight, eight are taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from ...backends.base import Model
from ...backends.info import MOST_NODES, least_share, plain_passes
from ..tree import Tree
from .learned import Calibration

RISK = 1.0
"""Tokens that a draft must promise beyond its pass's cost, as a share of the loss of earlier drafts."""

COMPARED = 4
"""Tokens of a declined draft that are compared with the text that came instead."""

FORGIVEN = 0.03
"""Loss that a plain pass makes good, in plain passes: the cost of drafts where none is right."""


def pass_curve(model: Model | None) -> tuple[tuple[int, float], ...]:
    """Return the seconds of a model's passes by size; none if they are not known."""
    return model.info.pass_seconds if model is not None else ()


class Drafting(Protocol):
    """The part of a step's `Context` that decides on sizes."""

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def model(self) -> Model | None: ...


class Sizes:
    """Chooses the size of each of a drafter's trees, and learns how reliable its probabilities are."""

    def __init__(self) -> None:
        self._calibration = Calibration()
        self._debt = 0.0
        """Plain passes that drafts have lost."""
        self._untested: tuple[Tree, Sequence[int], int] | None = None
        """A draft that was declined, the text, and its length."""
        self.promised = 1.0, 1.0
        """Tokens expected from the last draft after its cut, in all and for the time of a plain pass."""
        self.declined: tuple[float, ...] = ()
        """Nodes of the last draft, and their cost in plain passes, if that was more than it promised; else empty."""

    def floor(self, context: Drafting) -> float:
        """Find the least probability of a path, as the drafter sees it, that can pay."""
        least = least_share(pass_curve(context.model))
        return self._calibration.threshold(least) if least else 0.0

    def least(self, context: Drafting, floor: float) -> float:
        """Return the floor that a setting asks for, or the one by the cost of passes if it is negative."""
        return floor if floor >= 0 else self.floor(context)

    def expected(self, reached: Sequence[float]) -> list[float]:
        """Compute E(0), E(1) … E(n): the tokens expected from a pass over a tree's n most probable nodes.

        Args:
            reached: probability of each node's path as the drafter sees it, falling, the pending token's 1 first [n].
        """
        factors, edges = self._calibration.factors, Calibration.EDGES
        out, so_far = [0.0, 1.0], 1.0
        for probability in reached[1:]:
            so_far += min(1.0, probability * factors[bisect_left(edges, probability)])
            out.append(so_far)
        return out

    def cut(
        self,
        tree: Tree,
        context: Drafting,
        costs: Sequence[float] | None = None,
        rate: float = 1.0,
    ) -> Tree:
        """Leave the nodes of a tree that are worth a pass; the pending token alone where none are.

        Args:
            tree: as it was drafted. It stays as it is if it has no probabilities, or if they may not decide: its nodes were
                drawn from a distribution, or have been evaluated in part.
            context: of the step.
            costs: of a pass by its nodes, in plain passes; None for those measured at load.
            rate: tokens in a plain pass's time that a draft has to beat.
        """
        self.declined = ()
        self.promised = 1.0, 1.0
        self._learn_declined(context.tokens)
        reached = tree.reached
        if len(tree) == 1 or len(reached) != len(tree) or tree.probs is not None or tree.pre_evaluated:
            return tree
        order: Sequence[int] = range(len(tree))
        if any(one < other for one, other in pairwise(reached)):
            order = sorted(order, key=lambda node: (-reached[node], node))  # a path is never likelier than its start
        most = min(MOST_NODES, len(tree))
        costs = costs or plain_passes(pass_curve(context.model))
        expected = self.expected([reached[node] for node in order[:most]])
        (speed, best) = max(((expected[n] / costs[n], -n) for n in range(2, most + 1)), default=(0.0, -1))
        best, cost = -best, costs[-best]
        if best == 1 or expected[best] < rate * cost + RISK * self._debt:
            self.declined = (best, round(cost, 2)) if best > 1 else ()
            if self._untested is None:
                self._untested = tree, context.tokens, len(context.tokens)
            return tree.only([0])
        self.promised = expected[best], speed
        return tree if best == len(tree) else tree.only(sorted(order[:best]))

    def learn(self, tree: Tree, path: Sequence[int], context: Drafting) -> None:
        """Learn from a verified tree and its accepted path."""
        if len(tree) > 1 and len(tree.reached) == len(tree):
            costs = plain_passes(pass_curve(context.model))
            self._debt = max(0.0, self._debt + costs[min(len(tree), MOST_NODES)] - len(path))
            self._calibration.learn(tree.reached, path)
        else:
            self._debt = max(0.0, self._debt - FORGIVEN)
            self._calibration.learn((), ())

    def _learn_declined(self, tokens: Sequence[int]) -> None:
        """Learn from a declined draft, once the text has continued without it."""
        if self._untested is None:
            return
        tree, text, length = self._untested
        if text is not tokens or len(tokens) < length:
            self._untested = None
            return
        path = tree.descend(tokens[length : length + COMPARED])
        if len(path) - 1 == len(tokens) - length < COMPARED:  # the next tokens may be right too
            return
        self._untested = None
        nodes = [node for node, depth in enumerate(tree.depths()) if depth <= COMPARED]
        self._calibration.learn([tree.reached[node] for node in nodes], {nodes.index(node) for node in path})
