"""The database file: open it, create it if missing, move it aside if it is damaged or from an older specchat.

    chats    one row a chat, with the order of its entries and its variants
    entries  prompts, answers and notices, as in an export (docs/files.md)
    parts    the runs of an answer in parts, each as it was flushed: zlib of JSON
    words    the full-text index of entries, by id
    sent     messages that were sent, for the up key
    drafts   unsent text, a row for each running specchat

The index is of trigrams, so that any part of a word is found, in code and in scripts without spaces too; unicode61 finds whole
words only. It keeps no positions (a sixth of the size): SQLite looks at a candidate's text again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from threading import RLock
from time import monotonic, sleep, time

from ... import plain_file
from ...errors import UserError
from ..settings.locations import data_folder
from ..text.amounts import short_path
from ..text.cells import folded
from . import notices

BUSY_SECONDS = 5.0
"""Longest wait for another specchat's write; theirs take milliseconds."""

KEPT_SECONDS = 30 * 24 * 3600.0
"""Time for which a deleted chat can be brought back."""

LEAST_ROOM = 65536
"""Free bytes below which a disk counts as full: SQLite's shared memory takes half of them."""

VERSION = 8
"""The schema's version, in `PRAGMA user_version`."""

NEXT_TURN = "(SELECT coalesce(max(turn), 0) + 1 FROM chats)"
"""SQL for the new `turn` of a chat that changes."""

SCHEMA = (
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,  -- seconds since 1970, like every time here
        changed REAL NOT NULL,
        model TEXT NOT NULL,  -- its name, for the list
        answers INTEGER NOT NULL DEFAULT 0,  -- how many it has
        deleted_at REAL,
        named INTEGER NOT NULL DEFAULT 0,  -- whether the user set the title: it stays when the first prompt changes
        turn INTEGER NOT NULL DEFAULT 0,  -- counts changes of all chats: clocks may be set back
        ways TEXT NOT NULL DEFAULT '[[], []]',  -- JSON: ids on the screen; of each fork (id before it, number shown, ids)
        about TEXT NOT NULL  -- JSON: model, settings, load, system, specchat (the version)
    )""",
    # For the list, their number and the next turn alike.
    "CREATE INDEX chats_by_turn ON chats (turn DESC, id DESC, deleted_at)",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        text TEXT,  -- NULL while an answer is being written, and once specchat was killed meanwhile
        key INTEGER,  -- of an answer's text, the same for the same text; NULL while it is being written
        json TEXT NOT NULL  -- all but an answer's runs and token texts
    )""",
    "CREATE INDEX entries_by_chat ON entries (chat)",
    "CREATE INDEX entries_open ON entries (id) WHERE text IS NULL",
    "CREATE INDEX entries_by_key ON entries (key) WHERE key IS NOT NULL",
    """CREATE TABLE parts (
        entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
        part INTEGER NOT NULL,
        json BLOB NOT NULL,
        PRIMARY KEY (entry, part)
    )""",
    "CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'trigram', detail = 'none')",
    "CREATE TRIGGER entries_gone AFTER DELETE ON entries BEGIN DELETE FROM words WHERE rowid = old.id; END",
    "CREATE TABLE sent (id INTEGER PRIMARY KEY AUTOINCREMENT, json TEXT NOT NULL)",
    "CREATE TABLE drafts (owner TEXT PRIMARY KEY, json TEXT NOT NULL)",
)


def stored(text: str) -> str:
    """Return a text without lone surrogates, which SQLite cannot store."""
    return text.encode("utf-8", "replace").decode()


def searchable(text: str) -> str:
    """Return the text as the index stores it. The tokenizer stops at a nul byte."""
    return folded(stored(text.replace("\0", " ")))


def history_file() -> Path:
    return data_folder() / "history.db"


def damaged(error: Exception) -> bool:
    """Whether an error says that the file is no longer a sound database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def trouble(error: Exception, path: Path) -> str:
    """Explain an error of the database and what to do, in a sentence or two."""
    # An OSError's text has the path in it, which may hold any words.
    reason = (error.strerror or "") if isinstance(error, OSError) else str(error)
    # On a full disk there is no room for SQLite's shared memory, which it calls an I/O error.
    full = "disk is full" in reason or getattr(error, "errno", None) == errno.ENOSPC
    if full or ("disk I/O" in reason and shutil.disk_usage(path.parent).free < LEAST_ROOM):
        return f"The disk with {short_path(path.parent)} is full. Free some space there."
    if "locked" in reason:
        return f"Another program has been using {short_path(path)} for {BUSY_SECONDS:.0f} s. Close that program."
    return (
        f"{short_path(path)} cannot be used ({reason}). Make the file and its folder writable, or set SPECCHAT_DATA to another "
        "folder."
    )


class _NotOurs(sqlite3.DatabaseError):
    """SQLite's error for a file that is no database."""

    sqlite_errorcode = sqlite3.SQLITE_NOTADB


class Store:
    """An open database. It may be used from several threads, one at a time.

    Args:
        path: the file; the user's own if None. Created with its folder if missing.
        broken: `identity` of a file that is known to be damaged.
        repair: move a damaged or old file aside and begin an empty one, with an entry in `notices`.

    Raises:
        UserError: it cannot be used; says why and what to do.
    """

    def __init__(self, path: Path | None = None, *, broken: tuple[int, int] | None = None, repair: bool = True) -> None:
        self.path = path or history_file()
        self.lock = RLock()
        self.identity = self._on_disk()
        try:
            try:
                if broken is not None and broken == self.identity:
                    raise _NotOurs
                self._open()
            except sqlite3.Error as error:
                if not damaged(error) or not repair:
                    raise
                self._move_aside()
                self._open()
        except (sqlite3.Error, OSError) as error:
            raise UserError(trouble(error, self.path)) from None

    def close(self) -> None:
        with self.lock:
            self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def moved(self) -> bool:
        """Whether the open file no longer has its name: it was deleted, or another specchat moved it aside."""
        return self.identity != self._on_disk()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction, rolled back on an exception.

        Raises:
            sqlite3.Error: nothing was written.
        """
        with self.lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
                self.db.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back already if the disk is full.
                if self.db.in_transaction:
                    with suppress(sqlite3.Error):
                        self.db.execute("ROLLBACK")
                raise

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.path.exists():
            plain_file.require_ordinary(self.path.stat())  # a pipe would hang
        real = os.path.realpath(self.path)  # where SQLite has its other files too
        plain_file.databases.update(Path(f"{real}{suffix}") for suffix in ("", "-wal", "-shm"))
        self.db = db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            version = _version(db)
            if version > VERSION:
                raise UserError(
                    f"{short_path(self.path)} was written by a newer specchat. Update this one (`pipx upgrade specchat`), or "
                    "set SPECCHAT_DATA to another folder."
                )
            if version not in (0, VERSION):
                raise _NotOurs
            # Not through a descriptor: closing one of a file drops the locks that SQLite has on it, in the whole process.
            with suppress(PermissionError):
                self.path.chmod(0o600)  # SQLite gives its other files the same mode
            self.identity = self._on_disk()
            _use_wal(db)
            # A crash of the machine may lose the last moments; a crash of specchat loses nothing.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA foreign_keys = ON")
            if not version:
                with self.transaction():
                    if not _version(db):  # else another specchat was faster
                        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                            raise _NotOurs
                        for statement in SCHEMA:
                            db.execute(statement)
                        db.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            db.close()
            raise

    def _move_aside(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # some network disks have no such locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            if self.moved:  # another specchat did it
                return
            stem = f"{self.path.stem}-aside-{datetime.now():%Y-%m-%d-%H%M%S}"
            names = (f"{stem}{f'-{number}' if number else ''}{self.path.suffix}" for number in count())
            aside = next(path for path in map(self.path.with_name, names) if not path.exists())
            for suffix in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        finally:
            os.close(folder)
        notices.append(
            f"The history is damaged, or an older specchat wrote it. It was moved to {short_path(aside)}, and an empty one was "
            "started."
        )

    def _on_disk(self) -> tuple[int, int] | None:
        """Return the device and inode of the file."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _use_wal(db: sqlite3.Connection) -> None:
    """Turn on write-ahead logging, for readers next to a writer. Of two that open a new file, one may find it locked, and
    SQLite does not wait here."""
    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > until:
                raise
            sleep(0.01)


def purge(db: sqlite3.Connection) -> None:
    """Remove chats that were deleted KEPT_SECONDS ago, in a transaction."""
    db.execute("DELETE FROM chats WHERE deleted_at < ?", (time() - KEPT_SECONDS,))


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
