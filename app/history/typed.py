"""Messages sent in earlier chats, for the up key, and the text being typed: both come back whatever ends the program."""

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

MOST = 1000
"""Messages that are kept."""

MOST_CHARACTERS = 1_000_000
"""Characters of all of them: the oldest go."""

MOST_ONE = 100_000
"""Characters of one message with what was pasted into it; a longer one is kept for as long as its chat is open."""

NEW = 0
"""Stands for a chat that the history does not have yet."""

_OLD = f"""DELETE FROM sent WHERE id IN (SELECT id FROM (
    SELECT id, row_number() OVER newest AS number, sum(length(json)) OVER newest AS size FROM sent
    WINDOW newest AS (ORDER BY id DESC)
) WHERE number > {MOST} OR size > {MOST_CHARACTERS})"""


@dataclass(frozen=True, slots=True)
class Typed:
    """A message as it was typed."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)
    """Placeholder in the text → the long paste that it stands for."""

    @property
    def body(self) -> dict[str, Any]:
        return {"text": self.text, "pastes": {chip: text for chip, text in self.pastes.items() if chip in self.text}}


def sent_before(path: Path | None = None) -> list[Typed]:
    """The messages that were sent, oldest first, none twice in a row.

    Raises:
        UserError: the history cannot be read.
    """
    from .chats import reading

    with reading(path) as chats:
        bodies = chats.store.db.execute("SELECT json FROM sent ORDER BY id").fetchall()
    typed = [Typed(**json.loads(body)) for (body,) in bodies]
    return [[*same][-1] for _, same in groupby(typed, key=lambda each: each.text)]


def keep_sent(typed: Typed, path: Path | None = None) -> None:
    """Add a message that was sent, unless it is too long.

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
    """The database, in a transaction."""
    import sqlite3

    from .store import Store, trouble  # the first frame need not wait for SQLite (5 ms)

    with Store(path) as store:
        try:
            with store.transaction():
                yield store
        except (sqlite3.Error, OSError) as error:
            raise UserError(trouble(error, store.path)) from None


def matching(history: Iterable[str], query: str, most: int = 200) -> list[str]:
    """The messages that have every word of a query, newest first, each once."""
    out: dict[str, None] = {}
    for text in reversed(list(history)):
        if text not in out and has_words(text, query):
            out[text] = None
            if len(out) == most:
                break
    return list(out)


def step_back(history: list[str], at: int, prefix: str, step: int) -> int | None:
    """The next message in a direction that begins with what was typed; None if there is none.

    Args:
        history: oldest first.
        at: where the walk is; `len(history)` for the draft.
        prefix: what was typed; with an empty one every message will do.
        step: −1 for older ones, 1 for newer ones.
    """
    to = at + step
    while 0 <= to < len(history):
        if history[to].startswith(prefix):
            return to
        to += step
    return None


Typing: TypeAlias = tuple[int, dict[int, list[Typed]]]
"""Number of the chat on the screen, and what is typed in each."""


class Drafts:
    """The drafts of this specchat, a row of the database; and those that others left, which have ended.

    A running one holds a lock on a byte of a file beside the database, the one of its row's number.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.by_chat: dict[int, list[Typed]] = {}
        """Number of a chat, or NEW → what was typed in it and is not sent, the text in the input box last."""
        self._row: int | None = None
        self._identity: Identity | None = None
        self._locks = -1
        self._lock = threading.Lock()
        self._closed = False

    def typing(self, shown: int) -> Typing:
        """Return the draft, as `write` takes it; `shown` is the chat on the screen."""
        return shown, {number: typed for number, typed in self.by_chat.items() if typed}

    def take_over(self) -> list[Typed]:
        """Take what others left; what was in the box when each of them ended, oldest first.

        Raises:
            UserError: the history cannot be written.
        """
        last: list[Typed] = []
        with _changing(self.path) as store:
            for row, body in store.db.execute("SELECT id, json FROM drafts ORDER BY id").fetchall():
                if self._hold(row):
                    shown, drafts = json.loads(body)
                    left = {int(number): [Typed(**each) for each in typed] for number, typed in drafts.items()}
                    last += left.pop(shown, []) + left.pop(NEW, [])
                    self.by_chat |= left
                    store.db.execute("DELETE FROM drafts WHERE id = ?", (row,))
            if last or self.by_chat:
                self.by_chat[NEW] = last
                self._put(store, self.typing(NEW))
        return last

    def write(self, typing: Typing) -> None:
        """Write it down, from any thread; nothing once it is closed.

        Raises:
            UserError: the history cannot be written.
        """
        with self._lock:
            if not self._closed:
                self._write(typing)

    def close(self, typing: Typing | None = None) -> None:
        """Write the last of it down, if anything, and leave it to the next specchat.

        Raises:
            UserError: the history cannot be written.
        """
        with self._lock:  # what a thread has yet to write is older
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
        shown, drafts = typing
        if store.identity != self._identity:
            self._row, self._identity = None, store.identity
        if not drafts:
            store.db.execute("DELETE FROM drafts WHERE id = ?", (self._row,))
            return
        body = _dumped([shown, {number: [each.body for each in typed] for number, typed in drafts.items()}])
        put = "INSERT INTO drafts VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET json = ?2"
        if self._row is None:
            self._row = store.db.execute(put, (None, body)).lastrowid
            self._hold(self._row or 0)
        else:
            store.db.execute(put, (self._row, body))

    def _hold(self, row: int) -> bool:
        """Lock a row for as long as this specchat runs; False if another one does."""
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
