"""What a server's error says: its words, its status and its kind, in whatever shape and with whatever names it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_INSIDE = ("error", "errors", "fault", "exception", "base_resp", "Error")
"""Where engines and gateways put an error."""
_WORDS = (
    *("message", "msg", "detail", "details", "error_description", "error_message", "error_msg", "errorMessage"),
    *("Message", "description", "faultstring", "status_msg", "reason", "title"),
)
"""What they call its words."""
_KINDS = ("type", "code", "error_type", "error_code", "status", "kind", "__type", "error")
"""What they call its kind."""
_STATUS = ("code", "status", "status_code", "statusCode", "http_status", "http_code", "error_code")
"""What they call its status."""
ANSWERED = ("choices", "usage", "timings", "prompt_progress", "delta", "content", "text", "response")
"""What a body has that is no error, whatever else it says."""

DEEPEST = 8
"""Errors within errors that are looked into."""

FULL = re.compile(
    r"exceed_context|context_length|context[ _-]?(length|window|size|limit|overflow|shift)|exceed\w* [^.]{0,60}context"
    r"|context [^.]{0,20}overflow|(prompt|input|request|message)s?\b[^.]{0,40}\b(is|are|was) (too (long|large)|longer than)"
    r"|longer than the (model|maximum)|too many (input |prompt )?tokens|reduce the length|tokens_limit_reached"
    r"|input ?length ?exceeded|input tokens exceeded|`?inputs`? (tokens|must have)"
    r"|(prompt|input)[^.]{0,40}(exceeds?|greater than)[^.]{0,40}(max|limit|length)"
    r"|maximum (number of (input )?tokens|(prompt|input) length)"
    r"|model(?:'s)? (maximum )?token limit|session_len|max_tokens must be at least 1, got (0|-)",
    re.IGNORECASE,
)
"""How engines say that the prompt does not fit."""

_BY_KIND = (
    (429, r"rate.?limit|quota|too.?many.?requests|throttl|resource_?exhausted"),
    (401, r"authenticat|unauthori[sz]ed|invalid.?api.?key|incorrect.?api.?key"),
    (403, r"permission|forbidden|access.?denied"),
    (404, r"model.?not.?found|not.?found.?error|does not exist"),
    (503, r"overload|unavailable|loading.?model|not.?ready"),
    (400, r"invalid.?(request|argument|parameter|input)|bad.?request|validation"),
)
"""Status of an error that tells none, by its kind or words."""


def words_of(body: Any, depth: int = 0) -> str:
    """The words of an error; empty where it has none, or a web page."""
    if depth > DEEPEST:
        return ""
    if isinstance(body, str):
        text = body.strip()
        if text[:1] in ("{", "[") and not isinstance(inner := _parsed(text), str):  # a gateway quotes the engine's whole body
            return words_of(inner, depth + 1) or text
        return "" if text[:1] == "<" else text
    if isinstance(body, list):
        return "; ".join(dict.fromkeys(filter(None, (words_of(each, depth + 1) for each in body[:3]))))
    if not isinstance(body, dict):
        return ""
    said = next(filter(None, (words_of(body.get(name), depth + 1) for name in (*_INSIDE, *_WORDS))), "")
    if isinstance(where := body.get("loc"), list) and said:  # pydantic's
        said = f"{'.'.join(str(each) for each in where if each != 'body')}: {said}"
    more = body.get("metadata")
    raw = words_of(more.get("raw"), depth + 1) if isinstance(more, dict) else ""  # OpenRouter's of the provider behind it
    return f"{said}: {raw}" if raw and said else said or raw


def kinds_of(body: Any) -> str:
    """The names that an error has for its kind."""
    return " ".join(value for table in _tables(body) for name in _KINDS if isinstance(value := table.get(name), str))


def status_of(body: Any) -> int:
    """The status that an error in a stream stands for; a failure of the server's own if it does not say."""
    for table in _tables(body):
        for name in _STATUS:
            if told := re.match(r"\s*([45]\d\d)(?!\d)", str(table.get(name))):  # a text, maybe with words behind it
                return int(told[1])
    for said in (kinds_of(body), words_of(body)):
        if found := next((status for status, words in _BY_KIND if re.search(words, said, re.IGNORECASE)), 0):
            return found
    return 500


def is_full(body: Any) -> bool:
    """Whether an error says that the prompt does not fit into the context."""
    return bool(FULL.search(_all_of(body))) and not is_limited(body)


def is_limited(body: Any) -> bool:
    """Whether it says that there are too many requests, or tokens a minute."""
    return re.search(r"rate.?limit|per.?min|quota", _all_of(body), re.IGNORECASE) is not None


def is_unpaid(body: Any) -> bool:
    """Whether it says that somebody has to pay."""
    return re.search(r"insufficient.{0,3}(quota|credit|balance|fund)|billing|payment", _all_of(body), re.IGNORECASE) is not None


def _all_of(body: Any) -> str:
    return f"{kinds_of(body)} {words_of(body)}"


def numbers_of(body: Any) -> tuple[int | None, int | None]:
    """Tokens that were sent and that fit, where llama-server tells them."""
    found: list[int | None] = []
    for name in ("n_prompt_tokens", "n_ctx"):
        values = (table.get(name) for table in _tables(body))
        found.append(next((each for each in values if isinstance(each, int) and 0 < each < 2**31), None))
    return found[0], found[1]


def error_in(body: Mapping[str, Any], choice: Mapping[str, Any], event: str) -> Any:
    """The error that an event of a stream tells; None for none.

    Args:
        body: of the event.
        choice: the part of it with the answer.
        event: its name.
    """
    for table in (body, choice, choice.get("delta")):
        if not isinstance(table, dict):
            continue
        for name in ("error", "errors", "fault"):
            if not (found := table.get(name)):
                continue
            if found is True or isinstance(found, str | list):
                return dict(table)
            if isinstance(found, dict) and (words_of(found) or kinds_of(found)):
                return dict(table)
    base = body.get("base_resp")  # MiniMax's
    if isinstance(base, dict) and base.get("status_code"):
        return body
    named = event in ("error", "exception") or "error" in (body.get("object"), body.get("type"), body.get("status"))
    if named or (not body.get("choices") and not any(body.get(name) for name in ANSWERED) and words_of(body)):
        return dict(body)
    return None


def _tables(body: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A body and the errors within it, the innermost first."""
    if isinstance(body, list):
        for each in body[:3]:
            yield from _tables(each, depth + 1)
    if isinstance(body, dict) and depth <= DEEPEST:
        for name in (*_INSIDE, "detail", "message"):
            yield from _tables(body.get(name), depth + 1)
        yield body


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
