"""One event of a server's stream as checked data: engines name the same things differently, and any of it may be wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .connection import count, number
from .refusals import error_in

NO_ID = -1
"""In place of a token's id where the server does not send it."""

THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thought", "reasoning_text", "reasoning_details")
"""What engines call the thinking; some send it under two names at once."""
PARTS = ("text", "content", "value", "thinking", "reasoning", "refusal", "summary", "parts", "transcript")
"""What holds the text of a part of a content."""
GOES_ON = ("", "null", "none", "false", "unspecified", "finish_reason_unspecified", "in_progress")
"""Words in place of a finish reason while there is none."""


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
    """May begin or end with half a character."""
    thought: str = ""
    """Text that the server's parser took for thinking."""
    under: str = ""
    """The field that the thinking came in."""
    whole: bool = False
    """The text is that of the whole answer, not what follows."""
    called: str = ""
    """The tool that the model begins to call."""
    index: int | None = None
    """Which of several answers it is of."""
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


def parse(body: Any, event: str = "") -> Chunk:
    """The chunk in an event.

    Args:
        body: its JSON.
        event: its name.

    Raises:
        ValueError: it is no JSON object.
    """
    if not isinstance(body, dict):
        raise ValueError("not an object")
    choice = _choice(body)
    try:
        text, thought, called, under = _written(choice)
        error = error_in(body, choice, event)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    usage, verbose = _table(body.get("usage")), _table(body.get("__verbose"))
    details = _table(usage.get("prompt_tokens_details"))
    prompt_ids = _ids(body.get("prompt_token_ids", choice.get("prompt_token_ids"))) or ()
    finish = _finish(choice)
    return Chunk(
        text=text,
        thought=whole(thought),
        under=under,
        whole=bool(not choice.get("delta") and choice.get("message") and (finish or body.get("object") == "chat.completion")),
        called=whole(called),
        index=count(choice.get("index")),
        ids=_ids(choice.get("token_ids", verbose.get("tokens") if "text" in choice else None)),
        timings=_timings(body.get("timings", verbose.get("timings"))),
        tokens=count(usage.get("completion_tokens", usage.get("output_tokens"))),
        prompt=count(usage.get("prompt_tokens", usage.get("input_tokens"))) or len(prompt_ids) or None,
        prompt_ids=prompt_ids,
        cached=count(details.get("cached_tokens")),
        finish=finish,
        stopped=isinstance(choice.get("stop_reason"), str) or verbose.get("stop_type") == "word",
        truncated=verbose.get("truncated") is True,
        speculation=_speculation(body, choice),
        progress=_progress(body.get("prompt_progress")),
        error=error,
    )


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a body with the answer: the first of its choices, or itself."""
    choices = body.get("choices")
    if isinstance(choices, dict):
        return choices
    rows = [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    if rows:
        return min(rows, key=lambda row: count(row.get("index")) or 0)
    return {} if "choices" in body else body


def _written(choice: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Text, thinking, the tool that begins to be called, and the field that the thinking is in."""
    part = choice.get("delta") or choice.get("message") or choice
    if not isinstance(part, dict):
        return said(part) if part is not choice.get("message") else "", "", "", ""
    text, thought = parts_of(part.get("content"))
    text += said(part.get("refusal")) + said(_table(part.get("audio")).get("transcript"))
    text = text or said(choice.get("text")) or said(choice.get("response"))
    under = "content" if thought else ""
    if not thought and (under := next((name for name in THOUGHTS if part.get(name)), "")):
        thought = "".join(parts_of(part[under]))
    called, calls = "", part.get("tool_calls") or part.get("function_call") or []
    for call in calls if isinstance(calls, list) else [calls]:
        function = _table(_table(call).get("function")) or _table(call)
        if name := said(function.get("name")):
            text += f"{chr(10) if text else ''}{name} "
            called = ", ".join(filter(None, (called, name)))
        arguments = function.get("arguments")
        text += json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else said(arguments)
    return text, thought, called, under


def parts_of(value: object) -> tuple[str, str]:
    """Text and thinking of a content: a text, a part of one, or a list of parts."""
    if isinstance(value, str):
        return said(value), ""
    if isinstance(value, list):
        pairs = [parts_of(each) for each in value]
        return "".join(text for text, _ in pairs), "".join(thought for _, thought in pairs)
    if not isinstance(value, dict):
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else "", ""
    text, thought = parts_of(next((found for name in PARTS if (found := value.get(name))), ""))
    kind = value.get("type")
    thinks = isinstance(kind, str) and ("think" in kind or "reason" in kind)
    return ("", text + thought) if thinks else (text, thought)


def said(value: object) -> str:
    """Text, and nothing of what is none."""
    return value if isinstance(value, str) else ""


def whole(text: str) -> str:
    """A text whose halves of characters, which JSON can name, are put together; those without another half become U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finish(choice: Mapping[str, Any]) -> str:
    """Why the answer ended, in the server's word; empty while it has not."""
    for name in ("finish_reason", "finish_details", "done_reason", "stop_type", "native_finish_reason"):
        value = choice.get(name)
        if value is None:
            continue
        value = value[0] if isinstance(value, list) and value else _table(value).get("type", value)
        word = str(value).rpartition(".")[2].strip()  # some have the name of Python's class before it
        if word.lower() not in GOES_ON:
            return word
    return "stop" if choice.get("done") is True else ""


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
