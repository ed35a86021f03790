"""A race in slow motion, for eyes: of a small model it would be over before one has looked."""

from __future__ import annotations

from ...engine.messages import Advance, Pause
from .race import Race


class SlowRace(Race):
    """A race whose lanes take their passes in step: so many a second of the viewer's.

    A pass after a rest takes longer than one of many in a row, and a method with fewer passes loses less by that. So places go
    by passes, which are the same at any pace, and the lanes come in in that order; no speeds are told (`slowed`).
    """

    rate: float | None = None
    """Passes a second; None for full speed."""

    @property
    def held(self) -> bool:
        """Whether lanes wait between two passes."""
        return self.paused or self.rate is not None

    def start(self) -> None:
        self._clock = 0.0
        self._asked: dict[int, int] = {}
        """Passes that an answer was let take, by its id."""
        super().start()
        self.slowed = self.rate is not None

    def hurry(self) -> None:
        self.rate = None
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pause(racer.id, self.held))

    def tick(self, seconds: float) -> None:
        """Let so much of the viewer's time pass."""
        if self.paused or self.rate is None:
            return
        # The prompt's prefill is no part of the show: the clock starts when every lane has taken its first pass.
        self._clock += seconds * self.rate if all(racer.done or racer.answer.log for racer in self.racers) else 0.0
        for racer in self.racers:
            taken = len(racer.answer.log)
            if not racer.done and taken <= self._clock and taken >= self._asked.get(racer.id, 0):
                self._asked[racer.id] = taken + 1
                self.dialogue.engine.send(Advance(racer.id, 1))
