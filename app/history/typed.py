"""Messages sent in earlier chats, for the up key, and unsent text: both survive the end of the program."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ... import plain_file
from ...errors import UserError
from ..settings.locations import data_folder
from ..text.cells import has_words
from .schema import stored

if TYPE_CHECKING:
    from .store import Identity, Store

MOST_MESSAGES = 1000
"""Most messages that are kept."""

MOST_CHARACTERS = 1_000_000
"""Most characters of all kept messages: the oldest go."""

MOST_ONE = 100_000
"""Most characters of a message with its pastes; a longer one is kept while its chat is open."""

NEW = 0
"""Id of a chat that the history does not have yet."""

_OLD = f"""DELETE FROM sent WHERE id IN (SELECT id FROM (
    SELECT id, row_number() OVER newest AS number, sum(length(json)) OVER newest AS size FROM sent
    WINDOW newest AS (ORDER BY id DESC)
) WHERE number > {MOST_MESSAGES} OR size > {MOST_CHARACTERS})"""


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed message."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)
    """Placeholder in the text → the long paste that it stands for."""

    @property
    def body(self) -> dict[str, Any]:
        return {"text": self.text, "pastes": {chip: text for chip, text in self.pastes.items() if chip in self.text}}


def sent_before(path: Path | None = None) -> list[Typed]:
    """Return the sent messages, oldest first, none twice in a row.

    Raises:
        UserError: the history cannot be read.
    """
    from .chats import reading

    with reading(path) as chats:
        bodies = chats.store.db.execute("SELECT json FROM sent ORDER BY id").fetchall()
    messages = [Typed(**json.loads(body)) for (body,) in bodies]
    return [[*same][-1] for _, same in groupby(messages, key=lambda message: message.text)]


def keep_sent(typed: Typed, path: Path | None = None) -> None:
    """Add a sent message, unless it is too long.

    Raises:
        UserError: the history cannot be written.
    """
    body = _dumped(typed.body)
    if len(body) <= MOST_ONE:
        with _changing(path) as store:
            store.db.execute("INSERT INTO sent (json) VALUES (?)", (body,))
            store.db.execute(_OLD)


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


def matching(history: Iterable[str], query: str, most: int = 200) -> list[str]:
    """Return the messages that have every word of a query, newest first, each once."""
    out: dict[str, None] = {}
    for text in reversed(list(history)):
        if text not in out and has_words(text, query):
            out[text] = None
            if len(out) == most:
                break
    return list(out)


def step_back(history: list[str], at: int, prefix: str, step: int) -> int | None:
    """Find the next message that begins with the typed text; None if there is none.

    Args:
        history: messages, oldest first.
        at: current index; `len(history)` for the unsent text.
        prefix: the typed text; an empty one matches every message.
        step: −1 for older ones, 1 for newer ones.
    """
    to = at + step
    while 0 <= to < len(history):
        if history[to].startswith(prefix):
            return to
        to += step
    return None


Typing: TypeAlias = tuple[int, dict[int, list[Typed]]]
"""Id of the chat on the screen, and the unsent messages by chat."""


class Drafts:
    """The unsent text of this specchat, a row of the database, and that of others that have ended.

    A running specchat holds a lock on a byte of a file next to the database: the byte at its row's id.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.by_chat: dict[int, list[Typed]] = {}
        """Chat id or NEW → its unsent messages, the text in the input box last."""
        self._row: int | None = None
        self._identity: Identity | None = None
        self._locks = -1
        self._lock = threading.Lock()
        self._closed = False

    def typing(self, current: int) -> Typing:
        """Return the unsent text, as `write` takes it; `current` is the chat on the screen."""
        return current, {chat: messages for chat, messages in self.by_chat.items() if messages}

    def take_over(self) -> list[Typed]:
        """Adopt the unsent text of specchats that have ended; returns that of their input boxes, oldest first.

        Raises:
            UserError: the history cannot be written.
        """
        last: list[Typed] = []
        with _changing(self.path) as store:
            for row, body in store.db.execute("SELECT id, json FROM drafts ORDER BY id").fetchall():
                if self._hold(row):
                    current, drafts = json.loads(body)
                    by_chat = {int(chat): [Typed(**message) for message in messages] for chat, messages in drafts.items()}
                    last += by_chat.pop(current, []) + by_chat.pop(NEW, [])
                    self.by_chat |= by_chat
                    store.db.execute("DELETE FROM drafts WHERE id = ?", (row,))
            if last or self.by_chat:
                self.by_chat[NEW] = last
                self._put(store, self.typing(NEW))
        return last

    def write(self, typing: Typing) -> None:
        """Write the unsent text, from any thread; without effect after `close`.

        Raises:
            UserError: the history cannot be written.
        """
        with self._lock:
            if not self._closed:
                self._write(typing)

    def close(self, typing: Typing | None = None) -> None:
        """Write the last of the unsent text, and release it for the next specchat.

        Raises:
            UserError: the history cannot be written.
        """
        with self._lock:  # text that a thread has yet to write is older
            self._closed = True
            try:
                if typing is not None:
                    self._write(typing)
            finally:
                if self._locks >= 0:
                    os.close(self._locks)
                    self._locks = -1

    def _write(self, typing: Typing) -> None:
        if typing[1] or self._row is not None:
            with _changing(self.path) as store:
                self._put(store, typing)

    def _put(self, store: Store, typing: Typing) -> None:
        current, drafts = typing
        if store.identity != self._identity:
            self._row = None
            self._identity = store.identity
        if not drafts:
            store.db.execute("DELETE FROM drafts WHERE id = ?", (self._row,))
            return
        body = _dumped([current, {chat: [message.body for message in messages] for chat, messages in drafts.items()}])
        upsert = "INSERT INTO drafts VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET json = ?2"
        if self._row is None:
            self._row = store.db.execute(upsert, (None, body)).lastrowid
            self._hold(self._row or 0)
        else:
            store.db.execute(upsert, (self._row, body))

    def _hold(self, row: int) -> bool:
        """Lock a row until this specchat ends; False if a running one has it locked."""
        if self._locks < 0:
            file = (self.path.parent if self.path else data_folder()) / "typing.lock"
            plain_file.databases.add(file)
            self._locks = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
        except OSError:
            return False
        return True


def _dumped(body: Any) -> str:
    return stored(json.dumps(body, ensure_ascii=False))
