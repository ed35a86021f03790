"""Bytes from the Hub into its cache: gone on with where they broke off, checked, and never begun where the disk is too small.

huggingface_hub keeps the cache. But its downloads cannot be gone on with in a later call (since 2.0 each writes to a file of a
fresh name, which is deleted when it fails: `file_download._download_to_tmp_and_move`), it compares sizes only, and a disk that
is too small is a warning. So the bytes come in here, under its locks, into the place where it looks for them (`blobs/ETAG`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import UserError, counted
from ...plain_file import user_path
from ..options import StageProgress
from .hub_client import LEAST, POLL_SECONDS, Broken, Session, constants, refusal
from .hub_contents import Contents, File

PART = ".incomplete"
"""Ends the name of what has come of a file. Versions 1 of huggingface_hub go on with such a file too."""

TRIES = 5
"""Connections in a row that bring nothing, before the download is given up for now."""

REST_SECONDS = 1.0
"""Between two of them."""

BLOCK = 1 << 20
"""Bytes read at once when a file is checked."""

MOST_AT_ONCE = 40_000_000_000
"""Bytes asked for at once: the Hub's servers send no more than 50 GB in one answer."""

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers after which it pays to ask once more."""

FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Missing:
    """A file that the cache lacks."""

    name: str
    """In its repository."""
    url: str
    size: int
    etag: str
    """Its SHA-256 (files in large file storage), its git object id, or whatever a mirror calls it."""
    blob: Path
    """Where it belongs."""
    lock: Path
    """The library's own for this file."""

    @property
    def part(self) -> Path:
        """What has come of it."""
        return self.blob.with_name(self.blob.name + PART)

    @property
    def there(self) -> int:
        """Bytes that need not be fetched again."""
        try:
            return min(self.part.stat().st_size, self.size)
        except OSError:
            return 0


def repository_folder(spec: str) -> Path:
    """A repository's folder in the cache."""
    return user_path(constants().HF_HUB_CACHE).resolve() / f"models--{spec.replace('/', '--')}"


def missing(there: Contents, files: Mapping[str, File]) -> list[Missing]:
    """What the cache lacks of a repository's files, each once, small ones first."""
    folder, found = repository_folder(there.name), dict[str, Missing]()
    for name, file in files.items():
        blob = folder / "blobs" / file.etag
        if not blob.exists() and not (folder / "snapshots" / there.commit / name).exists():
            lock = folder.parent / ".locks" / folder.name / f"{file.etag}.lock"
            found[file.etag] = Missing(name, there.url(name), file.size or 0, file.etag, blob, lock)
    return sorted(found.values(), key=lambda file: (file.size, file.name))


def transfer(session: Session, spec: str, files: Sequence[Missing], progress: StageProgress | None = None) -> None:
    """Fetch files one after the other; what came of one in an earlier call is not fetched again.

    Args:
        session: its cancel is polled, also while the server sends nothing.
        spec: the repository, for sentences.
        files: of `missing`.
        progress: told ("download", bytes, bytes in all), what was there already included, some ten times a second.

    Raises:
        UserError: the disk has no room; the connection broke too often; a file is refused, or is not what the Hub says it is.
        Cancelled: what came stays.
    """
    if not files:
        return
    make_sure_of_room(spec, files)
    told = _Told(sum(file.size for file in files), progress)
    done, waiting = 0, sum(file.there for file in files)
    for file in files:
        waiting -= file.there
        told.before = done + waiting
        try:
            file.blob.parent.mkdir(parents=True, exist_ok=True)
            file.lock.parent.mkdir(parents=True, exist_ok=True)
            with _locked(session, file.lock):
                if not file.blob.exists():  # another process may have been faster
                    _fetch(session, spec, file, told)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise UserError(
                f"The disk with {file.blob.parent.parent.parent} is full ({_amount(told)} of {spec} are here). Free about "
                f"{_bytes(told.total - told.done)} and load it again; the download continues from there."
            ) from None
        told.at(file.size)
        done += file.size


def make_sure_of_room(spec: str, files: Sequence[Missing]) -> None:
    """Refuse a download for which the disk is too small.

    Raises:
        UserError: says how much is needed, how much is free, and where.
    """
    cache = files[0].blob.parent.parent.parent
    needed = sum(file.size - file.there for file in files)
    free = free_space(cache)
    if free is not None and needed > free:
        raise UserError(
            f"{spec} needs {_bytes(needed)} of disk space, but {cache} has {_bytes(free)} free. Free some space, or set "
            "HF_HOME to a folder on another disk."
        )


def free_space(folder: Path) -> int | None:
    """Bytes that are free where a folder is or will be; None if the disk does not say."""
    for each in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(each).free
    return None


def forget(files: Sequence[Missing]) -> None:
    """Delete what has come of files that are not wanted any more."""
    for file in files:
        with contextlib.suppress(OSError):
            file.part.unlink(missing_ok=True)


class _Told:
    """How many bytes there are, told now and then."""

    def __init__(self, total: int, progress: StageProgress | None) -> None:
        self.total, self.done = total, 0
        self.before = 0
        """Of other files than the one that is coming."""
        self._progress = progress
        self._last = 0.0

    def at(self, have: int) -> None:
        """So many of this file are there."""
        self.done = self.before + have
        now = time.monotonic()
        if self._progress is not None and (now - self._last >= POLL_SECONDS or self.done == self.total):
            self._last = now
            self._progress("download", self.done, self.total)


class _Arriving:
    """What has come of a file: its bytes, how many, and their checksum."""

    def __init__(self, session: Session, file: Missing, stream: BinaryIO) -> None:
        self.file, self._stream = file, stream
        self.have, self.digest = 0, _digest(file)
        stream.seek(0)
        while block := stream.read(BLOCK):
            self.digest.update(block)
            self.have += len(block)
            session.stop()
        if self.have > file.size:
            self.restart()

    def add(self, chunk: bytes) -> None:
        """Take in what has come."""
        self._stream.write(chunk)
        self.digest.update(chunk)
        self.have += len(chunk)

    def restart(self) -> None:
        """What there is is no beginning of the file."""
        self._stream.truncate(0)
        self.have, self.digest = 0, _digest(self.file)

    @property
    def right(self) -> bool:
        """Whether the checksum is the Hub's, if it names one."""
        found = self.digest.hexdigest()
        return found == self.file.etag or not re.fullmatch(rf"[0-9a-f]{{{len(found)}}}", self.file.etag)


def _digest(file: Missing) -> Any:
    """What a file's name in the cache is made of: in large file storage its SHA-256, else git's SHA-1 of a blob."""
    if len(file.etag) == 40:
        return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    return hashlib.sha256()


def _fetch(session: Session, spec: str, file: Missing, told: _Told) -> None:
    """Fetch one file, connection after connection, check it, put it in its place."""
    vain = 0
    with file.part.open("a+b") as stream:
        arriving = _Arriving(session, file, stream)
        while arriving.have < file.size:
            had = arriving.have
            told.at(had)
            try:
                _receive(session, spec, arriving, lambda: told.at(arriving.have))
            except Broken as broken:
                # One that drips would never end.
                vain = 0 if arriving.have - had >= LEAST else vain + 1
                if vain >= TRIES:
                    raise UserError(
                        f"The download of {file.name} of {spec} broke off ({broken}); {_amount(told)} are here. Load it again "
                        "to continue from there."
                    ) from None
                _rest(session)
        right = arriving.right
    if not right:
        file.part.unlink()
        kind = "SHA-256" if len(file.etag) == 64 else "checksum"
        raise UserError(
            f"The {kind} of {file.name} of {spec} does not match the Hub's, so the file was deleted. Load it again; if this "
            "happens twice, the file on the Hub or the connection is damaged."
        )
    file.part.replace(file.blob)


def _receive(session: Session, spec: str, arriving: _Arriving, tell: Callable[[], None]) -> None:
    """Take in what a file lacks, over one connection.

    Raises:
        Broken: it ended before the file did, or brought something else.
        UserError: the server refuses the file.
    """
    file, seconds = arriving.file, constants().HF_HUB_DOWNLOAD_TIMEOUT
    end = min(file.size, arriving.have + MOST_AT_ONCE)
    span = f"bytes={arriving.have}-{end - 1}" if arriving.have or end < file.size else ""
    with session.asked(file.url, seconds, span=span) as response:
        status = response.status_code
        if status in BUSY:
            raise Broken(f"the server answered {status}")
        if status not in (200, 206, 416):
            raise refusal(spec, None, response, file.name)
        if arriving.have and not _continues(response, arriving.have):
            arriving.restart()
        if status == 416:
            raise Broken("the server does not have that part of the file")
        for chunk in session.chunks(response, seconds):
            arriving.add(chunk)
            if arriving.have > file.size:
                arriving.restart()
                raise Broken("the server sent more than the file should have")
            tell()
    if arriving.have < end:
        raise Broken("the connection ended too early")


def _continues(response: Any, have: int) -> bool:
    """Whether the server sends the rest, not the whole."""
    told = re.match(r"bytes (\d+)-", str(response.headers.get("Content-Range", "")))
    return response.status_code == 206 and told is not None and int(told[1]) == have


@contextlib.contextmanager
def _locked(session: Session, file: Path) -> Iterator[None]:
    """Hold the library's lock of a file; wait while another download has it."""
    from filelock import Timeout
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    with contextlib.ExitStack() as stack:
        while True:
            session.stop()
            try:
                stack.enter_context(WeakFileLock(file, timeout=5 * POLL_SECONDS))
                break
            except Timeout:
                continue
        yield


def _rest(session: Session) -> None:
    until = time.monotonic() + REST_SECONDS
    while time.monotonic() < until:
        session.stop()
        time.sleep(min(POLL_SECONDS, REST_SECONDS))


def _bytes(count: float) -> str:
    """An amount as people write it."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return counted(int(count), "byte")


def _amount(told: _Told) -> str:
    return f"{_bytes(told.done)} of {_bytes(told.total)}"
