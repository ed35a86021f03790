"""ChatGPT's export: conversations.json, each with a tree of messages (`mapping`) and the end of the way that is shown."""

from __future__ import annotations

from typing import Any

from .conversation import (
    MOST_BRANCHES,
    Conversation,
    Message,
    NoChat,
    called,
    content_of,
    role_of,
    text_of,
    time_of,
    words_in,
)

ORIGIN = "ChatGPT"

_CUT = ("max_tokens", "length")


def read_chatgpt(record: dict[str, Any], place: str) -> Conversation:
    """A conversation of the export.

    Raises:
        NoChat: nothing was said in it, or it is damaged.
    """
    nodes = {key: node for key, node in record["mapping"].items() if isinstance(node, dict)}
    said = {key: _messages(node, key) for key, node in nodes.items()}
    shown = record.get("current_node")
    ends = _ends(nodes, said)
    if isinstance(shown, str) and shown in nodes:
        ends = [shown, *(end for end in ends if end != shown and not _above(nodes, end, shown))]
    paths: list[list[Message]] = []
    for end in ends[: MOST_BRANCHES + 1]:
        path = [message for key in _way(nodes, end) for message in said[key]]
        # Ways that differ only in what is not shown are the same one.
        if any(message.role in ("user", "assistant") for message in path) and not any(_begins(other, path) for other in paths):
            paths.append(path)
    if not paths:
        raise NoChat("has no message in it" if nodes else "has an empty mapping")
    return Conversation(
        ORIGIN,
        paths,
        text_of(record.get("conversation_id")) or text_of(record.get("id")),
        text_of(record.get("title")),
        time_of(record.get("create_time")),
        time_of(record.get("update_time")),
        next((message.model for message in reversed(paths[0]) if message.model), text_of(record.get("default_model_slug"))),
        place=place,
        left_out=max(0, len(ends) - MOST_BRANCHES - 1),
    )


def _ends(nodes: dict[str, Any], said: dict[str, list[Message]]) -> list[str]:
    """Nodes without a child, the newest first."""
    parents = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
    ends = [key for key in nodes if key not in parents]
    return sorted(ends, key=lambda key: max((message.at or 0.0 for message in said[key]), default=0.0), reverse=True)


def _way(nodes: dict[str, Any], end: str) -> list[str]:
    """The nodes from the root to one."""
    way: list[str] = []
    seen: set[str] = set()
    key: Any = end
    while isinstance(key, str) and key in nodes and key not in seen:  # a damaged tree may go round in circles
        seen.add(key)
        way.append(key)
        key = nodes[key].get("parent")
    return way[::-1]


def _above(nodes: dict[str, Any], node: str, below: str) -> bool:
    return node in _way(nodes, below)


def _begins(path: list[Message], beginning: list[Message]) -> bool:
    return len(path) >= len(beginning) and all(a is b for a, b in zip(path, beginning, strict=False))


def _messages(node: dict[str, Any], key: str) -> list[Message]:
    """What is said at a node: notes, then the message itself."""
    message = node.get("message")
    if not isinstance(message, dict):
        return []
    author, meta = _table(message, "author"), _table(message, "metadata")
    given = message.get("content")
    content: dict[str, Any] = given if isinstance(given, dict) else {"parts": [given] if given is not None else []}
    kind = text_of(content.get("content_type"))
    at = time_of(message.get("create_time"))
    if kind == "user_editable_context":
        return _instructions(content, key, at)
    if meta.get("is_visually_hidden_from_conversation") or message.get("weight") == 0:
        return []
    role, name = role_of(author.get("role")), text_of(author.get("name"))
    recipient = text_of(message.get("recipient")) or "all"
    found = content_of(content)
    notes = [Message("note", text, f"{key}/{i}", at) for i, text in enumerate(found.notes)]
    text = found.text
    if kind == "reasoning_recap" or kind == "thoughts":
        text = _thoughts(content) if kind == "thoughts" else words_in(content)
        notes, role = [], "note"
    elif kind == "code" and role == "assistant" and recipient == "all":
        language = text_of(content.get("language"))
        text = f"```{'' if language == 'unknown' else language}\n{text}\n```"
    elif role == "assistant" and recipient != "all":
        text, role = called(recipient, text), "note"
    elif role == "note" and text.strip():
        text = f"{name or text_of(author.get('role')) or 'Tool'}: {text}"
    if not text.strip():
        return notes
    reason = text_of(_table(meta, "finish_details").get("type"))
    model = text_of(meta.get("model_slug")) if role == "assistant" else ""
    return [*notes, Message(role, text, key, at, model, reason in _CUT, found.missing)]


def _instructions(content: Any, key: str, at: float | None) -> list[Message]:
    """The custom instructions, which ChatGPT keeps in a message of their own."""
    parts = [text_of(content.get(part)) for part in ("user_profile", "user_instructions")]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    return [Message("system", text, key, at)] if text else []


def _thoughts(content: Any) -> str:
    thoughts = content.get("thoughts")
    texts = [words_in(thought) for thought in thoughts] if isinstance(thoughts, list) else [words_in(content)]
    text = "\n".join(filter(None, texts))
    return f"Reasoning: {text}" if text else ""


def _table(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}
