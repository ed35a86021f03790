"""The time of a step by its parts, and the target's probabilities of the tokens that its pass verified."""

from __future__ import annotations

import time
from typing import Any

from ...backends.base import Session
from ..acceptance import probabilities
from .passes import Pass


class ProbabilityRecorder:
    """Records probabilities while it is on. The time that this takes is in no step's seconds."""

    def __init__(self) -> None:
        self.on = False
        self.seconds = 0.0
        self.probs: tuple[float, ...] = ()
        """Probabilities from the last pass; empty if it was off."""

    def record(self, running: Pass, chosen: list[int], path: list[int]) -> None:
        """Read the probabilities of an evaluated pass with this accepted path."""
        self.probs = ()
        if self.on:
            started = time.perf_counter()
            self.probs = probabilities(running.tree, running.scores, path[-1], chosen[path[-1]])
            self.seconds += time.perf_counter() - started


class StepClock:
    """Divides a step's seconds among the draft, the target's passes, the prompt tokens that they read, and the rest.

    Args:
        session: the target's.
        recorder: its seconds do not count.
        prompt: tokens of the prompt.
    """

    def __init__(self, session: Session, recorder: ProbabilityRecorder, prompt: int = 0) -> None:
        self._session = session
        self._recorder = recorder
        self._prompt = prompt
        self._started = self._verifying = time.perf_counter()
        self._recorded = recorder.seconds
        self._forward = session.forward_seconds
        self._nodes = session.nodes_evaluated
        self.draft_seconds = self.verify_seconds = 0.0
        self.prefilled = 0
        """Prompt tokens that its passes read."""

    def drafted(self, running: Pass) -> None:
        """End the draft; it includes the drafting part of the target's passes so far."""
        self._verifying = time.perf_counter()
        passes = self._session.forward_seconds - self._forward
        self.draft_seconds = self._verifying - self._started - passes * (1 - running.drafting)
        self._forward += passes * running.drafting
        self.prefilled = max(0, self._prompt - 1 - self._session.length)

    def verified(self, running: Pass) -> tuple[float, float]:
        """Return the seconds of the draft, and of the pass with choice and commit; 0 if the pass read some of the text too,
        which says nothing of other passes."""
        self.verify_seconds = time.perf_counter() - self._verifying - (self._recorder.seconds - self._recorded)
        return self.draft_seconds, 0.0 if running.lacking else self.verify_seconds

    def stop(self) -> dict[str, Any]:
        """End the step; return its seconds in the fields of a `StepRecord`."""
        session, prefilled = self._session, self.prefilled
        nodes = session.nodes_evaluated - self._nodes - prefilled
        forward = session.forward_seconds - self._forward
        recorded = self._recorder.seconds - self._recorded
        rest = time.perf_counter() - self._started - forward - self.draft_seconds - recorded
        self.prefill_seconds = forward * prefilled / (prefilled + nodes) if prefilled else 0.0
        return {
            "nodes": nodes,
            "draft_seconds": self.draft_seconds,
            "forward_seconds": forward - self.prefill_seconds,
            "other_seconds": rest,
            "prefilled": prefilled,
        }
