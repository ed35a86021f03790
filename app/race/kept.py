"""A race out of a file, which can be looked at as it ended and run again."""

from __future__ import annotations

from collections.abc import Collection

from ..chat.compare import Mark
from ..chat.dialogue import Dialogue
from .clock import LaneTrack, Unit
from .entry import RaceEntry
from .lane import Racer
from .race import Race
from .record import RaceRecord


class KeptRace(Race):
    """A race that is over, as it was; run again, it is one like any other.

    Args:
        dialogue: the chat, as for Race.
        record: what is kept of it.
        heard: as for Race.
    """

    def __init__(self, dialogue: Dialogue, record: RaceRecord, heard: Collection[int] = ()) -> None:
        messages = [{"role": "user", "content": record.prompt}]
        super().__init__(dialogue, record.prompt, messages, entries_of(record), heard)
        self.kept: RaceRecord | None = record
        """None once something is another than it was."""
        self.slowed = record.slowed
        self.tied = {self.racers[lane].lane for lane in record.tied}
        for racer, lane in zip(self.racers, record.lanes, strict=True):
            racer.answer, racer.position, racer.gap = lane.answer, lane.position, lane.gap
            racer.track = LaneTrack.of(lane.answer)
            racer.compared = len(racer.tokens) if lane.position is None else lane.position

    def start(self) -> None:
        self.kept = None
        super().start()

    @property
    def unit(self) -> Unit:
        return super().unit if self.kept is None else self.kept.unit

    @property
    def model_names(self) -> list[str]:
        """What each lane's model is called; empty for all where there is one."""
        return super().model_names if self.kept is None else self.kept.model_names

    def mark(self, racer: Racer) -> Mark:
        return super().mark(racer) if self.kept is None else self.kept.lanes[self.racers.index(racer)].mark

    def record(self) -> RaceRecord:
        return super().record() if self.kept is None else self.kept


def entries_of(record: RaceRecord) -> list[RaceEntry]:
    """Who takes part where a race out of a file is run again, as far as their models are known by name."""
    lanes = ((lane, *lane.model.partition(" · ")) for lane in record.lanes)
    return [RaceEntry(lane.method, lane.settings, model, runtime) for lane, model, _, runtime in lanes]
