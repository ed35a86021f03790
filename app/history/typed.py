"""Messages sent in earlier chats, for the up key, and unsent text: both survive the end of the program."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import UserError

if TYPE_CHECKING:
    from .store import Store

MOST_MESSAGES = 1000
"""Most messages that are kept."""

MOST_CHARACTERS = 30_000
"""Most characters of a message with its pastes; a longer one is kept while its chat is open."""

NEW = 0
"""Id of a chat that the history does not have yet."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed message."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)
    """Placeholder in the text → the long paste that it stands for."""

    @property
    def body(self) -> dict[str, Any]:
        return {"text": self.text, "pastes": {chip: text for chip, text in self.pastes.items() if chip in self.text}}


Typing: TypeAlias = tuple[int, dict[int, list[Typed]]]
"""Id of the chat on the screen, and the unsent messages by chat."""


@contextmanager
def _changing(path: Path | None) -> Iterator[Store]:
    """Open the database in a transaction."""
    import sqlite3

    from .store import Store, trouble  # after the first frame: SQLite takes 5 ms

    with Store(path) as store:
        try:
            with store.transaction():
                yield store
        except (sqlite3.Error, OSError) as error:
            raise UserError(trouble(error, store.path)) from None


def _dumped(body: Any) -> str:
    # Half a character, which SQLite cannot store, becomes a question mark.
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace").decode()


def sent_before(path: Path | None = None) -> list[Typed]:
    """Return the sent messages, oldest first, none twice in a row.

    Raises:
        UserError: the history cannot be read.
    """
    with _changing(path) as store:
        bodies = store.db.execute("SELECT json FROM sent ORDER BY id").fetchall()
    messages = [Typed(**json.loads(body)) for (body,) in bodies]
    return [[*same][-1] for _, same in groupby(messages, key=lambda message: message.text)]


def keep_sent(typed: Typed, path: Path | None = None) -> None:
    """Add a sent message, unless it is too long.

    Raises:
        UserError: the history cannot be written.
    """
    body = _dumped(typed.body)
    if len(body) <= MOST_CHARACTERS:
        with _changing(path) as store:
            store.db.execute("INSERT INTO sent (json) VALUES (?)", (body,))
            store.db.execute("DELETE FROM sent WHERE id <= (SELECT max(id) FROM sent) - ?", (MOST_MESSAGES,))


def step_back(history: list[str], at: int, prefix: str, step: int) -> int | None:
    """Find the next message that begins with the typed text, in steps of −1 (older ones) or 1 from index `at`, which is
    `len(history)` for the unsent text; None if there is none. `history` has the oldest first."""
    numbers = range(at + step, len(history) if step > 0 else -1, step)
    return next((number for number in numbers if history[number].startswith(prefix)), None)


class Drafts:
    """The unsent text of this specchat, a row of the database, and that of others that have ended.

    A row's owner is the id of a process, and the time as a process may get the id of one that has ended.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.by_chat: dict[int, list[Typed]] = {}
        """Chat id or NEW → its unsent messages, the text in the input box last."""
        self._owner = f"{os.getpid()} {time_ns()}"
        self._lock = threading.Lock()
        self._closed = False

    def typing(self, current: int) -> Typing:
        """Return the unsent text, as `write` takes it; `current` is the chat on the screen."""
        return current, {chat: messages for chat, messages in self.by_chat.items() if messages}

    def take_over(self) -> list[Typed]:
        """Take over the unsent text of specchats that have ended, as this one's.

        Returns:
            the messages that were on their screens or in new chats, oldest first.

        Raises:
            UserError: the history cannot be written.
        """
        last: list[Typed] = []
        with _changing(self.path) as store:
            for owner, body in store.db.execute("SELECT owner, json FROM drafts ORDER BY rowid").fetchall():
                if not _runs(int(owner.split()[0])):
                    current, drafts = json.loads(body)
                    by_chat = {int(chat): [Typed(**message) for message in messages] for chat, messages in drafts.items()}
                    last += by_chat.pop(current, []) + by_chat.pop(NEW, [])
                    self.by_chat |= by_chat
                    store.db.execute("DELETE FROM drafts WHERE owner = ?", (owner,))
            self.by_chat[NEW] = last
            self._put(store, self.typing(NEW))
        return last

    def write(self, typing: Typing, last: bool = False) -> None:
        """Write the unsent text, from any thread; `last` for the end of the program, after which nothing is written.

        Raises:
            UserError: the history cannot be written.
        """
        with self._lock:
            if not self._closed:
                self._closed = last  # text that a thread has yet to write is older
                with _changing(self.path) as store:
                    self._put(store, typing)

    def _put(self, store: Store, typing: Typing) -> None:
        current, drafts = typing
        store.db.execute("DELETE FROM drafts WHERE owner = ?", (self._owner,))
        if drafts:
            body = [current, {chat: [message.body for message in messages] for chat, messages in drafts.items()}]
            store.db.execute("INSERT INTO drafts VALUES (?, ?)", (self._owner, _dumped(body)))


def _runs(process: int) -> bool:
    """Whether a process other than this one is running."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return process != os.getpid()
