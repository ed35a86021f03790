"""Synchronization of the indexes of past answers with the history: deleted answers leave them at once."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from ...engine.messages import Remember
from ...errors import UserError
from ..settings.locations import data_folder
from .chats import reading
from .store import history_file

CHARACTERS = 10_000_000
"""Characters of the newest answers, which are drafted from: two or three million tokens in English, 8 bytes each."""

SLACK = 1_000_000
"""Characters of older answers that may stay, as each removal rewrites the index."""

BATCH = 100_000
"""Characters sent at once."""

SETTLING = 0.25
"""Seconds between two checks for changes of the history."""

_ALIVE = """SELECT key, entries.id, length(text) FROM entries CROSS JOIN chats ON chats.id = chat
    WHERE key IS NOT NULL AND deleted_at IS NULL ORDER BY entries.id DESC"""

_STATE = """SELECT count(*), total(deleted_at), (SELECT count(*) FROM entries WHERE key IS NOT NULL),
    (SELECT max(id) FROM entries WHERE key IS NOT NULL) FROM chats WHERE deleted_at IS NOT NULL"""
"""Query whose result changes with the stored answers, but not with the one being written."""


def past_folder() -> Path:
    """Return the folder of the indexes, one for each tokenizer."""
    return data_folder() / "past"


def delete_all() -> None:
    shutil.rmtree(past_folder(), ignore_errors=True)


def forget_deleted() -> None:
    """Remove deleted answers from every index, also from those that no engine has open; running engines see it at their next
    draft.

    Raises:
        UserError: the history cannot be read, or an index can neither be rewritten nor deleted.
    """
    folder = past_folder()
    if not folder.is_dir():
        return
    with reading() as chats, chats.store.lock:
        answers = draftable(chats.store.db)
    from ...engine.past import keep_only  # here alone: it loads NumPy

    try:
        keep_only(folder, answers.keys())
    except OSError as error:
        raise UserError(
            f"The chat is deleted, but its answers are still in the index of past answers ({error.strerror}). Delete the "
            f"folder {folder}; it is made again."
        ) from None


def draftable(db: sqlite3.Connection) -> dict[int, tuple[int, bool]]:
    """List the answers that an index may hold, newest first: key → (entry, whether it is among those to draft from)."""
    answers: dict[int, tuple[int, bool]] = {}
    total = 0
    for key, entry, length in db.execute(_ALIVE):
        if key not in answers:  # else a branch has it too
            total += length
            if total > CHARACTERS + SLACK:
                break
            answers[key] = entry, total <= CHARACTERS
    return answers


class PastSync:
    """Synchronization of the engine's index of past answers with the history, on a thread. `send` sends a command to the
    engine, also from there; `next_id` returns a fresh id for one."""

    def __init__(self, send: Callable[[Remember], None], next_id: Callable[[], int]) -> None:
        self._send = send
        self._next_id = next_id
        self._indexed: set[int] | None = None
        """Keys in the engine's index; None until it has reported them."""
        self._sent = set[int]()
        """Keys sent to the engine; an answer without tokens never gets into its index."""
        self._files_state: tuple[object, ...] = ()
        self._rows_state: tuple[object, ...] = ()
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def model_loaded(self) -> None:
        """Open the index of the loaded model's tokenizer."""
        self._indexed = None
        self._sent = set()
        self._send(Remember(self._next_id(), str(past_folder())))

    def set_indexed(self, keys: list[int]) -> None:
        """Record the keys that the engine's index holds."""
        self._indexed = set(keys)
        self._files_state = ()

    def tick(self, idle: bool) -> None:
        """Start a synchronization if the history has changed. Called a few times a second; never waits. Answers are added only
        if it is `idle`: if no answer is being written."""
        if self._indexed is None or (self._thread is not None and self._thread.is_alive()) or monotonic() < self._due:
            return
        self._due = monotonic() + SETTLING
        file = history_file()
        state = (_modified(file), _modified(file.with_name(f"{file.name}-wal")), idle)
        if state != self._files_state:
            self._files_state = state
            self._thread = threading.Thread(target=self._sync, args=(self._indexed, idle), name="past answers", daemon=True)
            self._thread.start()

    def _sync(self, indexed: set[int], idle: bool) -> None:
        batch: list[list[int | str]] = []
        length = 0
        try:
            with reading() as chats, chats.store.lock:
                db = chats.store.db
                state = (*db.execute(_STATE).fetchone(), indexed, idle, len(self._sent))
                if state == self._rows_state:
                    return
                answers = draftable(db)
                self._rows_state = state
                for key, (entry, recent) in answers.items() if idle else ():
                    if recent and length <= BATCH and key not in indexed and key not in self._sent:
                        text = str(db.execute("SELECT text FROM entries WHERE id = ?", (entry,)).fetchone()[0])
                        batch.append([key, text])
                        length += len(text)
        except UserError:  # the recorder reports it
            return
        deleted = indexed - answers.keys()
        self._sent = (self._sent - deleted) | {int(key) for key, _ in batch}
        folder = str(past_folder())
        if deleted:  # first, and alone: adding takes longer
            self._send(Remember(self._next_id(), folder, forget=sorted(deleted)))
        if batch:
            self._send(Remember(self._next_id(), folder, batch[::-1]))


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
