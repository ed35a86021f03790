"""Watching an answer: how probable the target found what each pass verified."""

from __future__ import annotations

import time

from ..acceptance import probabilities
from .passes import Pass


class Watch:
    """Reads probabilities while it is on. That costs time, which is in no step's seconds."""

    def __init__(self) -> None:
        self.on = False
        self.seconds = 0.0
        self.probs: tuple[float, ...] = ()
        """Probabilities from the last pass; empty if it was off."""

    def look(self, running: Pass, chosen: list[int], path: list[int]) -> None:
        """Read those of a pass that has been evaluated, and of the path accepted."""
        self.probs = ()
        if self.on:
            begun = time.perf_counter()
            self.probs = probabilities(running.tree, running.scores, path[-1], chosen[path[-1]])
            self.seconds += time.perf_counter() - begun
