"""The record of a race for exports: the lanes' answers step by step, their clocks, and how their texts compare."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..chat.compare import Mark
from ..chat.entries import Answer
from ..chat.runs import Pieces
from ..text.cells import one_line
from .lane import LaneClock, Unit, finish_line, speedup
from .models import short_name


@dataclass(slots=True)
class RaceLane:
    """One lane's part in a race."""

    method: str
    settings: dict[str, object]
    answer: Answer
    """The answer step by step, with its label, its figures and its finish reason."""
    model: str = ""
    """Name of its model if it is not the race's."""
    mark: Mark = "unknown"
    position: int | None = None
    """Index of the first token that differs from the first lane's; None if none does."""
    gap: float | None = None
    """Gap between the two tokens there (logits; with a temperature noisy scores); None if not measured."""
    info: dict[str, object] = field(default_factory=dict)
    """The engine's description of its model if it is not the race's."""

    @property
    def name(self) -> str:
        """Its method with its settings, and its model if it is not the race's."""
        settings = " ".join(f"{key}={value}" for key, value in self.settings.items())
        return " ".join(part for part in (self.method, settings, self.model and f"on {self.model}") if part)

    @property
    def clock(self) -> LaneClock:
        return LaneClock(self.answer)


@dataclass(slots=True)
class RaceRecord:
    """A race of two to four lanes on one prompt."""

    prompt: str
    model: str
    lanes: list[RaceLane]
    sampling: dict[str, object] = field(default_factory=dict)
    """The fields of `backends.base.Sampling`; empty for greedy."""
    info: dict[str, object] = field(default_factory=dict)
    """The engine's description of the model."""
    saved: str = ""
    """Local time of the record with its offset, ISO 8601."""
    version: str = ""
    """Version of specchat that wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Default token texts for answers without any."""
    unit: Unit = "tokens"
    """Unit of the comparison."""
    slowed: bool = False
    """Whether it ran in slow motion, where clocks are no measure of speed."""
    tied: tuple[int, ...] = ()
    """Indices of the lanes that may be as fast as the one ranked before them."""

    @property
    def several(self) -> bool:
        """Whether lanes differ in their models."""
        return any(lane.model for lane in self.lanes)

    @property
    def model_names(self) -> list[str]:
        """Name of each lane's model; all empty if there is one."""
        if not self.several:
            return [""] * len(self.lanes)
        main = short_name(str(self.info.get("name") or self.model))
        runtime = one_line(str(self.info.get("backend", "")))
        if runtime and any(lane.model.startswith(f"{main} · ") for lane in self.lanes):
            main = f"{main} · {runtime}"
        return [lane.model or main for lane in self.lanes]

    @property
    def finish_line(self) -> int:
        """Length at which the lanes are compared: that of the shortest answer that is through; 0 if none is."""
        return finish_line((lane.clock for lane in self.lanes), self.unit)

    def speedup(self, lane: RaceLane) -> float:
        """Return a lane's speedup over the first one (see `lane.speedup`); 0 if there is nothing to compare."""
        return 0.0 if self.slowed else speedup(self.lanes[0].clock, lane.clock, self.unit, self.finish_line)

    def speed(self, lane: RaceLane) -> float:
        """Return the amount that a lane wrote per second of its clock; 0 if the race was slowed."""
        return 0.0 if self.slowed else lane.clock.speed(self.unit)
