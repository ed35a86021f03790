"""Where the time of a step goes, and how probable the target found what its pass verified."""

from __future__ import annotations

import time
from typing import Any

from ...backends.base import Session
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


class StepClock:
    """Where a step's seconds go: the draft, the target's passes, the prompt that they took along, and the rest.

    Args:
        session: the target's.
        watch: whose seconds are not the step's.
        prompt: tokens of the prompt.
    """

    def __init__(self, session: Session, watch: Watch, prompt: int = 0) -> None:
        self._session, self._watch, self._prompt = session, watch, prompt
        self._begun = self._verifying = time.perf_counter()
        self._apart, self._forward, self._nodes = watch.seconds, session.forward_seconds, session.nodes_evaluated
        self.draft_seconds = self.verify_seconds = 0.0
        self.prefilled = 0
        """Prompt tokens that its passes took along."""

    def drafted(self, running: Pass) -> None:
        """The draft ends here; what of the target's passes until now was drafting is the draft's."""
        own = running.drafting
        self._verifying = time.perf_counter()
        passes = self._session.forward_seconds - self._forward
        self.draft_seconds = self._verifying - self._begun - passes * (1 - own)
        self._forward += passes * own
        self.prefilled = max(0, self._prompt - 1 - self._session.length)

    def verified(self, running: Pass) -> tuple[float, float]:
        """Seconds of the draft, and since then: the target's passes, what they chose, and what became of the tree in its cache;
        0 where the pass took some of the text along, which says nothing of the others."""
        self.verify_seconds = time.perf_counter() - self._verifying - (self._watch.seconds - self._apart)
        return self.draft_seconds, 0.0 if running.lacking else self.verify_seconds

    def stop(self) -> dict[str, Any]:
        """The step ends here; what it took, in the fields of a `StepRecord`."""
        session, prefilled = self._session, self.prefilled
        nodes = session.nodes_evaluated - self._nodes - prefilled
        forward = session.forward_seconds - self._forward
        rest = time.perf_counter() - self._begun - forward - self.draft_seconds - (self._watch.seconds - self._apart)
        self.prefill_seconds = forward * prefilled / (prefilled + nodes) if prefilled else 0.0
        return {
            "nodes": nodes,
            "draft_seconds": self.draft_seconds,
            "forward_seconds": forward - self.prefill_seconds,
            "other_seconds": rest,
            "prefilled": prefilled,
        }
