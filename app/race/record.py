"""What is kept of a race: the lanes' answers step by step, their clocks, and how alike they are. For exports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..chat.compare import Mark
from ..chat.entries import Answer
from ..chat.pieces import Pieces
from ..text.cells import one_line
from .clock import LaneTrack, Unit, finish_line, speedup
from .guests import short_name


@dataclass(slots=True)
class RaceLane:
    """One lane's part in a race."""

    method: str
    settings: dict[str, Any]
    answer: Answer
    """What it wrote, step by step; it has the label, the figures and the finish reason."""
    model: str = ""
    """Its model, where that is another than the race's."""
    mark: Mark = "unknown"
    position: int | None = None
    """The first token that differs from the first lane's; None where none does."""
    gap: float | None = None
    """How far the two tokens there are apart (logits; with a temperature noisy scores); None where nobody judged."""
    info: dict[str, Any] = field(default_factory=dict)
    """What the engine tells of its model, where that is its own."""

    @property
    def name(self) -> str:
        """What the lane is called: its method with its settings, and its model where that is its own."""
        given = " ".join(f"{key}={value}" for key, value in self.settings.items())
        return " ".join(part for part in (self.method, given, self.model and f"on {self.model}") if part)

    @property
    def track(self) -> LaneTrack:
        """How far it was when."""
        return LaneTrack.of(self.answer)

    @property
    def seconds(self) -> float:
        """Seconds of its own decoding; turns of other lanes left out."""
        return self.answer.figures.decode_seconds

    def clock(self) -> list[float]:
        """The lane's own clock at the end of each run, in seconds [runs]."""
        return self.track.clock(self.answer.figures)


@dataclass(slots=True)
class RaceRecord:
    """A race of two to four lanes on one prompt."""

    prompt: str
    model: str
    lanes: list[RaceLane]
    sampling: dict[str, Any] = field(default_factory=dict)
    """The fields of `backends.base.Sampling`; empty for greedy."""
    info: dict[str, Any] = field(default_factory=dict)
    """What the engine tells of the model."""
    saved: str = ""
    """When: local time with its offset, ISO 8601."""
    version: str = ""
    """Version of specchat that wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts for answers that have none of their own."""
    unit: Unit = "tokens"
    """What the lanes are compared in."""
    slowed: bool = False
    """It ran in slow motion, where clocks tell nothing of speed."""
    tied: tuple[int, ...] = ()
    """Lanes, by number from 0, that may be as fast as the one ranked before them."""

    @property
    def several(self) -> bool:
        """Whether lanes have models of their own."""
        return any(lane.model for lane in self.lanes)

    @property
    def model_names(self) -> list[str]:
        """What each lane's model is called; empty for all where there is one."""
        if not self.several:
            return [""] * len(self.lanes)
        own, runtime = short_name(str(self.info.get("name") or self.model)), one_line(str(self.info.get("backend", "")))
        if runtime and any(lane.model.startswith(f"{own} · ") for lane in self.lanes):
            own = f"{own} · {runtime}"
        return [lane.model or own for lane in self.lanes]

    @property
    def finish_line(self) -> int:
        """The length at which the lanes are compared: that of the shortest answer that is through; 0 where none is."""
        return finish_line(self.lanes, self.unit)

    def speedup(self, lane: RaceLane) -> float:
        """How many times sooner than the first lane a lane had written what both have, by their clocks. 0 where nothing can be
        compared."""
        return 0.0 if self.slowed else speedup(self.lanes[0], lane, self.unit, self.finish_line)

    def speed(self, lane: RaceLane) -> float:
        """What a lane wrote, per second of its own clock; 0 where speeds are not told."""
        return lane.track.amount(self.unit) / lane.seconds if lane.seconds > 0 and not self.slowed else 0.0
