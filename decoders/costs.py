"""Seconds of a pass by its number of nodes, learned from the passes themselves."""

from __future__ import annotations

from collections.abc import Sequence

MEMORY = 24
"""Passes of a size after which an older one counts for a third: contexts grow, and machines get busy."""

OUTLIER = 3.0
"""A pass that took longer than this many times the expected time counts as this much: somebody else had the machine."""

SLOPE = 0.03
"""What each node beyond the first is taken to add to a pass, as a share of a one-node pass, before more is known."""


def bucket(nodes: int) -> int:
    """Passes of about the same size are measured together: 1, 2, 3, 4, then four steps to each doubling."""
    if nodes <= 4:
        return nodes
    step = 1 << (nodes.bit_length() - 3)
    return -(-nodes // step) * step


class PassCosts:
    """Expected seconds of a pass over n nodes: a running value for its bucket that leans to the faster passes, and between
    buckets a straight line. No pass takes longer than one over more nodes did: where it seems so, somebody else had the machine
    while the smaller one ran. Seconds are of one machine and one model, so that all conversations on a model may share these.
    """

    def __init__(self) -> None:
        self._mean: dict[int, float] = {}
        self._count: dict[int, int] = {}
        self._curve: Sequence[tuple[int, float]] = ()
        """Sizes that have been seen, with seconds that never fall."""

    def learn(self, nodes: int, seconds: float) -> None:
        """Take in one pass over `nodes` nodes."""
        if nodes < 1 or seconds <= 0:
            return
        size = bucket(nodes)
        count = self._count.get(size, 0)
        if not count:
            self._mean[size] = seconds
        else:
            mean = self._mean[size]
            weight = max(1 / (count + 1), 1 / MEMORY)
            self._mean[size] = mean + weight * (min(seconds, OUTLIER * mean) - mean)
        self._count[size] = count + 1
        self._draw()

    def forget(self, nodes: int) -> None:
        """Unlearn what passes of about so many nodes take."""
        self._mean.pop(bucket(nodes), None)
        self._count.pop(bucket(nodes), None)
        self._draw()

    def _draw(self) -> None:
        curve: list[tuple[int, float]] = []
        least = float("inf")
        for known in sorted(self._mean, reverse=True):
            least = min(least, self._mean[known])
            curve.append((known, least))
        self._curve = curve[::-1]

    @property
    def known(self) -> bool:
        """Whether any pass has been seen."""
        return bool(self._curve)

    def seconds(self, nodes: int) -> float:
        """Expected seconds of a pass over `nodes` nodes; never falls as nodes grow. 0 if nothing is known."""
        if not self._curve:
            return 0.0
        size = bucket(nodes)
        below = [point for point in self._curve if point[0] <= size]
        if not below:
            first, value = self._curve[0]
            return value * (1 + SLOPE * (size - 1)) / (1 + SLOPE * (first - 1))
        last, value = below[-1]
        if last == size:
            return value
        if len(below) < len(self._curve):
            following, ceiling = self._curve[len(below)]
            return value + (ceiling - value) * (size - last) / (following - last)
        if len(below) > 1:
            start, base = below[0]
            slope = (value - base) / (last - start)
        else:
            slope = value * SLOPE / (1 + SLOPE * (last - 1))
        return value + slope * (size - last)
