"""Errors of servers: their text, their status, and whether the prompt is too long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from .values import count, dig, string, tables

TEXT_FIELDS = ("error", "message", "detail", "msg")
"""Fields with the text of an error: OpenAI's, then those of Python servers."""

ANSWER_FIELDS = {"choices", "usage", "timings", "prompt_progress"}
"""Fields that make a body without an explicit error an answer."""

LONGEST_WAIT = 86_400.0
"""Most seconds that a server may ask to wait."""

DEEPEST = 4
"""Most errors nested in each other that are read."""

FULL = re.compile(
    r"exceed_context|context_length_exceeded|maximum context length|longer than the model'?s|available context size"
    r"|max_tokens must be at least 1, got (0|-)",
    re.IGNORECASE,
)
"""Wordings of llama-server, vLLM, SGLang, Ollama and OpenAI for a prompt that does not fit."""


def error_text(body: Any, depth: int = 0) -> str:
    """Extract the text of an error; of a body that is no JSON its first line."""
    if isinstance(body, str):
        return next(iter(body.strip().splitlines()), "")
    if isinstance(body, list):
        return "; ".join(dict.fromkeys(filter(None, (error_text(row, depth) for row in body[:3]))))
    if not isinstance(body, dict) or depth > DEEPEST:
        return ""
    text = next(filter(None, (error_text(body.get(name), depth + 1) for name in TEXT_FIELDS)), "")
    place = body.get("loc")  # pydantic's
    if not text or not isinstance(place, list):
        return text
    return f"{'.'.join(str(part) for part in place if part != 'body')}: {text}"


def error_status(body: Any) -> int:
    """Return the HTTP status that an error in a stream names; 500 if it names none."""
    code = next((table["code"] for table in _errors(body) if "code" in table), None)
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def parse_wait(headers: Mapping[str, str], body: Any) -> float:
    """Return the seconds that a server asks to wait; 0 if it names none, or more than a day."""
    delays = [detail.get("retryDelay") for table in _errors(body) for detail in tables(table.get("details"))]  # Gemini: "34s"
    waits = [_seconds(headers.get("Retry-After-Ms")) / 1000]
    waits += map(_seconds, (headers.get("Retry-After"), *delays))
    return next((seconds for seconds in waits if 0 < seconds <= LONGEST_WAIT), 0.0)


def _seconds(value: object) -> float:
    """Return the seconds that a text names, as a number or as the date of their end; 0 for anything else."""
    text = string(value)
    try:
        return float(text.strip().removesuffix("s"))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(text)
        return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):  # a year or a zone can have any number of digits
        return 0.0


def is_context_full(body: Any) -> bool:
    """Return whether an error says that the prompt does not fit in the context."""
    kinds = [str(table.get(name)) for table in _errors(body) for name in ("type", "code")]
    return bool(FULL.search(" ".join([*kinds, error_text(body)])))


def prompt_sizes(body: Any) -> list[int | None]:
    """Return the tokens of the prompt and of the context, as llama-server sends them with an error."""
    rows = ((count(table.get(name)) for table in _errors(body)) for name in ("n_prompt_tokens", "n_ctx"))
    return [next(filter(None, sizes), None) for sizes in rows]


def find_error(body: Mapping[str, Any]) -> Any:
    """Return the error in an event of a stream; None if there is none."""
    failed = body.get("error") or body.get("object") == "error" or not ANSWER_FIELDS & body.keys()
    return dict(body) if failed and error_text(body) else None


def _errors(body: Any) -> list[Mapping[str, Any]]:
    """List the tables of an error, the inner one first."""
    return tables([dig(body, "error"), body])
