"""When the drawing process looks for garbage: while nobody waits for it.

Python's full collection looks through every object, some hundred thousand in a long chat, and takes 50 to 250 ms, in which no
key is answered; left to itself it ran every two or three seconds of a fast stream. Most of what a chat makes is freed at once
by its reference count; the young cycles that the interface makes are still collected as ever, in milliseconds.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic

QUIET_SECONDS = 2.0
"""Without a key, before a full collection."""

BETWEEN_SECONDS = 60.0
"""Least time between two full collections in the middle of a stream."""

WORTH = 10
"""Collections of the middle generation that make a full one worth while: Python's own number."""

NEVER = 1_000_000
"""Collections of the middle generation before a full one: more than there are in months."""


class Sweeper:
    """Holds full collections back until `idle` finds a quiet moment."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._key = self._swept = clock()
        self._before: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """The program is built: what it is made of stays, and no later collection looks through it."""
        self._before = gc.get_threshold()
        gc.set_threshold(self._before[0], self._before[1], NEVER)
        gc.freeze()

    def end(self) -> None:
        """Python's own ways again."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            gc.unfreeze()
            self._before = None

    def key(self) -> None:
        """A key was pressed: the next may follow."""
        self._key = self._clock()

    def idle(self, streaming: bool) -> bool:
        """Collect if nobody would notice; True if it did. Call it a few times a second."""
        now = self._clock()
        if self._before is None or now - self._key < QUIET_SECONDS or gc.get_count()[2] < WORTH:
            return False
        if streaming and now - self._swept < BETWEEN_SECONDS:
            return False
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._swept = self._clock()
        return True
