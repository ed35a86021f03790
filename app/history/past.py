"""Keeps the indexes of past answers up to date with the history: what was deleted goes at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from ...engine.messages import Remember
from ...errors import UserError
from ..settings.locations import data_folder
from .chats import reading
from .store import history_file

CHARACTERS = 10_000_000
"""The newest answers are drafted from, up to so many characters: two or three million tokens in English, 8 bytes each."""

SLACK = 1_000_000
"""Characters of older ones that may stay: each rewrites the index when it goes."""

BATCH = 100_000
"""Characters sent at once."""

SETTLING = 0.25
"""Seconds between two looks at whether the history has changed."""

_ALIVE = """SELECT key, entries.id, length(text) FROM entries CROSS JOIN chats ON chats.id = chat
    WHERE key IS NOT NULL AND deleted_at IS NULL ORDER BY entries.id DESC"""

_STATE = """SELECT count(*), total(deleted_at), (SELECT count(*) FROM entries WHERE key IS NOT NULL),
    (SELECT max(id) FROM entries WHERE key IS NOT NULL) FROM chats WHERE deleted_at IS NOT NULL"""
"""Query whose result changes with the stored answers, but not with the one being written."""

Send: TypeAlias = Callable[[Remember], None]


def past_folder() -> Path:
    """Where the indexes are, one for each tokenizer."""
    return data_folder() / "past"


def delete_all() -> None:
    shutil.rmtree(past_folder(), ignore_errors=True)


def forget_deleted() -> None:
    """Remove what was deleted from the history from every index, also those that no engine has open; running engines see it at
    their next draft.

    Raises:
        UserError: the history cannot be read, or an index can neither be rewritten nor deleted.
    """
    folder = past_folder()
    if not folder.is_dir():
        return
    with reading() as chats, chats.store.lock:
        answers, older = wanted(chats.store.db)
    from ...engine.past import keep_only  # here alone: it loads NumPy

    try:
        keep_only(folder, answers.keys() | older)
    except OSError as error:
        raise UserError(
            f"The chat is deleted, but its answers are still in the index of past answers ({error.strerror}). Delete the "
            f"folder {folder}; it is made again."
        ) from None


def wanted(db: sqlite3.Connection) -> tuple[dict[int, int], set[int]]:
    """The answers to draft from, newest first, as key → entry; and the keys of those that may stay besides."""
    out: dict[int, int] = {}
    older = set[int]()
    total = 0
    for key, entry, length in db.execute(_ALIVE):
        if key in out or key in older:  # a branch has it too
            continue
        total += length
        if total <= CHARACTERS:
            out[key] = entry
        elif total <= CHARACTERS + SLACK:
            older.add(key)
        else:
            break
    return out, older


class PastSync:
    """Keeps the engine's index of past answers in step with the history, on a thread: what to add and what to forget.

    Args:
        send: to the engine; called from any thread.
        next_id: a fresh id for a command.
    """

    def __init__(self, send: Send, next_id: Callable[[], int]) -> None:
        self._send, self._next_id = send, next_id
        self._known: set[int] | None = None
        """What the engine has; None until it has told."""
        self._sent = set[int]()
        """What it was told; an answer without a token is never there."""
        self._seen: tuple[int, ...] | None = None
        self._looked: tuple[Any, ...] = ()
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def opened(self) -> None:
        """A model is loaded: its tokenizer has an index of its own."""
        self._known, self._seen, self._sent = None, None, set()
        self._send(Remember(self._next_id(), str(past_folder())))

    def told(self, keys: list[int]) -> None:
        """The engine has these answers now."""
        self._known, self._seen = set(keys), None

    def idle(self, resting: bool) -> None:
        """Called a few times a second; never waits.

        Args:
            resting: no answer is being written, so that there is time to add some.
        """
        if self._known is None or (self._thread is not None and self._thread.is_alive()) or monotonic() < self._due:
            return
        self._due = monotonic() + SETTLING
        state = (*_changed(), resting)
        if state != self._seen:
            self._seen = state
            self._thread = threading.Thread(target=self._look, args=(self._known, resting), name="past answers", daemon=True)
            self._thread.start()

    def _look(self, known: set[int], resting: bool) -> None:
        try:
            with reading() as chats, chats.store.lock:
                db = chats.store.db
                state = (*db.execute(_STATE).fetchone(), known, resting, len(self._sent))
                if state == self._looked:
                    return
                answers, older = wanted(db)
                self._looked = state
                batch: list[list[int | str]] = []
                length = 0
                for key, entry in answers.items() if resting else ():
                    if key in known or key in self._sent:
                        continue
                    if length > BATCH:
                        break
                    row = db.execute("SELECT text FROM entries WHERE id = ?", (entry,)).fetchone()
                    if row is not None:
                        batch.append([key, row[0]])
                        length += len(row[0])
        except UserError:  # the history itself says what is wrong with it
            return
        gone = known - answers.keys() - older
        if not batch and not gone:
            return
        self._sent = (self._sent - gone) | {int(key) for key, _ in batch}
        folder = str(past_folder())
        if gone:  # by itself, so that it need not wait for what takes longer
            self._send(Remember(self._next_id(), folder, forget=sorted(gone)))
        if batch:
            self._send(Remember(self._next_id(), folder, batch[::-1]))


def _changed() -> tuple[int, ...]:
    file = history_file()
    found = []
    for path in (file, file.with_name(f"{file.name}-wal")):
        try:
            found.append(os.stat(path).st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)
