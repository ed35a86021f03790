"""A lane's progress over its own clock, from which speeds and places are computed.

The clock runs while the lane decodes, from the moment its prompt was read: reading takes every method the same, and disturbance
of it by other programs would decide a short race.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from ..chat.entries import Answer, Figures
from ..chat.methods import get_method
from ..chat.runs import Run

Unit = Literal["tokens", "characters"]
"""Unit of a lane's progress: characters if the lanes' tokens differ."""

SHORT: dict[Unit, str] = {"tokens": "tokens", "characters": "chars"}
"""Unit → its short name."""


class LaneTrack:
    """Sizes and times of the runs of a lane's answer, 16 bytes a run."""

    def __init__(self) -> None:
        self._tokens = array("i")
        self._characters = array("i")
        self._seconds = array("d")
        """Seconds of decoding at the end of each run."""

    @classmethod
    def of(cls, answer: Answer) -> LaneTrack:
        track = cls()
        track.follow(answer.runs)
        return track

    def follow(self, runs: Sequence[Run]) -> None:
        """Add the runs that came since the last call."""
        for run in runs[len(self._seconds) :]:
            self._tokens.append(run.tokens + self.amount("tokens"))
            self._characters.append(len(run.text) + self.amount("characters"))
            self._seconds.append(run.seconds + (self._seconds[-1] if self._seconds else 0.0))

    def _ends(self, unit: Unit) -> array[int]:
        return self._tokens if unit == "tokens" else self._characters

    def amount(self, unit: Unit) -> int:
        """Return the length of the text so far."""
        ends = self._ends(unit)
        return ends[-1] if ends else 0

    def time(self, amount: int, unit: Unit, figures: Figures) -> float:
        """Return the lane's clock at the end of the run that reached this amount; 0 if none did."""
        index = bisect_left(self._ends(unit), amount)
        if amount <= 0 or index >= len(self._seconds):
            return 0.0
        return self._seconds[index] * self._stretch(figures)

    def clock(self, figures: Figures) -> list[float]:
        """Return the lane's clock at the end of each run [runs]."""
        stretch = self._stretch(figures)
        return [seconds * stretch for seconds in self._seconds]

    def _stretch(self, figures: Figures) -> float:
        """Return the ratio of the lane's clock to the sum of its steps: the engine's work between steps is in no step."""
        return figures.decode_seconds / self._seconds[-1] if self._seconds and self._seconds[-1] > 0 else 1.0


def bars(*figures: Sequence[float]) -> list[float]:
    """Return the length of each lane's bar, 1 for the longest, by the first of these figures that any lane has."""
    lengths = next(filter(any, figures), figures[-1])
    top = max(lengths, default=0.0)
    return [length / top if top else 0.0 for length in lengths]


class TimedLane(Protocol):
    """The part of a lane that its place depends on."""

    @property
    def answer(self) -> Answer:
        """The lane's answer."""

    @property
    def track(self) -> LaneTrack:
        """The lane's progress."""


def idle(answer: Answer) -> str:
    """Note that a method drafted nothing in a whole answer, and why; empty for answers with drafts, of servers, and of methods
    that never draft. It decoded plainly under another name: its speed differs from plain decoding's by chance."""
    figures, method = answer.figures, get_method(answer.method)
    drafted = figures.drafted or figures.tokens > figures.steps
    if not answer.through or figures.certainty or drafted or method.plain or method.undrafted:
        return ""
    return f"drafted nothing ({figures.why_declined})" if figures.why_declined else "drafted nothing"


def finish_line(lanes: Iterable[TimedLane], unit: Unit) -> int:
    """Return the length at which places are given: that of the shortest answer that is through; 0 while there is none. A
    shorter text is done sooner, which is no speed."""
    return min((amount for lane in lanes if lane.answer.through and (amount := lane.track.amount(unit))), default=0)


def speedup(first: TimedLane, other: TimedLane, unit: Unit, line: int) -> float:
    """Divide the first lane's time for the length that both have by another lane's. 0 if there is nothing to compare, and for a
    lane that drafted nothing.

    Args:
        first: the reference.
        line: the finish line, which counts for lanes that are through; 0 while some still write.
    """
    if idle(other.answer):
        return 0.0
    length = min(first.track.amount(unit), other.track.amount(unit))
    if line and first.answer.through and other.answer.through:
        length = min(length, line)
    seconds = other.track.time(length, unit, other.answer.figures)
    return first.track.time(length, unit, first.answer.figures) / seconds if seconds else 0.0
