"""When the screen takes in what the engine has sent: on a slow link no more often than it takes a write."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, process_time
from typing import Any

from textual.app import App
from textual.timer import Timer

FRAME_SECONDS = 1 / 30
"""Between looks at the engine's events while there are some to expect: what an eye can follow, at half the cost of 60 Hz."""

SHARE = 0.15
"""Most of its time that the process may spend on frames; when they are expensive (a fast stream, a slow machine) there are
fewer, so that keys are answered in between."""

LONGEST_REST = 0.15
"""Most seconds that frames rest for their own cost."""

LONGEST_WAIT = 4.0
"""Most seconds between two frames of a stream, whatever the terminal seems to do."""


class Frames:
    """Looks at the engine's events again and again.

    Args:
        app: has the timer.
        look: takes the events in.
        write_seconds: how long the terminal took for the last write.
        clock: seconds that go on steadily.
    """

    def __init__(
        self,
        app: App[Any],
        look: Callable[[], None],
        write_seconds: Callable[[], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._app, self.look, self._write_seconds, self._clock = app, look, write_seconds, clock
        self._timer: Timer | None = None
        self._last = self._rest = self._spent = 0.0

    def begin(self) -> None:
        self._timer = self._app.set_interval(FRAME_SECONDS, self._frame)

    def stir(self) -> None:
        """Something is under way: look at every frame."""
        if self._timer is not None:
            self._timer.resume()

    def rest(self) -> None:
        if self._timer is not None:
            self._timer.pause()

    def _frame(self) -> None:
        now = self._clock()
        if not self._app.is_running:  # it ends, and the widgets go one by one
            return
        if now - self._last < min(max(self._rest, self._write_seconds()), LONGEST_WAIT):
            return
        # All that the process did since the last frame: it is paint, for the most part, and that comes after this call.
        spent = process_time()
        self._rest = min((spent - self._spent) / SHARE, LONGEST_REST) - FRAME_SECONDS / 2
        self._last, self._spent = now, spent
        self.look()
