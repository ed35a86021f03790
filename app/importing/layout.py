"""Our entries out of a conversation: prompts, answers and notices, in an order that a model can go on from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ..chat.entries import Answer, Entry, Notice, Prompt
from ..text.cells import fit, one_line
from .conversation import Conversation, Message, Role

DONE, CUT = "imported", "imported, cut off at its limit"
"""Why an answer from elsewhere ended, as far as that is known."""

NAME_CELLS = 60
"""Longest name of a model."""


@dataclass(slots=True)
class Item:
    """An entry, by what it is known again, and when it was said."""

    entry: Entry
    key: bytes
    at: float | None = None
    missing: int = 0
    """Images and files that are only marked in the text."""


@dataclass(slots=True)
class Way:
    """One way that a conversation went, as our chat."""

    items: list[Item]
    system: str


@dataclass(slots=True)
class _Group:
    """Messages of one side that follow each other: many models want the sides to take turns."""

    role: Role
    messages: list[Message] = field(default_factory=list)
    before: list[Message] = field(default_factory=list)


def ways(conversation: Conversation) -> Iterator[Way]:
    """The ways of a conversation, the one that was shown first."""
    if conversation.saved is not None:
        yield _own(conversation)
        return
    head = _head(conversation)
    for path in conversation.paths:
        yield _way(conversation, path, head)


def _head(conversation: Conversation) -> Item:
    by = f", {name}" if (name := fit(one_line(conversation.model), NAME_CELLS)) else ""
    text = f"Imported from {conversation.origin}{by}. How the answers were decoded is not known, so they have no run colours."
    return Item(Notice(text), _key(_root(conversation), "head", ""), conversation.created)


def _way(conversation: Conversation, path: Sequence[Message], head: Item) -> Way:
    systems: list[str] = [conversation.system] if conversation.system.strip() else []
    groups: list[_Group] = []
    waiting: list[Message] = []
    for message in path:
        if message.role == "system" and not groups:
            systems.append(message.text)
        elif message.role in ("system", "note"):
            waiting.append(message)
        elif groups and groups[-1].role == message.role:
            groups[-1].messages.append(message)
            groups[-1].before += waiting
            waiting = []
        else:
            groups.append(_Group(message.role, [message], waiting))
            waiting = []
    items = [head]
    root = parent = _root(conversation)
    for group in groups:
        items += [_note(conversation, root, parent, note) for note in group.before]
        text = "\n\n".join(message.text for message in group.messages)
        keys = [message.key for message in group.messages]
        if all(keys):
            key = _key(root, group.role, "\0".join(keys))
        else:
            key = _key(parent, group.role, text)
        parent = key
        missing = sum(message.missing for message in group.messages)
        items.append(Item(_entry(conversation, group, text), key, group.messages[0].at, missing))
    items += [_note(conversation, root, parent, note) for note in waiting]
    return Way(items, "\n\n".join(systems))


def _entry(conversation: Conversation, group: _Group, text: str) -> Entry:
    if group.role == "user":
        return Prompt(text)
    name = next((message.model for message in reversed(group.messages) if message.model), conversation.model)
    answer = Answer(fit(one_line(name), NAME_CELLS) or conversation.origin, "")
    answer.finish(CUT if group.messages[-1].cut else DONE, text)
    return answer


def _note(conversation: Conversation, root: bytes, parent: bytes, note: Message) -> Item:
    text = f"System prompt from here on: {note.text}" if note.role == "system" else note.text
    key = _key(root, "note", note.key) if note.key else _key(parent, "note", text)
    return Item(Notice(text), key, note.at)


def _own(conversation: Conversation) -> Way:
    assert conversation.saved is not None
    transcript = conversation.saved.transcript
    items: list[Item] = []
    parent = _key(b"", "specchat", "\0".join((conversation.saved.saved, transcript.system or "")))
    for entry in transcript.entries:
        if isinstance(entry, Answer) and not entry.done:
            entry.finish("unfinished")
        parent = _key(parent, type(entry).__name__, entry.text)
        items.append(Item(entry, parent, conversation.created))
    return Way(items, transcript.system or "")


def _root(conversation: Conversation) -> bytes:
    """What all keys of a conversation begin with. One without an id is known by all that it says: should it have grown, it is
    another one."""
    if conversation.key:
        return _key(conversation.origin.encode(), "id", conversation.key)
    root = conversation.origin.encode()
    for path in conversation.paths:
        root = _key(root, "path", conversation.title)
        for message in path:
            root = _key(root, message.role, message.text)
    return root


def _key(parent: bytes, kind: str, text: str) -> bytes:
    made = blake2b(parent, digest_size=16)
    made.update(f"\0{kind}\0".encode())
    made.update(text.encode("utf-8", "surrogatepass"))
    return made.digest()
