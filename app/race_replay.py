"""A race once more, at the pace at which it was run: every lane as if it had had the device to itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from time import monotonic

from .race import Racer

SPEEDS = (1.0, 0.25, 4.0)
"""How fast, in the order in which a key goes through them."""


class Replay:
    """One clock for all lanes.

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
        self._clocks = [self._clock(racer) for racer in racers]
        self._tokens = [[0, *accumulate(run.tokens for run in racer.answer.runs)] for racer in racers]

    @staticmethod
    def _clock(racer: Racer) -> list[float]:
        """When each run was there."""
        start = racer.answer.figures.prefill_seconds
        times = list(accumulate((run.seconds for run in racer.answer.runs), initial=start))[1:]
        # What the engine did between two steps is in no step, but on the lane's clock.
        stretch = (racer.seconds - start) / (times[-1] - start) if times and times[-1] > start else 1.0
        return [start + (time - start) * stretch for time in times]

    @property
    def time(self) -> float:
        """Seconds on the shared clock."""
        passed = 0.0 if self.paused else (self._now() - self._since) * self.speed
        return min(self.end, self._passed + passed)

    @property
    def over(self) -> bool:
        """Whether the last lane is done."""
        return self.time >= self.end

    def _hold(self) -> None:
        self._passed, self._since = self.time, self._now()

    def pause(self) -> None:
        """Hold the clock, or let it go on."""
        self._hold()
        self.paused = not self.paused

    def faster(self) -> None:
        """The next of SPEEDS."""
        self._hold()
        self.speed = SPEEDS[(SPEEDS.index(self.speed) + 1) % len(SPEEDS)]

    def restart(self) -> None:
        """From the start."""
        self._passed, self._since, self.paused = 0.0, self._now(), False

    def runs(self, index: int, time: float) -> int:
        """How many runs a lane has by then."""
        racer = self.racers[index]
        # Rounding must not keep the last run from the line.
        return len(racer.answer.runs) if time >= racer.seconds else bisect_right(self._clocks[index], time)

    def tokens(self, index: int, runs: int) -> int:
        """How many tokens those are."""
        return self._tokens[index][runs]

    def decode_seconds(self, index: int, runs: int) -> float:
        """What they took."""
        return self._clocks[index][runs - 1] - self.racers[index].answer.figures.prefill_seconds if runs else 0.0
