"""The wire format of messages, and the engine's outgoing queue.

A message is a line of UTF-8 JSON with the class name under "kind"; unknown fields are ignored, so that a newer side can talk to
an older one. A thread of its own sends the events; `post` merges those of progress that still wait.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from . import messages
from .messages import FIELDS, Command, Event, Failed, Loading, Prefilling, StepRecord, Steps

T = TypeVar("T")

INTERVAL = 0.015
"""Seconds between messages that only carry progress: about one a frame of a 60 Hz screen."""


def _decoder(hint: Any) -> Callable[[Any], Any]:
    """Return a function that rebuilds a value of a type from parsed JSON; it raises ValueError for what is not of the type."""
    arguments = get_args(hint)
    origin = get_origin(hint)
    if hint is StepRecord:
        return lambda values: StepRecord(*values[: len(FIELDS)])
    if is_dataclass(hint):
        return lambda body: body if isinstance(body, cast(Any, hint)) else decode(cast(Any, hint), body)
    if origin in (Union, UnionType):
        return partial(_decode_any, [*map(_decoder, arguments)])
    if origin in (list, tuple, Sequence):
        return partial(_decode_items, arguments, tuple if origin is tuple else list, [*map(_decoder, arguments)])
    if origin in (dict, Mapping):
        inner = _decoder(arguments[1])
        return lambda body: {_expect({str}, key): inner(value) for key, value in _expect({dict}, body).items()}
    if origin is Literal:
        return partial(_expect_word, arguments)
    if hint in _PLAIN:
        return partial(_expect, _PLAIN[hint])
    return lambda value: value


_PLAIN: Mapping[Any, set[type]] = {str: {str}, int: {int}, float: {int, float}, bool: {bool}, NoneType: {NoneType}}
"""Types of values → the types that they have in JSON."""


def _expect(types: set[type], value: Any) -> Any:
    if type(value) not in types:
        raise ValueError(f"{value!r:.40} is not {' or '.join(sorted(kind.__name__ for kind in types))}")
    return value


def _decode_items(
    arguments: Sequence[Any], make: Callable[[Any], Any], decoders: Sequence[Callable[[Any], Any]], values: Any
) -> Any:
    _expect({list}, values)
    if make is tuple and arguments[-1] is not Ellipsis:
        return tuple(decode_item(value) for decode_item, value in zip(decoders, values, strict=True))
    if {*map(type, values)} <= _PLAIN.get(arguments[0], set()):  # at once: a long answer has a million tokens
        return make(values)
    return make(map(decoders[0], values))


def _expect_word(words: Sequence[Any], value: Any) -> Any:
    if value not in words:
        raise ValueError(f"{value!r:.40} is none of {', '.join(map(str, words))}")
    return value


def _decode_any(decoders: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    for decoder in decoders:
        with suppress(ValueError):
            return decoder(value)
    raise ValueError(f"{value!r:.40} is none of the types that it may be")


@cache
def _field_decoders(kind: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the decoder of each field of a dataclass, by its annotation."""
    hints = get_type_hints(kind)
    return {field.name: _decoder(hints[field.name]) for field in fields(kind)}


def decode(kind: type[T], body: Mapping[str, Any]) -> T:
    """Rebuild a dataclass from parsed JSON; unknown fields are ignored.

    Raises:
        ValueError: a field is missing, or is not as its annotation says.
    """
    decoders = _field_decoders(cast(Any, kind))
    values = {}
    for name, value in _expect({dict}, body).items():
        if name in decoders:
            try:
                values[name] = decoders[name](value)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name}: {error}") from None
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


_KINDS: dict[str, type[Any]] = {
    name: kind
    for name, kind in vars(messages).items()
    if isinstance(kind, type) and is_dataclass(kind) and issubclass(kind, Command | Event)
}


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
        return decode(_KINDS[body["kind"]], body)
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
