"""Events of a server's stream, as checked data: any of it may be wrong."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx2

from .values import count, dig, number, string

NO_ID = -1
"""Id of a token that the server does not name."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields of the thought; some engines send it under both names."""

MOST_EVENT = 128_000_000
"""Bytes of one event. A vLLM or llama-server fills it with the whole prompt: ten million tokens take some 70 MB."""

MOST_STRAY = 2000
"""Characters kept of a body's beginning and of its end, to show a web page or a proxy's message in an error."""

FIELD = re.compile(r"(event|id|retry)?:|data: *[{\[]")
"""Lines of a stream of JSON."""

DONE = "[DONE]"
"""Data of the last event, in place of JSON."""


class EventStream:
    """The data of a response's events, read by httpx2's `EventSource`.

    Its body is UTF-8 text of events, whatever its header says, and may end without the last blank line.

    Args:
        response: with an unread body.
        heard: called whenever anything comes: comments are signs of life too.
    """

    def __init__(self, response: httpx2.Response, heard: Callable[[], None]) -> None:
        response.encoding = "utf-8-sig"
        self._response = response
        self._heard = heard
        self._start = self._end = ""
        self.ended = False
        """Whether the body has ended; the event that follows may have broken off."""
        # The attributes that `EventSource` reads of a response.
        self.headers = {"content-type": "text/event-stream"}
        self.request = response.request

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the data of each event.

        Raises:
            httpx2.SSEError: an event is too large.
            httpx2.HTTPError: the connection failed.
        """
        async for event in httpx2.EventSource(cast(httpx2.Response, self), MOST_EVENT):
            if event.data:
                yield event.data

    async def aiter_text(self) -> AsyncIterator[str]:
        """Yield the body as it comes, and a blank line at its end."""
        async for text in self._response.aiter_text():
            self._start += text[: MOST_STRAY - len(self._start)]
            self._end = (self._end + text)[-MOST_STRAY:]
            self._heard()
            yield text
        self.ended = True
        yield "\n\n"

    @property
    def stray(self) -> str:
        """The first line that is no event of JSON, of those kept: a web page's, say, or a proxy's message."""
        lines = (*re.split(r"[\r\n]+", self._start), *re.split(r"[\r\n]+", self._end)[1:])
        texts = (line.removeprefix("data:").strip() for line in lines if not FIELD.match(line))
        return next(filter(None, texts), "")


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's counters after a token."""

    predicted: int = 0
    """Tokens so far."""
    milliseconds: float = 0.0
    """Time of decoding so far, stamped once for each pass."""
    drafted: int = 0
    accepted: int = 0
    prompt: int = 0
    """Prompt tokens that were read."""
    cached: int = 0
    """Prompt tokens that were in the cache."""
    prompt_milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text of an event, and its tokens."""

    text: str = ""
    thought: str = ""
    """Text that the server's parser took for thinking."""
    thought_field: str = ""
    """The field that the thinking came in."""
    ids: tuple[int, ...] | None = None
    timings: Timings | None = None


def parse_chunk(body: Mapping[str, Any]) -> Chunk:
    """Read the chunk in an event's JSON."""
    choice = dig(body, "choices", 0)
    delta = dig(choice, "delta")
    thought_field = next((name for name in THOUGHT_FIELDS if string(dig(delta, name))), "")
    return Chunk(
        text=_whole(string(dig(delta, "content")) or string(dig(choice, "text"))),
        thought=_whole(string(dig(delta, thought_field))),
        thought_field=thought_field,
        ids=parse_ids(dig(choice, "token_ids")),
        timings=_timings(body.get("timings", dig(body, "__verbose", "timings"))),
    )


@dataclass(slots=True)
class Counters:
    """The server's final counters of an answer, which engines send in one event or in two."""

    timings: Timings | None = None
    tokens: int | None = None
    speculation: Mapping[str, Any] | None = None
    """Its own account of the answer's speculation."""
    stopped: bool = False
    """Whether a stop text ended the answer."""

    def update(self, body: Mapping[str, Any], chunk: Chunk) -> None:
        """Add the counters of an event."""
        sglang = body.get("sglext", dig(body, "choices", 0, "sglext"))
        account = dig(body, "metrics", "speculative_decoding") or dig(sglang, "spec_tokens_details")
        tokens = count(dig(body, "usage", "completion_tokens"))
        self.timings = chunk.timings or self.timings
        self.tokens = self.tokens if tokens is None else tokens
        self.speculation = account if isinstance(account, dict) else self.speculation


def _whole(text: str) -> str:
    """Replace halves of characters, which JSON can name, by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_ids(value: object) -> tuple[int, ...] | None:
    """Read a list of token ids; None if it is none."""
    if not isinstance(value, list):
        return None
    return tuple(NO_ID if (id := count(item)) is None else id for item in value)


def _timings(value: object) -> Timings | None:
    predicted, milliseconds = count(dig(value, "predicted_n")), number(dig(value, "predicted_ms"))
    if predicted is None or milliseconds is None:
        return None
    return Timings(
        predicted=predicted,
        milliseconds=milliseconds,
        drafted=count(dig(value, "draft_n")) or 0,
        accepted=count(dig(value, "draft_n_accepted")) or 0,
        prompt=count(dig(value, "prompt_n")) or 0,
        cached=count(dig(value, "cache_n")) or 0,
        prompt_milliseconds=number(dig(value, "prompt_ms")) or 0.0,
    )
