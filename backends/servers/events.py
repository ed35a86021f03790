"""A body as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

MOST_EVENT = 128_000_000
"""Bytes of one event, which a vLLM or llama-server fills with the whole prompt: ten million tokens take some 70 MB."""

MOST_ODD = 2000
"""Characters that are kept of what is no event."""

DONE = "[DONE]"
"""What stands in place of the last event's JSON."""


class Reader:
    """Takes bytes as they come, cut anywhere; gives events as soon as they are whole: the JSON of each, its text where that is
    none.

    Args:
        most: bytes that one event may have.
    """

    def __init__(self, most: int = MOST_EVENT) -> None:
        self.odd = ""
        """The first line of what was no event: a web page, say, or a proxy's message."""
        self._most, self._size = most, 0
        self._parts: list[bytes] = []
        self._after_cr = False
        self._data: list[str] = []

    def take(self, data: bytes) -> Iterator[Any]:
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

    def end(self) -> Iterator[Any]:
        """The body has ended: what is left of it. Of an event that broke off there is nothing to read."""
        for event in (*self._line(self._whole_line()), *self._complete()):
            if not isinstance(event, str) or event[:1] not in "{[" or event == DONE:
                yield event

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            raise ValueError(f"an event of more than {self._most:,} bytes")

    def _whole_line(self) -> str:
        line = b"".join(self._parts).decode("utf-8", "replace")
        self._parts = []
        return line

    def _line(self, line: str) -> Iterator[Any]:
        field, _, value = line.partition(":")
        if not line:
            yield from self._complete()
        elif field == "data":
            self._data.append(value.removeprefix(" "))
        elif field not in ("", "event", "id", "retry"):
            self.odd = self.odd or line.strip()[:MOST_ODD]

    def _complete(self) -> Iterator[Any]:
        text = "\n".join(self._data)
        self._data, self._size = [], sum(map(len, self._parts))
        if text:
            yield _json(text)


def _json(text: str) -> Any:
    """What a text says as JSON; the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def events(response: httpx2.Response, reader: Reader) -> AsyncIterator[Any]:
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
