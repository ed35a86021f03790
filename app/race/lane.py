"""One lane of a race: its growing answer, its clock, and its first difference from another lane."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...engine.messages import Event, Failed, Finished, Started
from ..chat.entries import NO_ID, TEXT_END, Answer
from .clock import LaneTrack, Unit
from .entry import RaceEntry

FULL = "The context is full: race on a shorter prompt, or load the model with a larger context."


@dataclass(slots=True, eq=False)
class Racer:
    """A lane of a race. Its speed is compared with the first lane's, its tokens with those of the first of its model."""

    lane: str
    """Name of the lane in the engine."""
    entry: RaceEntry
    answer: Answer
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
    track: LaneTrack = field(default_factory=LaneTrack)

    @property
    def tokens(self) -> array[int]:
        return self.answer.log.tokens

    @property
    def started(self) -> bool:
        """Whether the engine has taken its prompt."""
        return self.answer.figures.prompt_tokens > 0

    @property
    def done(self) -> bool:
        """Whether its answer has ended, for whatever reason."""
        return self.answer.done

    @property
    def through(self) -> bool:
        """Whether it reached the end of its answer."""
        return self.answer.through

    @property
    def seconds(self) -> float:
        """The lane's clock: seconds of decoding without other lanes' turns."""
        return self.answer.figures.decode_seconds

    def time(self, amount: int, unit: Unit) -> float:
        """Return the lane's clock when it had written this amount; 0 if it never had."""
        return self.track.time(amount, unit, self.answer.figures)

    def speed(self, unit: Unit) -> float:
        """Return the amount written per second of the lane's clock."""
        return self.track.amount(unit) / self.seconds if self.seconds > 0 else 0.0

    def take(self, event: Event) -> None:
        self.answer.take(event)
        self.track.follow(self.answer.runs)
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
        if not self.has_token_ids or not first.has_token_ids:
            return self._compare_texts(first)
        if self._matches(self.tokens, first.tokens, first):
            return False
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
    def has_token_ids(self) -> bool:
        return NO_ID not in self.tokens[:1]

    def _compare_texts(self, first: Racer) -> bool:
        if self._matches(self.answer.all_text, first.answer.all_text, first):
            return False
        written = self.position = 0
        for run in self.answer.runs:
            written += len(run.text)
            if written > self.compared:
                break
            self.position += run.tokens
        return True

    @property
    def label_is_exact(self) -> bool:
        """Whether its method promises plain decoding's text."""
        return self.answer.label.startswith("identical")
