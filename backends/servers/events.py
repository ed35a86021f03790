"""A body as events, however it is written: server-sent events, lines of JSON, or one JSON document in place of a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

MOST_EVENT = 128_000_000
"""Bytes of one event, which a vLLM or llama-server fills with the whole prompt: ten million tokens take some 70 MB."""

MOST_ODD = 2000
"""Characters that are kept of what is no event."""

DONE = ("[done]", "done", "end", "eos")
"""What stands in place of the last event's JSON, in small letters."""


_DECODER = json.JSONDecoder(strict=False)
"""Control characters within texts are not always escaped."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    body: Any
    """Its JSON; its text where that is none."""
    name: str = ""
    """`error` or `ping`, say; few events have one."""


class Reader:
    """Takes bytes as they come, cut anywhere; gives events as soon as they are whole.

    Lines end in LF, CR LF or CR. An event ends at an empty line, or, where servers leave that out, at the next event. A line of
    JSON needs no `data:` before it, and a document of several lines is one event.

    Args:
        most: bytes that one event may have.
    """

    def __init__(self, most: int = MOST_EVENT) -> None:
        self.odd = ""
        """The beginning of what was no event: a web page, say, or a proxy's message."""
        self._most, self._size = most, 0
        self._parts: list[bytes] = []
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[str] = []
        self._document = False
        """Whether `_data` are the lines of a JSON document without `data:` before them."""

    def take(self, data: bytes) -> Iterator[Event]:
        """Take some bytes; the events that are whole now.

        Raises:
            ValueError: an event is too large.
        """
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        first, *rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._hold(first)
        for part in rest:
            yield from self._line(self._whole_line())
            self._hold(part)

    def end(self) -> Iterator[Event]:
        """The body has ended: what is left of it. Of an event that broke off there is nothing to read."""
        for event in (*self._line(self._whole_line()), *self._complete()):
            if not isinstance(event.body, str) or event.body[:1] not in "{[" or event.body.lower() in DONE:
                yield event

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            raise ValueError(f"an event of more than {self._most:,} bytes")

    def _whole_line(self) -> str:
        line = b"".join(self._parts).decode("utf-8", "replace")
        self._parts = []
        if self._first and line:
            self._first, line = False, line.removeprefix("\ufeff")
        return line

    def _line(self, line: str) -> Iterator[Event]:
        field, colon, value = line.partition(":")
        field, value = field.strip().lower(), value.removeprefix(" ")
        known = field in ("data", "event", "error", "id", "retry") and colon
        if self._document and not known:
            if line.strip():
                self._data.append(line)
            return
        if not line.strip():
            yield from self._complete()
        elif line.lstrip()[0] in "{[":
            yield from self._complete()
            self._data, self._document = [line], True
            if not isinstance(_json(line), str) or line.strip().lower() in DONE:
                yield from self._complete()
        elif not known:
            if not line.startswith(":"):
                self.odd = f"{self.odd} {line}"[:MOST_ODD].lstrip()
        elif field in ("data", "event", "error"):
            # Where servers leave the empty line out, what came is whole without it.
            if self._document or (len(self._data) == 1 and not isinstance(_json(self._data[0]), str)):
                yield from self._complete()
            if field == "event":
                self._name = value
            elif field == "data":
                while value.startswith("data:"):  # a gateway has wrapped it once more
                    value = value[5:].lstrip()
                self._data.append(value)
            else:  # llama-server's, before 2025
                yield Event(_json(value), "error")

    def _complete(self) -> Iterator[Event]:
        text, name = "\n".join(self._data).strip(), self._name.strip().lower()
        self._data, self._name, self._document, self._size = [], "", False, sum(map(len, self._parts))
        if text:
            yield Event(_json(text), name)


def _json(text: str) -> Any:
    """What a text says as JSON, a list where there are several documents; the text itself where it is none."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        pass
    found, at = list[Any](), 0
    try:
        while text[at : at + 1] == "{":
            one, at = _DECODER.raw_decode(text, at)
            found.append(one)
    except (ValueError, RecursionError):
        return text
    return found if found and at == len(text) else text


async def events(response: httpx2.Response, reader: Reader) -> AsyncIterator[Event | None]:
    """The events of a response; None for a sign of life: bytes that completed none.

    Raises:
        ValueError: an event is too large.
        httpx2.HTTPError: the connection failed.
    """
    async for data in response.aiter_bytes():
        for event in reader.take(data):
            yield event
        yield None
    for event in reader.end():
        yield event
