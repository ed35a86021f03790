"""The database file: open it, create it if missing, move it aside if it is damaged or from an older specchat."""

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
from tempfile import TemporaryFile
from threading import Lock, RLock
from time import monotonic, sleep, time
from typing import TypeAlias

from ... import plain_file
from ...errors import UserError
from ..settings.locations import data_folder
from ..text.amounts import short_path
from . import notices
from .schema import SCHEMA, TABLES, VERSION

NAME = "history.db"

BUSY_SECONDS = 5.0
"""Longest wait for another specchat's write; theirs take milliseconds."""

DAY_SECONDS = 24 * 3600.0

KEPT_SECONDS = 30 * DAY_SECONDS
"""Time for which a deleted chat can be brought back."""

_creating = Lock()
"""Held while a new file has a descriptor outside of SQLite, so that no other thread has it open then."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a file."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

LEAST_ROOM = 65536
"""Free bytes below which a disk counts as full: SQLite's shared memory takes half of them."""


def history_file() -> Path:
    return data_folder() / NAME


def damaged(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is no longer a sound database."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED


def trouble(error: Exception, path: Path) -> str:
    """Explain an error of the database and what to do, in a sentence or two."""
    # An OSError's text has the path in it, which may hold any words.
    words = "" if isinstance(error, OSError) else str(error)
    number = error.errno if isinstance(error, OSError) else None
    # On a full disk there is no room for SQLite's shared memory, which it calls an I/O error.
    if "disk is full" in words or number == errno.ENOSPC or ("disk I/O" in words and _room(path.parent) < LEAST_ROOM):
        return f"The disk with {short_path(path.parent)} is full. Free some space there."
    if "readonly" in words or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{short_path(path)} is not writable. Make the file and its folder writable, or set SPECCHAT_DATA to another "
            "folder."
        )
    if number == errno.ENOLCK or ("lock" in words and not _has_locks(path.parent)):
        return (
            f"The disk with {short_path(path.parent)} has no file locks, so no history can be kept there. Set SPECCHAT_DATA to "
            "a folder on another disk."
        )
    if "locked" in words:
        return f"Another program has been using {short_path(path)} for {BUSY_SECONDS:.0f} s. Close that program."
    if "unable to open" in words:
        return f"Cannot open {short_path(path)}. Make its folder readable and writable, or set SPECCHAT_DATA to another folder."
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{short_path(path)} cannot be used ({reason}). Check the file, or set SPECCHAT_DATA to another folder."


def _has_locks(folder: Path) -> bool:
    """Whether files can be locked on a disk, which some network disks refuse."""
    with suppress(OSError), TemporaryFile(dir=folder) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _room(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return LEAST_ROOM


class Store:
    """An open database. It may be used from several threads, one at a time.

    Args:
        path: the file; the user's own if None. Created with its folder if missing.
        broken: `identity` of a file that is known to be damaged.
        reading: fall back to reading if it cannot be written.
        repair: move a damaged or old file aside and begin an empty one, with an entry in `notices`.

    Raises:
        UserError: it cannot be used; says why and what to do.
    """

    def __init__(
        self, path: Path | None = None, *, broken: Identity | None = None, reading: bool = False, repair: bool = True
    ) -> None:
        self.path = path or history_file()
        self.lock = RLock()
        self.identity = self._on_disk()
        try:
            if broken is not None and broken == self.identity:
                raise _not_ours()
            self.db = self._open()
        except (sqlite3.Error, OSError) as error:
            if reading and (db := self._open_to_read()) is not None:
                self.db = db
                return
            if isinstance(error, OSError) or not damaged(error) or not repair:
                raise UserError(trouble(error, self.path)) from None
            try:
                self._move_aside()
                self.db = self._open()
            except (sqlite3.Error, OSError) as second:
                raise UserError(trouble(second, self.path)) from None

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

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        real = Path(os.path.realpath(self.path))  # where SQLite has its other files too
        plain_file.databases.update(Path(f"{real}{suffix}") for suffix in ("", "-wal", "-shm"))
        with suppress(FileExistsError):
            _create(real)
        plain_file.require_ordinary(self.path.stat())
        if not os.access(self.path, os.R_OK | os.W_OK):  # SQLite would open it for reading only
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not self.path.stat().st_size and not _has_locks(self.path.parent):  # SQLite would wait for another program
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        self.identity = self._on_disk()
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._check(db)  # before anything is written
            _use_wal(db)
            # A crash of the machine may lose the last moments; a crash of specchat loses nothing.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA foreign_keys = ON")
            if not _version(db):
                self._begin(db)
        except BaseException:
            db.close()
            raise
        return db

    def _open_to_read(self) -> sqlite3.Connection | None:
        """Open the database on a disk that is full or read-only; None if it cannot be read either."""
        if not self.path.is_file():
            return None
        # On a full disk there is no room for SQLite's shared memory; an immutable database does without.
        for mode in ("mode=ro", "immutable=1"):
            with suppress(sqlite3.Error):
                uri = f"{self.path.absolute().as_uri()}?{mode}"
                db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
                try:
                    if _version(db) == VERSION and _tables(db) >= TABLES:
                        return db
                    db.close()
                except BaseException:
                    db.close()
                    raise
        return None

    def _check(self, db: sqlite3.Connection) -> None:
        """Raise an error unless the file is empty or a history of this version."""
        version = _version(db)
        if version > VERSION:
            raise UserError(
                f"{short_path(self.path)} was written by a newer specchat. Update this one (`pipx upgrade specchat`), or set "
                "SPECCHAT_DATA to another folder."
            )
        if version and (version != VERSION or not _tables(db) >= TABLES):
            raise _not_ours()

    def _begin(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN EXCLUSIVE")
        try:
            if not _version(db):  # another specchat may have been faster
                if _tables(db):
                    raise _not_ours()
                for statement in SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _move_aside(self) -> None:
        with _alone(self.path.parent):
            if self.moved:  # another specchat did it
                return
            aside = self._aside()
            for suffix in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        notices.append(
            f"The history is damaged, or an older specchat wrote it. It was moved to {short_path(aside)}, and an empty one was "
            "started."
        )

    def _aside(self) -> Path:
        """Create an empty file of a free name next to the database."""
        for number in count(1):
            suffix = f"-{number}" if number > 1 else ""
            path = self.path.with_name(f"{self.path.stem}-aside-{_now()}{suffix}{self.path.suffix}")
            with suppress(FileExistsError):
                _create(path)
                return path
        raise AssertionError

    def _on_disk(self) -> Identity | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _create(path: Path) -> None:
    """Create an empty private file; SQLite gives its other files the same mode.

    The file must not exist yet: closing a descriptor of a file drops all the locks that this process has on it. SQLite would
    not notice, another specchat would take itself for the last one and delete the write-ahead log, and all later writes would
    be lost.
    """
    with _creating:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out other specchats that want to move files in a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network disks have no such locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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


def purge(db: sqlite3.Connection, now: float | None = None) -> int:
    """Remove chats that were deleted KEPT_SECONDS ago, in a transaction; returns their number. As a clock may be ahead for a
    while, that time must also lie between the deletion and another chat's change of at least a day ago."""
    now = time() if now is None else now
    later = "SELECT 1 FROM chats AS other WHERE other.changed BETWEEN chats.deleted_at + ? AND ?"
    times = (now - KEPT_SECONDS, KEPT_SECONDS, now - DAY_SECONDS)
    return db.execute(f"DELETE FROM chats WHERE deleted_at < ? AND EXISTS ({later})", times).rowcount


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _not_ours() -> sqlite3.DatabaseError:
    """Return SQLite's error for a file that is no database."""
    error = sqlite3.DatabaseError("not a history")
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def _now() -> str:
    return datetime.now().strftime("%Y-%m-%d-%H%M%S")
