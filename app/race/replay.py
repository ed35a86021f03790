"""A race once more, at the pace at which it was run: every lane as if it had had the device to itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from time import monotonic

from .clock import Unit
from .lane import Racer

SPEEDS = (1.0, 0.25, 4.0)
"""How fast, in the order in which a key goes through them."""


class Replay:
    """The replay of a race: one clock for all lanes.

    Args:
        racers: lanes whose answers have ended.
        now: seconds of a clock that goes on steadily.
    """

    def __init__(self, racers: Sequence[Racer], now: Callable[[], float] = monotonic) -> None:
        self.racers = list(racers)
        self.end = max((racer.seconds for racer in racers), default=0.0)
        """When the last lane is done."""
        self.speed = SPEEDS[0]
        self.paused = False
        self._now = now
        self._since, self._passed = now(), 0.0
        self._clocks = [racer.track.clock(racer.answer.figures) for racer in racers]

    @property
    def time(self) -> float:
        passed = 0.0 if self.paused else (self._now() - self._since) * self.speed
        return min(self.end, self._passed + passed)

    @property
    def over(self) -> bool:
        return self.time >= self.end

    def _hold(self) -> None:
        self._passed, self._since = self.time, self._now()

    def pause(self) -> None:
        self._hold()
        self.paused = not self.paused

    def faster(self) -> None:
        self._hold()
        self.speed = SPEEDS[(SPEEDS.index(self.speed) + 1) % len(SPEEDS)]

    def restart(self) -> None:
        self._passed, self._since, self.paused = 0.0, self._now(), False

    def runs(self, index: int, time: float) -> int:
        racer = self.racers[index]
        # Rounding must not keep the last run from the line.
        return len(racer.answer.runs) if time >= racer.seconds else bisect_right(self._clocks[index], time)

    def amount(self, index: int, runs: int, unit: Unit = "tokens") -> int:
        """Tokens or characters in a lane's first runs."""
        return self.racers[index].track.amount(unit, runs)
