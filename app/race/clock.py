"""How far a lane was when, by its own clock: what speeds and places are reckoned from.

The clock runs while the lane decodes, from the moment its prompt was read: reading takes every method the same, and what other
programs add to it would decide a short race.
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
"""What a lane's progress is measured in: characters where the lanes' tokens are not the same."""

SHORT: dict[Unit, str] = {"tokens": "tokens", "characters": "chars"}
"""Names of a unit, where there is little room."""


class LaneTrack:
    """When each run of a lane's answer came. Cheap to add to: 16 bytes a run."""

    def __init__(self) -> None:
        self._tokens, self._characters = array("i"), array("i")
        self._seconds = array("d")
        """Seconds of decoding at the end of each run."""

    @classmethod
    def of(cls, answer: Answer) -> LaneTrack:
        track = cls()
        track.follow(answer.runs)
        return track

    def follow(self, runs: Sequence[Run]) -> None:
        """Take in the runs that came since."""
        for run in runs[len(self._seconds) :]:
            self._tokens.append(run.tokens + self.amount("tokens"))
            self._characters.append(len(run.text) + self.amount("characters"))
            self._seconds.append(run.seconds + (self._seconds[-1] if self._seconds else 0.0))

    def _of(self, unit: Unit) -> array[int]:
        return self._tokens if unit == "tokens" else self._characters

    def amount(self, unit: Unit) -> int:
        """How much was written."""
        ends = self._of(unit)
        return ends[-1] if ends else 0

    def time(self, amount: int, unit: Unit, figures: Figures) -> float:
        """The lane's own clock when it had written so much; 0 if it never had."""
        index = bisect_left(self._of(unit), amount)
        if amount <= 0 or index >= len(self._seconds):
            return 0.0
        return self._seconds[index] * self._stretch(figures)

    def clock(self, figures: Figures) -> list[float]:
        """The lane's own clock at the end of each run [runs]."""
        stretch = self._stretch(figures)
        return [seconds * stretch for seconds in self._seconds]

    def _stretch(self, figures: Figures) -> float:
        """What the engine did between two steps is in no step, but on the lane's clock."""
        return figures.decode_seconds / self._seconds[-1] if self._seconds and self._seconds[-1] > 0 else 1.0


def bars(*figures: Sequence[float]) -> list[float]:
    """How long each lane's bar is, the longest being 1: by the first of these figures that any lane has."""
    lengths = next(filter(any, figures), figures[-1])
    top = max(lengths, default=0.0)
    return [length / top if top else 0.0 for length in lengths]


class TimedLane(Protocol):
    """A lane, as far as places are reckoned."""

    @property
    def answer(self) -> Answer:
        """What it has written."""

    @property
    def track(self) -> LaneTrack:
        """How far it was when."""


def idle(answer: Answer) -> str:
    """A note that a method drafted nothing in a whole answer, and why; empty for answers with drafts, of servers, and of
    methods that never draft. It decoded plainly under another name: only chance sets its speed apart from plain decoding's."""
    figures, method = answer.figures, get_method(answer.method)
    drafted = figures.drafted or figures.tokens > figures.steps
    if not answer.through or figures.certainty or drafted or method.plain or method.undrafted:
        return ""
    return f"drafted nothing ({figures.why_declined})" if figures.why_declined else "drafted nothing"


def common(amounts: Iterable[int]) -> int:
    """The length at which lanes are compared: that of the shortest text. A shorter one is done
    sooner, which is no speed."""
    return min(amounts, default=0)


def finish_line(lanes: Iterable[TimedLane], unit: Unit) -> int:
    """The length at which places are given: that of the shortest answer that is through; 0 while there is none."""
    return common(amount for lane in lanes if lane.answer.through and (amount := lane.track.amount(unit)))


def speedup(first: TimedLane, other: TimedLane, unit: Unit, line: int) -> float:
    """How many times sooner than the first lane another one had written what both have, by their clocks. 0 where there is
    nothing to compare, and for a lane that drafted nothing.

    Args:
        first: the lane that is compared with.
        unit: what they are compared in.
        line: the finish line, which counts for lanes that are through; 0 while some still write.
    """
    if idle(other.answer):
        return 0.0
    one, two = first.track, other.track
    length = common((one.amount(unit), two.amount(unit)))
    if line and first.answer.through and other.answer.through:
        length = min(length, line)
    own = two.time(length, unit, other.answer.figures)
    return one.time(length, unit, first.answer.figures) / own if own else 0.0
