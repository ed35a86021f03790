"""Seconds of a pass by its number of nodes, learned from the passes themselves."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

WINDOW = 15
"""Latest values whose median counts."""

MEMORY = 64
"""Passes over more than one node after which an older one counts for a third, and one-node passes likewise: contexts grow, and
machines get busy."""

KEEP = 1 - 1 / MEMORY

FADING = 0.05
"""How much a pass of the one kind adds to the age of the other: what was dear on a busy machine is to be tried again."""

OUTLIER = 2.0
"""A pass that took longer than this many times the expected time counts as this much: somebody else had the machine. One that
was quicker by as much tells that all larger ones were measured while somebody had it."""

FEW = 3
"""Passes of a size for which the line counts as much as what they took beside it."""

REDRAWN = 8
"""Passes from which on what was learned is told every so many only: for a small model that is a per cent of a pass."""

SLOPE = 0.03
"""What each node beyond the first is taken to add to a pass, as a share of a one-node pass, before more is known."""

FAITH = 1.0
"""How much that counts: as much as about one pass over four nodes."""


def bucket(nodes: int) -> int:
    """Passes of about the same size are measured together: 1, 2, 3, 4, then four steps to each doubling."""
    if nodes <= 4:
        return nodes
    step = 1 << (nodes.bit_length() - 3)
    return -(-nodes // step) * step


class Recent:
    """The median of the last few values."""

    __slots__ = ("_values", "median")

    def __init__(self, window: int = WINDOW, first: Sequence[float] = ()) -> None:
        """`first`: values to begin with."""
        self._values: deque[float] = deque(first[:-1], maxlen=window)
        self.median = 0.0
        """0 before there is a value."""
        if first:
            self.learn(first[-1])

    def learn(self, value: float) -> None:
        """Take in a value."""
        self._values.append(value)
        ordered = sorted(self._values)
        middle = len(ordered) // 2
        self.median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    def __len__(self) -> int:
        """How many values count."""
        return len(self._values)


class PassCosts:
    """Expected seconds of a pass over n nodes: a straight line through the latest passes of all sizes, and for each size what
    its own passes take beside that line. A machine that gets busy is so for all sizes, so that the line knows it of those too
    that were not seen since; the rest is true of a size however busy the machine is, is believed the less the fewer passes tell
    it, and fades while there are none. No pass takes longer than one over more nodes. Seconds are of one machine and one model,
    so that all conversations on a model may share these.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Unlearn everything."""
        # Sums over the one-node passes, and over the others: weight, x, y, x², x·y.
        self._single, self._larger = [0.0] * 5, [0.0] * 5
        self._base, self._slope = 0.0, 0.0
        self._drawn = 0.0
        """The slope that the curve was drawn with."""
        self._seen: dict[int, Recent] = {}
        """By size: seconds over those of the line."""
        self._passes = 0
        self._age = 0.0
        """Passes over several nodes, and FADING of the others."""
        self._last: dict[int, float] = {}
        """By size: the age at its last pass."""
        self._curve: Sequence[tuple[int, float]] = ()
        """Sizes that have been seen, with seconds that never fall."""
        self._table: dict[int, float] = {}
        """What has been read from it; empty where it has to be drawn anew."""
        self._list = [0.0]

    def learn(self, nodes: int, seconds: float, passes: int = 1) -> None:
        """Take in one pass over `nodes` nodes, which stands for so many."""
        if nodes < 1 or seconds <= 0:
            return
        size = bucket(nodes)
        expected = self.seconds(size)
        quick = size > 1 and seconds * OUTLIER < expected
        if quick:
            self._larger = [0.0] * 5
            self._seen = {known: seen for known, seen in self._seen.items() if known == 1}
        self._passes += 1
        self._age += FADING * passes if size == 1 else 1.0
        self._last[size] = self._age
        self._fit(size, min(seconds, OUTLIER * expected) if self._passes > FEW else seconds, passes)
        if size not in self._seen:
            self._seen[size] = Recent()
        self._seen[size].learn(seconds / self._line(size))
        if quick or self._passes < REDRAWN or self._passes % REDRAWN == 0:
            self._table.clear()
            del self._list[1:]

    def _fit(self, size: int, seconds: float, passes: int) -> None:
        """The line through the latest passes; longer ones vary more, and count less."""
        weight = 1 / (size + 3)
        new = (weight, weight * size, weight * seconds, weight * size * size, weight * size * seconds)
        if size == 1:
            fade = 1 - FADING * passes / MEMORY
            self._single = [KEEP * old + value for old, value in zip(self._single, new, strict=True)]
            self._larger = [fade * old for old in self._larger]
        else:
            fade = 1 - FADING / MEMORY
            self._single = [fade * old for old in self._single]
            self._larger = [KEEP * old + value for old, value in zip(self._larger, new, strict=True)]
        total, x, y, xx, xy = (one + more for one, more in zip(self._single, self._larger, strict=True))
        x, y = x / total, y / total
        spread, together = xx / total - x * x, xy / total - x * y
        usual = SLOPE * y / (1 + SLOPE * (x - 1))
        slope = (together * total + FAITH * usual) / (spread * total + FAITH)
        # No line that is steeper than this is one of passes: a node alone takes its share of the rest, too.
        self._slope = min(max(0.0, slope), y / x)
        self._base = y - self._slope * x

    def _line(self, size: int) -> float:
        return self._base + self._slope * size

    @property
    def known(self) -> bool:
        """Whether any pass has been seen."""
        return self._passes > 0

    def seconds(self, nodes: int) -> float:
        """Expected seconds of a pass over `nodes` nodes; never falls as nodes grow. 0 if nothing is known."""
        if nodes not in self._table:
            if not self._passes:
                return 0.0
            if not self._table:
                self._draw()
            self._table[nodes] = self._read(bucket(nodes))
        return self._table[nodes]

    def upto(self, nodes: int) -> list[float]:
        """The same for 0 (which takes nothing), 1 … `nodes` nodes and perhaps more; good until the next pass is learned."""
        while len(self._list) <= nodes:
            self._list.append(self.seconds(len(self._list)))
        return self._list

    def _read(self, size: int) -> float:
        below = [point for point in self._curve if point[0] <= size]
        if not below:
            first, value = self._curve[0]
            return value * self._line(size) / self._line(first)
        last, value = below[-1]
        if last == size:
            return value
        if len(below) < len(self._curve):
            following, ceiling = self._curve[len(below)]
            return value + (ceiling - value) * (size - last) / (following - last)
        return value + self._drawn * (size - last)

    def _draw(self) -> None:
        curve: list[tuple[int, float]] = []
        self._drawn = self._slope
        for size, seen in sorted(self._seen.items()):
            count = len(seen)
            trust = count / (count + FEW) * math.exp((self._last[size] - self._age) / MEMORY)
            curve.append((size, self._line(size) * (1 + trust * (seen.median - 1))))
        least = float("inf")
        for i in range(len(curve) - 1, -1, -1):
            least = min(least, curve[i][1])
            curve[i] = curve[i][0], least
        self._curve = curve
