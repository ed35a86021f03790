"""One event of a server's stream as checked data: any of it may be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .connection import count, number
from .refusals import error_in

NO_ID = -1
"""In place of a token's id where the server does not send it."""

THOUGHTS = ("reasoning_content", "reasoning")
"""What engines call the thinking; some send it under both names."""


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's counters after a token."""

    predicted: int
    """Tokens so far."""
    milliseconds: float
    """Time of decoding so far; stamped once for each pass."""
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
    under: str = ""
    """The field that the thinking came in."""
    ids: tuple[int, ...] | None = None
    timings: Timings | None = None
    tokens: int | None = None
    """Tokens of the answer so far."""
    prompt: int | None = None
    prompt_ids: tuple[int, ...] = ()
    """Ids of its tokens."""
    cached: int | None = None
    finish: str = ""
    stopped: bool = False
    """A stop text ended it."""
    truncated: bool = False
    """llama-server's context ended it."""
    speculation: Mapping[str, Any] | None = None
    """The server's own account of the answer's speculation."""
    progress: tuple[int, int, int] | None = None
    """Prompt tokens read, of how many, and how many of them had been in the cache."""
    error: Any = None


def parse(body: Any) -> Chunk:
    """The chunk in an event.

    Args:
        body: its JSON.

    Raises:
        ValueError: it is no JSON object.
    """
    if not isinstance(body, dict):
        raise ValueError("not an object")
    choices = body.get("choices")
    choice = _table(choices[0]) if isinstance(choices, list) and choices else {}
    part = _table(choice.get("delta"))
    usage, verbose = _table(body.get("usage")), _table(body.get("__verbose"))
    details = _table(usage.get("prompt_tokens_details"))
    prompt_ids = _ids(body.get("prompt_token_ids", choice.get("prompt_token_ids"))) or ()
    under = next((name for name in THOUGHTS if said(part.get(name))), "")
    return Chunk(
        text=whole(said(part.get("content")) or said(choice.get("text"))),
        thought=whole(said(part.get(under))),
        under=under,
        ids=_ids(choice.get("token_ids")),
        timings=_timings(body.get("timings", verbose.get("timings"))),
        tokens=count(usage.get("completion_tokens")),
        prompt=count(usage.get("prompt_tokens")) or len(prompt_ids) or None,
        prompt_ids=prompt_ids,
        cached=count(details.get("cached_tokens")),
        finish=said(choice.get("finish_reason")),
        stopped=isinstance(choice.get("stop_reason"), str) or verbose.get("stop_type") == "word",
        truncated=verbose.get("truncated") is True,
        speculation=_speculation(body, choice),
        progress=_progress(body.get("prompt_progress")),
        error=error_in(body),
    )


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def said(value: object) -> str:
    """Text, and nothing of what is none."""
    return value if isinstance(value, str) else ""


def whole(text: str) -> str:
    """A text without halves of characters, which JSON can name: each becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
