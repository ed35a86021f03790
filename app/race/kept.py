"""A race read from a file, which is shown as it ended and can be run again."""

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
    """A race that is over; run again, it is one like any other. `dialogue` and `old_ids` as for Race."""

    def __init__(self, dialogue: Dialogue, record: RaceRecord, old_ids: Collection[int] = ()) -> None:
        messages = [{"role": "user", "content": record.prompt}]
        super().__init__(dialogue, record.prompt, messages, saved_entries(record), old_ids)
        self.kept: RaceRecord | None = record
        """The saved race; None once it was started again."""
        self.slowed = record.slowed
        self.tied = {self.racers[lane].lane for lane in record.tied}
        for racer, lane in zip(self.racers, record.lanes, strict=True):
            racer.answer = lane.answer
            racer.position = lane.position
            racer.gap = lane.gap
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
        """Name of each lane's model; all empty if there is one."""
        return super().model_names if self.kept is None else self.kept.model_names

    def mark(self, racer: Racer) -> Mark:
        return super().mark(racer) if self.kept is None else self.kept.lanes[self.racers.index(racer)].mark

    def record(self) -> RaceRecord:
        return super().record() if self.kept is None else self.kept


def saved_entries(record: RaceRecord) -> list[RaceEntry]:
    """Return the entries of a saved race, with their models' names as far as they are known."""
    lanes = ((lane, *lane.model.partition(" · ")) for lane in record.lanes)
    return [RaceEntry(lane.method, lane.settings, model, runtime) for lane, model, _, runtime in lanes]
