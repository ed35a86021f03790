"""What is kept of a race: the lanes' answers step by step, their clocks, and how alike they are. For replays and exports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .pieces import Pieces
from .transcript import Answer

Mark = Literal["reference", "identical", "near tie", "lossy", "unknown"]
"""How a lane's tokens compare with the first lane's. `unknown`: not both have got as far as that."""

SIGNS: dict[Mark, str] = {"reference": "·", "identical": "≡", "near tie": "≈", "lossy": "≠", "unknown": "?"}
"""What a mark is shown as."""


@dataclass(slots=True)
class RaceLane:
    """One lane's part in a race."""

    method: str
    settings: dict[str, Any]
    answer: Answer
    """What it wrote, step by step; it has the label, the figures and the finish reason."""
    model: str = ""
    """Where it is another than the race's."""
    mark: Mark = "unknown"
    position: int | None = None
    """The first token that differs from the first lane's; None where none does."""
    gap: float | None = None
    """How far the two tokens there are apart (logits; with a temperature noisy scores); None where nobody judged."""

    @property
    def name(self) -> str:
        """What the lane is called: its method with its settings, and its model where that is its own."""
        given = " ".join(f"{key}={value}" for key, value in self.settings.items())
        return " ".join(part for part in (self.method, given, self.model and f"on {self.model}") if part)

    @property
    def seconds(self) -> float:
        """Of own compute, from the prompt to the last token; turns of other lanes left out."""
        return self.answer.figures.prefill_seconds + self.answer.figures.decode_seconds

    def clock(self) -> list[float]:
        """The lane's own clock at the end of each run, in seconds [runs]."""
        out = []
        now = self.answer.figures.prefill_seconds
        for run in self.answer.runs:
            now += run.seconds
            out.append(now)
        return out


@dataclass(slots=True)
class RaceRecord:
    """A race of two to four lanes on one prompt."""

    prompt: str
    model: str
    lanes: list[RaceLane]
    sampling: dict[str, Any] = field(default_factory=dict)
    """As `backends.base.Sampling` has it; empty for greedy."""
    info: dict[str, Any] = field(default_factory=dict)
    """What the engine tells of the model."""
    saved: str = ""
    """When: local time with its offset, ISO 8601."""
    version: str = ""
    """Of specchat."""
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts for answers that have none of their own."""

    def speedup(self, lane: RaceLane) -> float:
        """Own time per token of the first lane over a lane's, the prompt's prefill included: what the clocks show. 0 where
        nothing can be compared yet."""
        return pace(lane.answer) / first if self.lanes and (first := pace(self.lanes[0].answer)) else 0.0

    def ranking(self) -> list[RaceLane]:
        """The lanes, the fastest first; equals in their order."""
        return sorted(self.lanes, key=lambda lane: -pace(lane.answer))


def pace(answer: Answer) -> float:
    """Tokens per second of own compute, the prefill included."""
    seconds = answer.figures.prefill_seconds + answer.figures.decode_seconds
    return answer.figures.tokens / seconds if seconds > 0 else 0.0
