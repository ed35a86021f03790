"""What a server's error says: its words, its status, and whether the prompt is too long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

_WORDS = ("error", "message", "detail", "msg")
"""Where an error's words are: OpenAI's, then those of Python servers."""

ANSWERED = {"choices", "usage", "timings", "prompt_progress"}
"""What a body has that is no error."""

LONGEST_WAIT = 86_400.0
"""Seconds."""

DEEPEST = 4
"""Errors within errors that are looked into."""

FULL = re.compile(
    r"exceed_context|context_length_exceeded|maximum context length|longer than the model'?s|available context size"
    r"|max_tokens must be at least 1, got (0|-)",
    re.IGNORECASE,
)
"""How llama-server, vLLM, SGLang, Ollama and OpenAI say that the prompt does not fit."""


def words_of(body: Any, depth: int = 0) -> str:
    """The words of an error; of a body that is none its first line."""
    if isinstance(body, str):
        return next(iter(body.strip().splitlines()), "")
    if isinstance(body, list):
        return "; ".join(dict.fromkeys(filter(None, (words_of(each, depth) for each in body[:3]))))
    if not isinstance(body, dict) or depth > DEEPEST:
        return ""
    said = next(filter(None, (words_of(body.get(name), depth + 1) for name in _WORDS)), "")
    where = body.get("loc")  # pydantic's
    return f"{'.'.join(str(each) for each in where if each != 'body')}: {said}" if isinstance(where, list) and said else said


def status_of(body: Any) -> int:
    """The status that an error in a stream stands for; a failure of the server's own if it does not say."""
    code = next((table["code"] for table in _tables(body) if "code" in table), None)
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def wait_of(headers: Mapping[str, str], body: Any) -> float:
    """Seconds after which a server wants to be asked again; 0 if it names none, or more than a day."""
    now = datetime.now(UTC)
    details: list[Any] = next((table["details"] for table in _tables(body) if isinstance(table.get("details"), list)), [])
    told: list[tuple[Any, float]] = [(headers.get("Retry-After-Ms"), 0.001), (headers.get("Retry-After"), 1.0)]
    told += [(row.get("retryDelay"), 1.0) for row in details if isinstance(row, dict)]  # Gemini's: "34s"
    for value, unit in told:
        if not isinstance(value, str):
            continue
        try:
            seconds = float(value.strip().removesuffix("s")) * unit
        except ValueError:
            try:
                seconds = (parsedate_to_datetime(value) - now).total_seconds()
            except (ValueError, TypeError, OverflowError):  # no date, or one without a zone
                continue
        if 0 < seconds <= LONGEST_WAIT:
            return seconds
    return 0.0


def is_full(body: Any) -> bool:
    """Whether an error says that the prompt does not fit into the context."""
    kinds = [str(table.get(name)) for table in _tables(body) for name in ("type", "code")]
    return bool(FULL.search(" ".join([*kinds, words_of(body)])))


def numbers_of(body: Any) -> tuple[int | None, int | None]:
    """Tokens that were sent and that fit, where llama-server tells them."""
    found: list[int | None] = []
    for name in ("n_prompt_tokens", "n_ctx"):
        values = (table.get(name) for table in _tables(body))
        found.append(next((each for each in values if isinstance(each, int) and 0 < each < 2**31), None))
    return found[0], found[1]


def error_in(body: Mapping[str, Any]) -> Any:
    """The error that an event of a stream tells; None for none."""
    told = body.get("error") or body.get("object") == "error" or not ANSWERED & body.keys()
    return dict(body) if told and words_of(body) else None


def _tables(body: Any) -> list[Mapping[str, Any]]:
    """An error, the inner table first."""
    tables = [body.get("error"), body] if isinstance(body, dict) else []
    return [table for table in tables if isinstance(table, dict)]
