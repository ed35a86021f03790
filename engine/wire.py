"""The wire format of messages, and the engine's outgoing queue.

A message is a line of UTF-8 JSON with the class name under "kind"; unknown fields are ignored, so that a newer side can talk to
an older one. A thread of its own sends the events; `post` merges those of progress that still wait.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

from . import messages
from .messages import FIELDS, Command, Event, Failed, Loading, ModelInfo, Prefilling, StepRecord, Steps

INTERVAL = 0.015
"""Seconds between messages that only carry progress: about one a frame of a 60 Hz screen."""


def _decoder(hint: Any) -> Callable[[Any], Any] | None:
    """Return a function that rebuilds a value of a type from JSON; None if the parsed JSON is that value already."""
    arguments = get_args(hint)
    inner = next(filter(None, map(_decoder, arguments)), None)
    if hint is StepRecord:
        return lambda values: StepRecord(*values[: len(FIELDS)])
    if is_dataclass(hint):
        decoders = _field_decoders(hint)
        return lambda body: cast(Any, hint)(**_decode(body, decoders))
    if get_origin(hint) is tuple:
        return lambda values: tuple(map(inner, values) if inner else values)
    if inner and get_origin(hint) is list:
        return lambda values: list(map(inner, values))
    if inner and NoneType in arguments:
        return lambda value: None if value is None else inner(value)
    return None


def _field_decoders(kind: Any) -> dict[str, Callable[[Any], Any] | None]:
    """Return the decoder of each field of a dataclass, by its annotation."""
    hints = get_type_hints(kind)
    return {field.name: _decoder(hints[field.name]) for field in fields(kind)}


def _decode(body: Mapping[str, Any], decoders: dict[str, Callable[[Any], Any] | None]) -> dict[str, Any]:
    known = ((name, value) for name, value in body.items() if name in decoders)
    return {name: decode(value) if (decode := decoders[name]) else value for name, value in known}


_KINDS: dict[str, tuple[type[Any], dict[str, Callable[[Any], Any] | None]]] = {
    name: (kind, _field_decoders(kind))
    for name, kind in vars(messages).items()
    if isinstance(kind, type) and is_dataclass(kind) and issubclass(kind, Command | Event)
}


def read_model(body: Mapping[str, Any]) -> ModelInfo:
    """Rebuild a model's description from plain data; one without a name if it is damaged."""
    try:
        return ModelInfo(**_decode(body, _field_decoders(ModelInfo)))
    except (AttributeError, TypeError):
        return ModelInfo()


def dump(message: Command | Event) -> bytes:
    """Write a message as one line, newline included. Lone surrogates survive as JSON escapes."""
    if isinstance(message, Steps):
        # The hot path: steps cross as arrays in field order, without a name per value.
        steps = [[getattr(step, name) for name in FIELDS] for step in message.steps]
        body: dict[str, Any] = {"kind": "Steps", "id": message.id, "steps": steps}
    else:
        body = {"kind": type(message).__name__, **asdict(cast(Any, message))}
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def parse(line: bytes) -> Any:
    """Read the message of one line.

    Raises:
        ValueError: not JSON, or not a message.
    """
    try:
        body = json.loads(line)
        kind, decoders = _KINDS[body["kind"]]
        return kind(**_decode(body, decoders))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a message: {line[:80]!r}") from error


class Outbox:
    """Sends events to a descriptor. `post` never blocks: while the pipe is full, waiting events are merged.

    The events of one id stay in order. Progress waits up to INTERVAL for more of its kind; any other event is sent at once,
    together with all events that are waiting.
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
            # A sender that waits for its interval to pass need not be woken: that would cost a thread switch per step.
            if self._idle:
                self._changed.notify()

    def _merge(self, event: Steps | Prefilling | Loading) -> bool:
        """Add the event to the last waiting one of its id, if that is of its kind; return whether it was added."""
        match self._mergeable.get(event.id), event:
            case Steps() as last, Steps():
                last.steps += event.steps
            case Prefilling() as last, Prefilling():
                last.done = event.done
                last.total = event.total
                last.seconds = event.seconds
            case Loading() as last, Loading() if last.stage == event.stage:
                last.done = event.done
                last.total = event.total
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
            os._exit(0)  # the parent is gone

    def _take(self, due: float) -> list[Event]:
        """Wait until events are due or urgent, and take all of them."""
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._waiting)
            self._idle = False
            while not self._urgent and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
            batch = self._waiting
            self._waiting = []
            self._mergeable.clear()
            self._urgent = False
            return batch

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]


def _line(event: Event) -> bytes:
    """Write an event's line; a value that JSON cannot hold must not end the stream."""
    try:
        return dump(event)
    except (TypeError, ValueError, RecursionError) as error:
        return dump(Failed(getattr(event, "id", 0), "bug", f"The engine created an event that cannot be sent: {error}."))
