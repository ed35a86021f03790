"""What a bench run is to measure, and what it has measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....engine.catalog import get
from ..measure import BenchRequest
from .items import PromptSet
from .lab import Spec

BASE = "greedy"
"""What speedups are against on this machine: plain decoding, ours."""


@dataclass(slots=True)
class BenchRun:
    """A run's plan and what has been measured."""

    request: BenchRequest
    prompts: PromptSet
    specs: list[Spec] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    record: Path | None = None
    servers: dict[str, str] = field(default_factory=dict)
    """By method the server that decodes with it, as it was named; empty for methods of this machine."""
    answers: bool = False
    """Keep the text and token ids of every answer."""
    past: bool = False
    """Draft from the past answers that the engine's task `past` has opened."""
    base: str = BASE
    """The method that speedups are against; empty where there is none."""

    @property
    def labels(self) -> list[str]:
        """The methods as the tables name them."""
        return [spec.label for spec in self.specs]


def is_own(spec: Spec) -> bool:
    """Whether it is a method of ours (or of a drafter package) with answers identical to plain decoding's."""
    return "/" not in spec.name and get(spec.name).label == "identical"
