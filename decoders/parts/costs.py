"""Seconds of a pass by its number of nodes, learned from the passes themselves."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import pairwise

MEMORY = 128
"""Passes after which an older one counts for a third, and the pace is old: a size that was expensive once is tried again."""

PACE = 16
"""Latest one-node passes that count for the pace, and those of another size for its share."""

OUTLIER = 2.0
"""A pass that took longer than this many times the expected time counts as this much: another program had the machine."""

MEASURED = 8
"""Passes that each size of the curve measured at load counts for."""

SLOPE = 0.03
"""Assumed cost of a further node, as a share of a one-node pass, before more is known; counts as much as one pass."""

REDRAWN = 8
"""Passes over several nodes after which the line is fitted again: fitting takes a per cent of a small model's pass."""


def bucket(nodes: int) -> int:
    """Round a pass up to a size that is measured together: 1, 2, 3, 4, then four steps to each doubling."""
    step = 1 << max(0, nodes.bit_length() - 3)
    return -(-nodes // step) * step


class PassCosts:
    """Expected seconds of a pass over n nodes: the pace, a one-node pass's time, times the size's cost in units of that.

    The pace follows the latest one-node passes: a machine that gets busy is so for every size. A size's cost is the mean of
    its passes, shrunk towards a line through all sizes the fewer there were lately, and interpolated between them.
    """

    def __init__(self, curve: Sequence[tuple[int, float]] = ()) -> None:
        """`curve`: (nodes, seconds) that were measured before."""
        self.since = 0  # steps since a one-node pass was learned; the caller counts them, up to MEMORY
        self.known = False  # whether any passes were learned besides the first two, which are slow
        self.pace = 0.0  # expected seconds of a one-node pass
        self._ones = 0.0  # the weight of the one-node passes that the pace is the mean of
        self._passes = 0
        self._faded = 0  # number of passes when _ones faded last
        self._fitted = 0  # number of passes when _units was computed
        self._sizes = dict[int, tuple[float, float, int]]()  # above 1: weight, mean in units of the pace, when last learned
        self._units = list[float]()  # cost of passes over 0, 1, 2 … nodes, in units of the pace; empty: to be computed
        for nodes, seconds in curve:
            self.learn(nodes, seconds)
        self._ones *= PACE
        self._sizes = {size: (float(MEASURED), mean, last) for size, (_, mean, last) in self._sizes.items()}
        self._units = []

    def for_other_length(self) -> PassCosts:
        """Copy the costs for passes over longer or shorter texts, whose first one-node pass sets the pace."""
        other = copy(self)
        other._ones = 0.0
        other._sizes = self._sizes.copy()
        return other

    @property
    def curve(self) -> list[tuple[int, float]]:
        """(nodes, seconds) of each size that has been learned."""
        return [(size, self.seconds(size)) for size in (1, *sorted(self._sizes)) if self._passes]

    def learn(self, nodes: int, seconds: float) -> None:
        """Learn from one pass over `nodes` nodes."""
        if nodes < 1 or seconds <= 0:
            return
        self.known = self._passes > 1
        self._passes += 1
        size = bucket(nodes)
        self.pace = self.pace or seconds / (1 + SLOPE * (size - 1))
        expected = self.seconds(size) if size > 1 else self.pace
        seconds = min(seconds, OUTLIER * expected) if self._passes > REDRAWN else seconds
        since = self._passes - self._fitted
        if size == 1:  # the usual pass of many answers, so it must take next to no time
            self._ones = min(self._ones + 1, PACE)
            self.since = 0
            self.pace += (seconds - expected) / self._ones
            self._units = self._units if since < MEMORY else []  # weights have faded
            return
        keep = 1 - 1 / MEMORY
        self._ones *= keep ** (self._passes - self._faded)
        self._faded = self._passes
        weight, mean, last = self._sizes.get(size, (0.0, expected / self.pace, self._passes))
        weight = 1 + weight * keep ** (self._passes - last)
        self._sizes[size] = weight, mean + (seconds / self.pace - mean) / min(weight, PACE), self._passes
        if self._passes < REDRAWN * REDRAWN or since >= REDRAWN:
            self._units = []

    def seconds(self, nodes: int) -> float:
        """Estimate the seconds of a pass over `nodes` nodes; 0 if nothing was learned."""
        if len(self._units) <= nodes:
            self._fit(max(nodes, 64))
        return self.pace * self._units[nodes]

    def _fit(self, beyond: int) -> None:
        """Compute the cost of every size, up to `beyond` nodes past the largest one learned."""
        keep, now = 1 - 1 / MEMORY, self._passes
        self._fitted = now
        sizes = [(size - 1, w * keep ** (now - last), mean - 1) for size, (w, mean, last) in sorted(self._sizes.items())]
        slope = sum(weight * x * more for x, weight, more in sizes) + SLOPE
        slope = max(0.0, slope / (sum(weight * x * x for x, weight, _ in sizes) + 1))
        points = [(1, 1.0), *((1 + x, 1 + slope * x + (more - slope * x) * w / (w + 1)) for x, w, more in sizes)]
        points.append((points[-1][0] + beyond, points[-1][1] + slope * beyond))
        self._units = [0.0, points[0][1]]
        for (below, low), (above, high) in pairwise(points):
            step = (high - low) / (above - below)
            self._units += [low + step * n for n in range(1, above - below + 1)]
