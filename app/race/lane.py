"""One lane of a race: its growing answer, its clock, and its first difference from another lane."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal, NamedTuple

from ...engine.messages import Event, Failed, Finished, Started
from ..chat.entries import NO_ID, TEXT_END, Answer
from ..chat.methods import get_method
from .entry import RaceEntry

Unit = Literal["tokens", "characters"]
"""Unit of a lane's progress: characters if the lanes' tokens differ."""

SHORT: dict[Unit, str] = {"tokens": "tokens", "characters": "chars"}
"""Unit → its short name."""

FULL = "The context is full: race on a shorter prompt, or load the model with a larger context."


class RunEnd(NamedTuple):
    """Text of an answer at the end of a run, and its seconds of decoding."""

    tokens: int
    characters: int
    seconds: float


class LaneClock:
    """An answer's progress over its own clock, from which speeds and places are computed.

    The clock runs while the lane decodes, from the moment its prompt was read: reading takes every method the same, and
    disturbance of it by other programs would decide a short race.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._ends: list[RunEnd] = []

    @property
    def ends(self) -> list[RunEnd]:
        """End of each run so far."""
        for run in self.answer.runs[len(self._ends) :]:
            tokens, characters, seconds = self._ends[-1] if self._ends else (0, 0, 0.0)
            self._ends.append(RunEnd(tokens + run.tokens, characters + len(run.text), seconds + run.seconds))
        return self._ends

    @property
    def seconds(self) -> float:
        """Seconds of decoding without other lanes' turns."""
        return self.answer.figures.decode_seconds

    def amount(self, unit: Unit) -> int:
        """Return the length of the text so far."""
        return getattr(self.ends[-1], unit) if self.ends else 0

    def speed(self, unit: Unit) -> float:
        """Return the amount written per second."""
        return self.amount(unit) / self.seconds if self.seconds > 0 else 0.0

    @property
    def stretch(self) -> float:
        """Ratio of the clock to the sum of the steps: the engine's work between steps is in no step."""
        total = self.ends[-1].seconds if self.ends else 0.0
        return self.seconds / total if total > 0 else 1.0

    def times(self) -> list[float]:
        """Return the clock at the end of each run [runs]."""
        stretch = self.stretch
        return [end.seconds * stretch for end in self.ends]

    def time(self, amount: int, unit: Unit) -> float:
        """Return the clock at the end of the run that reached this amount; 0 if none did."""
        index = bisect_left(self.ends, amount, key=attrgetter(unit))
        return self.ends[index].seconds * self.stretch if amount > 0 and index < len(self.ends) else 0.0


def bars(*figures: Sequence[float]) -> list[float]:
    """Return the length of each lane's bar, 1 for the longest, by the first of these figures that any lane has."""
    lengths = next(filter(any, figures), figures[-1])
    top = max(lengths, default=0.0)
    return [length / top if top else 0.0 for length in lengths]


def idle(answer: Answer) -> str:
    """Note that a method drafted nothing in a whole answer, and why; empty for answers with drafts, of servers, and of methods
    that never draft. It decoded plainly under another name: its speed differs from plain decoding's by chance."""
    figures, method = answer.figures, get_method(answer.method)
    drafted = figures.drafted or figures.tokens > figures.steps
    if not answer.through or figures.certainty or drafted or method.plain or method.undrafted:
        return ""
    return f"drafted nothing ({figures.why_declined})" if figures.why_declined else "drafted nothing"


def finish_line(clocks: Iterable[LaneClock], unit: Unit) -> int:
    """Return the length at which places are given: that of the shortest answer that is through; 0 while there is none. A
    shorter text is done sooner, which is no speed."""
    return min((amount for clock in clocks if clock.answer.through and (amount := clock.amount(unit))), default=0)


def speedup(first: LaneClock, other: LaneClock, unit: Unit, line: int) -> float:
    """Divide the first lane's time for the length that both have by another lane's. 0 if there is nothing to compare, and for a
    lane that drafted nothing.

    Args:
        first: the reference.
        line: the finish line, which counts for lanes that are through; 0 while some still write.
    """
    if idle(other.answer):
        return 0.0
    length = min(first.amount(unit), other.amount(unit))
    if line and first.answer.through and other.answer.through:
        length = min(length, line)
    seconds = other.time(length, unit)
    return first.time(length, unit) / seconds if seconds else 0.0


@dataclass(slots=True, eq=False)
class Racer:
    """A lane of a race. Its speed is compared with the first lane's, its tokens with those of the first of its model."""

    lane: str
    """Name of the lane in the engine."""
    entry: RaceEntry
    clock: LaneClock
    id: int = 0
    """Id of its answer."""
    error: str = ""
    """Sentence of the error that ended it."""
    compared: int = 0
    """Number of tokens known to be the first lane's; characters if a server does not send its tokens."""
    position: int | None = None
    """Index of the first token that differs; None while none does. Without token ids, the first one of the run that does."""
    gap: float | None = None
    judging: int = 0
    """Id of the open MeasureGap; 0 if there is none."""

    @property
    def answer(self) -> Answer:
        return self.clock.answer

    @property
    def tokens(self) -> array[int]:
        return self.answer.log.tokens

    @property
    def done(self) -> bool:
        """Whether its answer has ended, for whatever reason."""
        return self.answer.done

    @property
    def through(self) -> bool:
        """Whether it reached the end of its answer."""
        return self.answer.through

    def take(self, event: Event) -> None:
        self.answer.take(event)
        match event:
            case Started() if event.certainty:  # a server decides how it decodes
                self.entry = replace(self.entry, method=event.method, settings={})
            case Finished(reason="context"):
                self.error = FULL
            case Failed():
                self.error = event.sentence

    def compare(self, first: Racer) -> bool:
        """Compare the tokens since the last call with those of the first lane of the same model (which may be this one).

        Returns:
            whether a first difference was found just now.
        """
        if self.position is not None or first is self:
            return False
        if NO_ID in self.tokens[:1] or NO_ID in first.tokens[:1]:
            if self._matches(self.answer.all_text, first.answer.all_text, first):
                return False
            ends = self.clock.ends
            run = bisect_left(ends, self.compared + 1, key=attrgetter("characters"))
            self.position = ends[run - 1].tokens if run else 0
        elif self._matches(self.tokens, first.tokens, first):
            return False
        else:
            self.position = self.compared
        return True

    def _matches(self, sequence: Sequence[object], reference: Sequence[object], first: Racer) -> bool:
        """Advance `compared` along two sequences; False if they differ, or the shorter one has ended."""
        common = min(len(sequence), len(reference))
        # Slices compare their bytes in memory.
        if sequence[self.compared : common] != reference[self.compared : common]:
            while sequence[self.compared] == reference[self.compared]:
                self.compared += 1
            return False
        self.compared = common
        shorter = self if len(sequence) < len(reference) else first
        return shorter.answer.reason not in TEXT_END or max(len(sequence), len(reference)) == common

    @property
    def served(self) -> bool:
        return bool(self.answer.figures.certainty)

    @property
    def label_is_exact(self) -> bool:
        """Whether its method promises plain decoding's text."""
        return self.answer.label.startswith("identical")
