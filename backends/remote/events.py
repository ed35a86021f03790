"""Events of a server's stream as checked data: any value may be missing, of another type or out of range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_ID = -1
"""Id of a token that the server does not name."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields of the thought; some engines send it under both names."""

MOST_EVENT = 128_000_000
"""Bytes of one event. A vLLM or llama-server fills it with the whole prompt: ten million tokens take some 70 MB."""

DONE = "[DONE]"
"""Data of the last event, in place of JSON."""


def dig(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and indices; None if there is none."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def tables(value: Any) -> list[Mapping[str, Any]]:
    """List the objects in an array; none if it is no array."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    """Return a string as it is, and an empty one for anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return a number of things; None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def milliseconds(value: object) -> float | None:
    """Return a time; None if it is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and 0 <= value < 1e15 else None


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
    predicted = count(dig(value, "predicted_n"))
    decoding = milliseconds(dig(value, "predicted_ms"))
    if predicted is None or decoding is None:
        return None
    return Timings(
        predicted=predicted,
        milliseconds=decoding,
        drafted=count(dig(value, "draft_n")) or 0,
        accepted=count(dig(value, "draft_n_accepted")) or 0,
        prompt=count(dig(value, "prompt_n")) or 0,
        cached=count(dig(value, "cache_n")) or 0,
        prompt_milliseconds=milliseconds(dig(value, "prompt_ms")) or 0.0,
    )
