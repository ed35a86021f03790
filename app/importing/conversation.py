"""A conversation from elsewhere, whatever it was kept in; and what all readers need to make one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..saved.capture import SavedChat

Role = Literal["user", "assistant", "system", "note"]

MOST_BRANCHES = 100
"""Of one conversation, beside the one that was shown; a chat that was answered anew more often than that keeps its newest."""

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human", "prompter", "input", "customer"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "ai", "chatgpt", "claude", "bing", "bard", "output"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}

_LEFT_OUT = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "image_file": "image",
    "image_asset_pointer": "image",
    "audio": "audio",
    "input_audio": "audio",
    "audio_asset_pointer": "audio",
    "real_time_user_audio_video_asset_pointer": "audio and video",
    "video_container_asset_pointer": "video",
    "video": "video",
    "file": "file",
    "input_file": "file",
    "document": "file",
}
"""Kind of a part → what is said in its place."""


class NoChat(Exception):
    """A record is no conversation; says why, as the end of a sentence that begins with its place."""


@dataclass(slots=True)
class Message:
    """Something that was said. A note (a tool's output, a model's reasoning) is shown and not told to a model again."""

    role: Role
    text: str
    key: str = ""
    """Its id where it comes from; empty if it has none."""
    at: float | None = None
    """Seconds since 1970."""
    model: str = ""
    cut: bool = False
    """An answer that was cut off at a limit."""
    missing: int = 0
    """Images and files that are not in the text."""


@dataclass(slots=True)
class Conversation:
    """A conversation with all the ways it went."""

    origin: str
    """What it comes from, for people: ChatGPT, llm, …"""
    paths: list[list[Message]]
    """The way that was shown last, then the others; messages that ways share are the same objects."""
    key: str = ""
    """Its id where it comes from; empty if it has none."""
    title: str = ""
    created: float | None = None
    changed: float | None = None
    model: str = ""
    system: str = ""
    place: str = ""
    """Where it stands in the file."""
    saved: SavedChat | None = None
    """A chat of our own, runs and all; `paths` is empty."""
    left_out: int = 0
    """Ways beyond MOST_BRANCHES."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that could not be read: where it stands, and why, as the end of a sentence."""

    place: str
    why: str


@dataclass(slots=True)
class Content:
    """What a message's content says."""

    text: str = ""
    notes: list[str] = field(default_factory=list)
    missing: int = 0


def role_of(name: Any) -> Role:
    """Whose message it is, by the name that some program gave to that."""
    return _ROLES.get(name.strip().lower(), "note") if isinstance(name, str) else "note"


def text_of(value: Any) -> str:
    """A text where one belongs; empty if something else is there."""
    return value if isinstance(value, str) else ""


def time_of(value: Any) -> float | None:
    """A moment as seconds since 1970: a number of seconds or milliseconds, or ISO 8601 (UTC where it says no zone). None where
    it is no moment from 1970 until now."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value.strip())
            value = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if number > 1e11:
        number /= 1000
    return number if math.isfinite(number) and 0 < number <= time() + 86400 else None


def content_of(value: Any) -> Content:
    """What some content says: a text, or parts as OpenAI, Anthropic, ChatGPT and others write them. Of an image or a file a
    mark stays in the text."""
    found = Content()
    texts: list[str] = []
    for part in _parts(value):
        _take(part, found, texts)
    found.text = "\n".join(text for text in texts if text)
    return found


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case None:
            return ()
        case list():
            return value
        case {"parts": list() as parts}:
            return parts
    return (value,)


def _take(part: Any, found: Content, texts: list[str]) -> None:
    if isinstance(part, str):
        texts.append(part)
        return
    if not isinstance(part, dict):
        if part is not None:
            texts.append(compact(part))
        return
    kind = text_of(part.get("type")) or text_of(part.get("content_type"))
    if kind in _LEFT_OUT:
        name = next((text_of(place.get("filename")) for place in (part, part.get("file")) if isinstance(place, dict)), "")
        texts.append(f"[{_LEFT_OUT[kind]}{f' {name}' if name else ''}, not imported]")
        texts.append(text_of(part.get("transcript")))
        found.missing += 1
    elif kind in ("thinking", "reasoning", "thoughts"):
        found.notes.append(f"Reasoning: {text_of(part.get('thinking')) or words_in(part)}")
    elif kind in ("tool_use", "function_call", "tool_call"):
        found.notes.append(called(part.get("name"), part.get("input", part.get("arguments"))))
    elif kind in ("tool_result", "function_call_output"):
        found.notes.append(f"Tool: {words_in(part)}")
    else:
        texts.append(words_in(part))


def words_in(part: Any) -> str:
    """All that a part says in words."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "\n".join(filter(None, map(_shallow, part)))
    return _shallow(part)


def _shallow(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    for key in ("text", "value", "content", "refusal", "transcript", "result", "output", "summary"):
        value = part.get(key)
        if isinstance(value, dict):  # Assistants: {"text": {"value": …}}
            value = value.get("value")
        if isinstance(value, list):
            value = "\n".join(text_of(item if isinstance(item, str) else _field(item, "text")) for item in value)
        if isinstance(value, str) and value:
            return value
    kind = text_of(part.get("type")) or text_of(part.get("content_type"))
    return f"[{kind}, not imported]" if kind else ""


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def called(name: Any, arguments: Any) -> str:
    """A sentence on a tool that a model called."""
    given = arguments if isinstance(arguments, str) else compact(arguments) if arguments is not None else ""
    return f"Called {text_of(name) or 'a tool'}({given})"


def compact(value: Any) -> str:
    """A value as JSON on a line."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError, TypeError):
        return ""


def notes_of(found: Content, at: float | None = None, key: str = "") -> list[Message]:
    """The notes of a content, as messages."""
    return [Message("note", text, f"{key}/{i}" if key else "", at) for i, text in enumerate(found.notes)]
