"""One lane of a race: its answer as it comes, its clock, and where its tokens leave another lane's."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from ...engine.messages import Event, Failed, Finished, Started
from ..chat.entries import TEXT_END, Answer
from .clock import LaneTrack, Unit
from .entry import RaceEntry

NO_ID = -1
"""What stands in place of a token's id where a server does not send it."""

FULL = "The context is full: race on a shorter prompt, or load the model with a larger context."


@dataclass(slots=True, eq=False)
class Racer:
    """A lane of a race. Its speed is compared with the first lane's, its tokens with those of the first of its model."""

    lane: str
    """Its name in the engine."""
    entry: RaceEntry
    answer: Answer
    id: int = 0
    """Id of its answer."""
    error: str = ""
    """Why it could not go on, in a sentence."""
    compared: int = 0
    """Tokens known to be those of the first lane; characters where a server does not tell its tokens."""
    position: int | None = None
    """The first token that differs; None while none does. Where tokens are not told, the first one of the run that does."""
    gap: float | None = None
    judging: int = 0
    """Id of the question how near a tie it was; 0 if none is open."""
    track: LaneTrack = field(default_factory=LaneTrack)
    """How far it was when."""

    @property
    def tokens(self) -> array[int]:
        return self.answer.log.tokens

    @property
    def started(self) -> bool:
        """The engine has taken its prompt."""
        return self.answer.figures.prompt_tokens > 0

    @property
    def done(self) -> bool:
        """Its answer has ended, one way or another."""
        return self.answer.done

    @property
    def through(self) -> bool:
        """It has reached the end of its answer."""
        return self.answer.through

    @property
    def seconds(self) -> float:
        """The lane's own clock: seconds of decoding, other lanes' turns left out."""
        return self.answer.figures.decode_seconds

    def time(self, amount: int, unit: Unit) -> float:
        """Its own clock when it had written so much; 0 if it never had."""
        return self.track.time(amount, unit, self.answer.figures)

    def speed(self, unit: Unit) -> float:
        """What it has written, per second of its own clock."""
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
        """Compare the tokens that have come since the last call with those of the first lane of the same model (which may be
        this one); whether they have been found to part just now."""
        if self.position is not None or first is self:
            return False
        if not self.told or not first.told:
            return self._compare_texts(first)
        own, other = self.tokens, first.tokens
        common = min(len(own), len(other))
        # In one piece: the bytes of both as they lie in memory.
        if own[self.compared : common] == other[self.compared : common]:
            self.compared = common
        else:
            while own[self.compared] == other[self.compared]:
                self.compared += 1
            self.position = self.compared
            return True
        short, long = (self, first) if len(self.tokens) < len(first.tokens) else (first, self)
        if short.answer.reason in TEXT_END and len(long.tokens) > common:
            self.position = common
        return self.position is not None

    @property
    def served(self) -> bool:
        return bool(self.answer.figures.certainty)

    @property
    def told(self) -> bool:
        """Whether the ids of its tokens are known."""
        return NO_ID not in self.tokens[:1]

    def _compare_texts(self, first: Racer) -> bool:
        own, other = self.answer.all_text, first.answer.all_text
        common = min(len(own), len(other))
        if own[self.compared : common] == other[self.compared : common]:
            self.compared = common
            short = self if len(own) < len(other) else first
            if short.answer.reason not in TEXT_END or max(len(own), len(other)) == common:
                return False
        else:
            while own[self.compared] == other[self.compared]:
                self.compared += 1
        written = self.position = 0
        for run in self.answer.runs:
            written += len(run.text)
            if written > self.compared:
                break
            self.position += run.tokens
        return True

    @property
    def label_is_exact(self) -> bool:
        """Whether its text is promised to be the plain method's."""
        return self.answer.label.startswith("identical")
