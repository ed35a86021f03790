"""A race in slow motion, for eyes: of a small model it would be over before one has looked."""

from __future__ import annotations

from ...engine.messages import Advance, Pause
from .race import Race


class SlowRace(Race):
    """A race whose lanes take one pass at a time, each when the race's clock has come to it.

    The lanes' own clocks count computing alone, but a pass after a rest takes longer than one of many in a row, and a method
    with fewer passes loses less by that. So places go by passes, which are the same at any pace, and no speeds are told
    (`slowed`).
    """

    rate = 1.0
    """Seconds of the lanes' clocks to a second of the viewer's; from 1 on the race runs at full speed."""

    @property
    def held(self) -> bool:
        """Whether lanes wait between two steps."""
        return self.paused or self.rate < 1

    def start(self) -> None:
        """Let all lanes run, from the beginning."""
        self._clock = 0.0
        self._asked: dict[int, int] = {}
        """Steps that an answer was let take, by its id."""
        super().start()
        self.slowed = self.rate < 1

    def hurry(self) -> None:
        self.rate = 1.0
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pause(racer.id, self.held))

    def tick(self, seconds: float) -> None:
        """Let so much of the viewer's time pass."""
        if self.paused or self.rate >= 1:
            return
        # The prompt's prefill is no part of the show: the clock starts when every lane has taken its first step.
        started = all(racer.done or racer.answer.log for racer in self.racers)
        self._clock = self._clock + seconds * self.rate if started else max(racer.seconds for racer in self.racers)
        for racer in self.racers:
            taken = len(racer.answer.log)
            if not racer.done and racer.seconds <= self._clock and taken >= self._asked.get(racer.id, 0):
                self._asked[racer.id] = taken + 1
                self.dialogue.engine.send(Advance(racer.id, 1))
