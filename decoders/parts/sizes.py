"""The size of a draft that is verified: as many nodes as promise the most tokens for the cost of their pass.

A pass over n nodes costs C(n) plain ones, a curve that was measured at load (`backends/pass_times.py`), and gives E(n) tokens:
one, and the probabilities of the paths to its draft nodes. Of all n that with the highest E(n) / C(n) is taken. The curve is no
line: where two nodes cost 2.6 plain passes and sixteen 5.5, a copy is drafted 15 tokens at a time and a doubtful guess not at
all; and where six cost more than eight, eight are taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Protocol

from ...backends.base import Model
from ...backends.info import MOST_NODES, least_share, plain_passes
from ..tree import Tree

RISK = 1.0
"""Tokens that a draft must promise beyond its pass's cost, as a share of the loss of earlier drafts."""

COMPARED = 4
"""Tokens of a declined draft that are compared with the text that came instead."""

FORGIVEN = 0.03
"""Loss that a plain pass makes good, in plain passes: the cost of drafts where none is right."""


MEMORY = 320
"""Nodes after which an older one counts for a third."""

FORGIVING = 200
"""Steps in which a bin that is not drafted from regains two thirds of its loss."""

REFRESH = 8
"""Steps without a draft for which a threshold is reused: it changes by a few per cent in that time."""

PRIOR = 24.0
"""Draft nodes of each bin that are taken to have been accepted as often as they promised."""


class Calibration:
    """Factors by the size of a probability, in bins: nodes that were accepted over nodes that should have been.

    A bin that is no longer drafted from slowly returns to a factor of 1, so that it is tried again.
    """

    EDGES = (0.05, 0.15, 0.35, 0.7)

    def __init__(self) -> None:
        self._expected = [PRIOR * p for p in (0.02, 0.1, 0.25, 0.5, 0.85)]
        self._accepted = self._expected.copy()
        self.factors = [1.0] * len(self._expected)
        self._quiet = 0
        """Steps without a draft that are not learned from yet."""
        self._threshold: tuple[float, float] | None = None
        """A floor, and the last `threshold` of it."""

    def learn(self, probabilities: Sequence[float], accepted: Collection[int]) -> None:
        """Learn from a tree: the probability of each node, and the accepted nodes. Node 0 does not count."""
        if len(probabilities) < 2:  # on free text that is almost every step, so it must cost next to nothing
            self._quiet += 1
            if self._quiet >= REFRESH:
                self._learn_quiet()
            return
        self._learn_quiet()
        keep = 1 - 1 / MEMORY
        bins = [bisect_left(self.EDGES, probability) for probability in probabilities]
        for i in {*range(len(self._expected))}.difference(bins[1:]):
            self._accepted[i] += (self._expected[i] - self._accepted[i]) / FORGIVING
        for node, i in enumerate(bins[1:], 1):
            self._expected[i] = self._expected[i] * keep + probabilities[node]
            self._accepted[i] = self._accepted[i] * keep + (node in accepted)
        self._weigh()

    def threshold(self, floor: float) -> float:
        """Find the least probability down to which all are at least `floor` after correction; above 1 if none is."""
        if self._quiet < REFRESH and self._threshold is not None and self._threshold[0] == floor:
            return self._threshold[1]
        self._learn_quiet()
        least = 2.0
        bins = [*zip((0.0, *self.EDGES), (*self.EDGES, 1.0), self.factors, strict=True)]
        for lower, upper, factor in reversed(bins):
            if upper * factor < floor:
                break
            least = max(lower, floor / factor) if factor else 0.0
            if least > lower:
                break
        self._threshold = floor, least
        return least

    def _learn_quiet(self) -> None:
        left = (1 - 1 / FORGIVING) ** self._quiet
        for i, expected in enumerate(self._expected):
            self._accepted[i] = expected + (self._accepted[i] - expected) * left
        self._quiet = 0
        self._threshold = None
        self._weigh()

    def _weigh(self) -> None:
        self.factors = [accepted / expected for accepted, expected in zip(self._accepted, self._expected, strict=True)]


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

    def cut(self, tree: Tree, context: Drafting, costs: Sequence[float] | None = None, rate: float = 1.0) -> Tree:
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
