"""The engine's way out: events leave on a thread of their own, and steps that wait are merged into one message."""

from __future__ import annotations

import os
import threading
import time

from .messages import Event, Failed, Loading, Prefilling, Steps, dump

INTERVAL = 0.015
"""Seconds between messages that only carry progress: about one a frame of a 60 Hz screen."""


class Outbox:
    """Sends events to a descriptor. `post` never blocks: while the pipe is full, what waits is merged.

    The order of the events of one id is kept. Steps wait up to INTERVAL for more of their kind; everything else leaves at once
    and takes along what waits.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._changed = threading.Condition()
        self._waiting: list[Event] = []
        self._mergeable: dict[int, Steps | Prefilling | Loading] = {}
        self._urgent = False
        self._idle = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def post(self, event: Event) -> None:
        """Send an event soon. The event belongs to the outbox from here on."""
        with self._changed:
            if not isinstance(event, Steps | Prefilling | Loading):
                self._mergeable.pop(getattr(event, "id", 0), None)
                self._waiting.append(event)
                self._urgent = True
                self._changed.notify()
                return
            if self._merge(event):
                return
            self._waiting.append(event)
            self._mergeable[event.id] = event
            # A sender that waits for its interval to pass need not be woken: that would cost a switch a step.
            if self._idle:
                self._changed.notify()

    def _merge(self, event: Steps | Prefilling | Loading) -> bool:
        """Add the event to the last one of its id, if that one waits and is of its kind."""
        match self._mergeable.get(event.id), event:
            case Steps() as last, Steps():
                last.steps += event.steps
            case Prefilling() as last, Prefilling():
                last.done, last.total, last.seconds = event.done, event.total, event.seconds
            case Loading() as last, Loading() if last.stage == event.stage:
                last.done, last.total = event.done, event.total
            case _:
                return False
        return True

    def _run(self) -> None:
        sent = 0.0
        try:
            while True:
                batch = self._take(sent + INTERVAL)
                self._write(b"".join(map(_line, batch)))
                sent = time.monotonic()
        except OSError:
            os._exit(0)  # nobody reads any more: the parent is gone

    def _take(self, due: float) -> list[Event]:
        """What waits, as soon as there is something and it is due or urgent."""
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._waiting)
            self._idle = False
            while not self._urgent and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
            batch, self._waiting = self._waiting, []
            self._mergeable.clear()
            self._urgent = False
            return batch

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]


def _line(event: Event) -> bytes:
    """An event's line; a value that JSON cannot hold must not end the stream."""
    try:
        return dump(event)
    except (TypeError, ValueError, RecursionError) as error:
        return dump(Failed(getattr(event, "id", 0), "bug", f"The engine created an event that cannot be sent: {error}."))
