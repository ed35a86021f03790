"""What a file is, by its content, and the conversations in it."""

from __future__ import annotations

import errno
import json
import os
import select
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from ... import plain_file
from ...errors import UserError
from ..text.cells import one_line
from .conversation import Bad, Conversation, NoChat
from .llm_logs import LlmLogs
from .shapes import answered, batch_id, conversations, is_message
from .stream import Record, Source, records

GIVE_UP = 1000
"""Records that are no chats, at a file's beginning, until it is taken for something else."""

WAIT_SECONDS = 0.2
"""Between looks whether the import was cancelled while nothing comes out of a pipe."""

PIECE = 1 << 16
"""Bytes read of a pipe at once, unless more or fewer are asked for."""

SQLITE, ZIP = b"SQLite format 3\0", b"PK\x03\x04"

KINDS = (
    "logs.db of llm, an export of ChatGPT or Claude (the zip or its conversations.json), JSONL or JSON with messages, "
    "ShareGPT, or a chat saved by /export json"
)

Progress = Callable[[int, int], None]
"""Told how far a file is and how long it is, in bytes or conversations; what it raises ends the reading."""

Found = Conversation | Bad


def read_chats(path: Path, batch: Batch, progress: Progress) -> Iterator[Found]:
    """The conversations in a file, and what could not be read of it.

    Args:
        path: the file.
        batch: requests that wait for their answers, which may be in another file.
        progress: told how far it is.

    Raises:
        UserError: it cannot be read, or is nothing that has conversations in it.
    """
    name = one_line(path.name)
    if "\0" in str(path):
        raise UserError(f"There is no file {one_line(str(path))}: check its name.")
    try:
        if path.is_dir():
            raise UserError(f"{one_line(str(path))} is a folder: name the files in it.")
        if plain_file.is_database(path.stat()):
            raise _own(name)
        with _open(path, progress) as file:
            size = path.stat().st_size
            begin = file.read(16)
            if begin.startswith(ZIP):
                file.seek(0)
                yield from _from_zip(file, name, batch, progress)
            elif not begin.startswith(SQLITE):
                yield from _from_json(_Counted(file, size, progress, begin), name, batch)
        if begin.startswith(SQLITE):
            yield from _from_sqlite(path, name, progress)
    except FileNotFoundError:
        raise UserError(f"There is no file {one_line(str(path))}: check its name.") from None
    except OSError as error:
        raise UserError(f"{name} cannot be read: {one_line(error.strerror or str(error))}.") from None


@contextmanager
def _open(path: Path, progress: Progress) -> Iterator[Any]:
    """An ordinary file, or a pipe of which every wait can be cancelled: opening one waits for its writer."""
    kind = path.stat().st_mode
    if not stat.S_ISFIFO(kind):
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is no ordinary file and no pipe")
        with path.open("rb") as file:
            yield file
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield _Pipe(descriptor, progress)
    finally:
        os.close(descriptor)


class _Pipe:
    def __init__(self, descriptor: int, progress: Progress) -> None:
        self._descriptor, self._progress = descriptor, progress

    def read(self, size: int = -1, /) -> bytes:
        while not select.select([self._descriptor], [], [], WAIT_SECONDS)[0]:
            self._progress(0, 0)
        return os.read(self._descriptor, size if size > 0 else PIECE)

    def seek(self, *_: int) -> int:
        raise OSError(errno.ESPIPE, "what is packed cannot be read from a pipe")


class _Counted:
    """A file that tells how far it is; `begin` is what was read of it already. It may be a pipe."""

    def __init__(self, file: IO[bytes], size: int, progress: Progress, begin: bytes = b"") -> None:
        self._file, self._size, self._progress, self._done, self._begin = file, size, progress, 0, begin

    def read(self, size: int = -1, /) -> bytes:
        data, self._begin = self._begin or self._file.read(size), b""
        self._done += len(data)
        self._progress(self._done, self._size)
        return data


class Batch:
    """Lines of batches: a request and its answer have the same `custom_id`, and stand in two files, in any order. What waits
    for its other half is on the disk."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE half (id BLOB, answer INTEGER, place TEXT, body BLOB, PRIMARY KEY (id, answer))")
        self._db.execute("BEGIN")

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def take(self, record: dict[str, Any], id: str, place: str) -> Conversation | None:
        """The conversation that a line makes with its other half, if that came before.

        Raises:
            NoChat: the two are no conversation.
        """
        key, answer = id.encode("utf-8", "surrogatepass"), "response" in record
        other = self._db.execute("SELECT body FROM half WHERE id = ? AND answer = ?", (key, not answer)).fetchone()
        if other is None:
            self._db.execute("INSERT OR REPLACE INTO half VALUES (?, ?, ?, ?)", (key, answer, place, _packed(record)))
            return None
        self._db.execute("DELETE FROM half WHERE id = ? AND answer = ?", (key, not answer))
        before = _unpacked(other[0])
        request, response = (before, record) if answer else (record, before)
        about = {key: value for key, value in {**request, **response}.items() if key in ("id", "error", "created_at")}
        return answered(request.get("body"), response.get("response"), about, place)

    def left(self) -> Iterator[Bad]:
        """The halves that found no other."""
        for place, answer in self._db.execute("SELECT place, answer FROM half ORDER BY rowid"):
            missing = "the batch's input file" if answer else "the batch's output file"
            yield Bad(place, f"is one half of a batch: import {missing} together with it")


def _packed(record: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(record).encode(), 1)


def _unpacked(data: bytes) -> dict[str, Any]:
    found = json.loads(zlib.decompress(data))
    assert isinstance(found, dict)
    return found


def _from_json(file: Source, name: str, batch: Batch) -> Iterator[Found]:
    """Conversations of a JSON or JSON-lines file."""
    held: list[Bad] | None = []  # until it is known that the file has chats at all
    place_in = f"{name}, "
    for found in _conversations(records(file), place_in, batch):
        if held is not None and isinstance(found, Bad):
            held.append(found)
            if len(held) == GIVE_UP:
                break
            continue
        if held is not None:
            yield from held
            held = None
        if found is not None:
            yield found
    if held is None:
        return
    if not held:
        raise UserError(f"{name} is empty: there is nothing to import.")
    why = f"{held[0].place.removeprefix(place_in)} {held[0].why}"
    raise UserError(f"{name} has no chat that can be imported ({why}). Known are {KINDS}.")


def _conversations(found: Iterator[Record], place_in: str, batch: Batch) -> Iterator[Found | None]:
    """None: half of something, whose other half is to come."""
    for (group, talk), rows in groupby(found, lambda record: (record.group, bool(record.group) and is_message(record.data))):
        if talk:  # the array itself is the list of messages
            some = list(rows)
            yield from _of(Record(some[0].place if group > 1 else "its messages", [row.data for row in some]), place_in, batch)
            continue
        for record in rows:
            yield from _of(record, place_in, batch)


def _of(record: Record, place_in: str, batch: Batch) -> Iterator[Found | None]:
    place = place_in + record.place
    if record.why:
        yield Bad(place, record.why)
        return
    try:
        if id := batch_id(record.data):
            yield batch.take(record.data, id, place)
        else:
            yield from conversations(record.data, place)
    except NoChat as wrong:
        yield Bad(place, one_line(str(wrong)))
    except RecursionError:
        yield Bad(place, "is nested too deep")


def _from_zip(file: IO[bytes], name: str, batch: Batch, progress: Progress) -> Iterator[Found]:
    """Conversations of an export as it is downloaded."""
    try:
        with zipfile.ZipFile(file) as packed:
            infos = [info for info in packed.infolist() if _is_chats(info.filename)]
            if not infos:
                raise UserError(
                    f"{name} has no conversations.json in it: give the zip that ChatGPT or Claude sent. Known are {KINDS}."
                )
            total, before = sum(info.file_size for info in infos), 0
            for info in infos:
                with packed.open(info) as member:

                    def told(done: int, _: int, before: int = before) -> None:
                        progress(before + done, max(total, before + done))

                    inner = f"{name}, {one_line(Path(info.filename).name)}"
                    source = _Counted(member, info.file_size, told)
                    yield from _from_json(source, inner, batch)
                before += info.file_size
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, RecursionError):
            raise
        why = "it has a password" if "password" in str(error) else "it is damaged"
        raise UserError(f"{name} cannot be unpacked: {why}. Unpack it yourself and import its conversations.json.") from None


def _is_chats(name: str) -> bool:
    last = Path(name).name.lower()
    return last.startswith("conversations") and last.endswith((".json", ".jsonl"))


def _from_sqlite(path: Path, name: str, progress: Progress) -> Iterator[Found]:
    """Conversations of a database."""
    try:
        db = _opened(path)
    except sqlite3.Error as error:
        raise UserError(f"{name} cannot be opened as a database ({one_line(str(error))}): is it still being written?") from None
    try:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        tables = {text for (text,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if {"chats", "places", "entries", "steps"} <= tables:
            raise _own(name)
        if not {"responses", "conversations"} <= tables and not {"turns", "messages", "parts"} <= tables:
            old = " It is of a very old llm: let a newer one open it once." if {"log", "logs"} & tables else ""
            raise UserError(f"{name} is a database, but not logs.db of llm.{old} Known are {KINDS}.")
        logs = LlmLogs(db, tables)
        total = logs.count()
        progress(0, total)
        for found in logs.read(lambda done: progress(done, total)):
            yield Bad(f"{name}, {found.place}", found.why) if isinstance(found, Bad) else found
    except sqlite3.Error as error:
        raise UserError(
            f"{name} is damaged ({one_line(str(error))}): `sqlite3 FILE .recover` may get back what is in it."
        ) from None
    finally:
        db.close()


def _own(name: str) -> UserError:
    return UserError(f"{name} is a history of specchat's own: put it into a folder that SPECCHAT_DATA names.")


def _opened(path: Path) -> sqlite3.Connection:
    """A database for reading; nothing is written, not even beside it where that can be helped."""
    uri = path.absolute().as_uri()
    try:
        db = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:  # a write-ahead log in a folder that cannot be written
        db = sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return db
