"""One event of a server's stream as checked data: engines name the same things differently, and any of it may be wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .connection import count, number

NO_ID = -1
"""In place of a token's id where the server does not send it."""


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's counters after a token."""

    predicted: int
    """Tokens so far."""
    milliseconds: float
    """Of decoding so far; stamped once for each pass."""
    drafted: int
    accepted: int
    prompt: int
    """Prompt tokens that were read."""
    cached: int
    """Prompt tokens that were in the cache."""
    prompt_milliseconds: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """What an event tells; None and empty where it does not."""

    text: str = ""
    thought: str = ""
    """Text that the server's parser took for thinking."""
    ids: tuple[int, ...] | None = None
    timings: Timings | None = None
    tokens: int | None = None
    """Tokens of the answer so far."""
    prompt: int | None = None
    prompt_ids: tuple[int, ...] = ()
    """Of its tokens."""
    cached: int | None = None
    finish: str = ""
    stopped: bool = False
    """A stop text ended it."""
    speculation: Mapping[str, Any] | None = None
    """The server's own account of the answer's speculation."""
    progress: tuple[int, int, int] | None = None
    """Prompt tokens read, of how many, and how many of them had been in the cache."""
    error: Any = None


def parse(data: str) -> Chunk:
    """The chunk in an event's data.

    Raises:
        ValueError: it is no JSON object.
    """
    try:
        body = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(body, dict):
        raise ValueError("not an object")
    if body.get("error"):
        return Chunk(error=body)
    choice = _first(body.get("choices"))
    delta = _table(choice.get("delta"))
    usage, verbose = _table(body.get("usage")), _table(body.get("__verbose"))
    details = _table(usage.get("prompt_tokens_details"))
    prompt_ids = _ids(body.get("prompt_token_ids", choice.get("prompt_token_ids"))) or ()
    finish = choice.get("finish_reason")
    return Chunk(
        text=_said(delta.get("content")) or _said(choice.get("text")),
        thought=_said(delta.get("reasoning_content")) or _said(delta.get("reasoning")),
        ids=_ids(choice.get("token_ids", verbose.get("tokens") if "text" in choice else None)),
        timings=_timings(body.get("timings", verbose.get("timings"))),
        tokens=count(usage.get("completion_tokens")),
        prompt=count(usage.get("prompt_tokens")) or len(prompt_ids) or None,
        prompt_ids=prompt_ids,
        cached=count(details.get("cached_tokens")),
        finish=finish if isinstance(finish, str) else "",
        stopped=isinstance(choice.get("stop_reason"), str) or verbose.get("stop_type") == "word",
        speculation=_speculation(body, choice),
        progress=_progress(body.get("prompt_progress")),
    )


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: object) -> Mapping[str, Any]:
    return _table(value[0]) if isinstance(value, list) and value else {}


def _said(value: object) -> str:
    """Text; halves of characters that JSON can name become U+FFFD."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _ids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    found = (count(each) for each in value)
    return tuple(NO_ID if each is None else each for each in found)


def _timings(value: object) -> Timings | None:
    table = _table(value)
    predicted, milliseconds = count(table.get("predicted_n")), number(table.get("predicted_ms"))
    if predicted is None or milliseconds is None:
        return None
    told = {name: count(table.get(name)) or 0 for name in ("draft_n", "draft_n_accepted", "prompt_n", "cache_n")}
    read = number(table.get("prompt_ms")) or 0.0
    return Timings(predicted, milliseconds, told["draft_n"], told["draft_n_accepted"], told["prompt_n"], told["cache_n"], read)


def _speculation(body: Mapping[str, Any], choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """vLLM's account stands in `metrics`, SGLang's in `sglext`."""
    found = _table(body.get("metrics")).get("speculative_decoding")
    found = found or _table(body.get("sglext", choice.get("sglext"))).get("spec_tokens_details")
    return found if isinstance(found, dict) else None


def _progress(value: object) -> tuple[int, int, int] | None:
    table = _table(value)
    done, total, cached = count(table.get("processed")), count(table.get("total")), count(table.get("cache"))
    return (min(done, total), total, cached or 0) if done is not None and total is not None else None
