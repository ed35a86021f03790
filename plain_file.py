"""Paths, and reading files that others wrote: ordinary files only and never more than a limit, so that neither a pipe, a device
nor a file without end can hold specchat up."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

MOST_BYTES = 1_000_000
"""Of a file that people write by hand: settings, themes, presets. The longest theme has 3 kB."""

databases: set[Path] = set()
"""Files that SQLite has open in this process. Nothing else may open them: the locks of a file belong to the process, and go as
soon as it closes any descriptor of that file."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """An ordinary file, open for reading.

    Raises:
        OSError: it is not there, may not be read, is a pipe, a device or a folder, or one of `databases`; its `strerror` says
            which.
    """
    try:
        # Looked at first: opening some devices does something, and opening a pipe lets its writer go on.
        _check(os.stat(path))
        # It may be another file by now, so the opened one is looked at too; without O_NONBLOCK a pipe waits for its writer.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a nul in the name
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    with io.BufferedReader(_Ordinary(file)) as out:
        _check(os.fstat(file))
        yield out


class _Ordinary(io.FileIO):
    """What always has something to read, or has ended: /proc/kmsg is called an ordinary file and keeps its readers waiting."""

    def readinto(self, buffer: Buffer, /) -> int:
        count: int | None = super().readinto(buffer)
        return _come(count)

    def readall(self) -> bytes:
        return _come(super().readall())


def _come(found: T | None) -> T:
    if found is None:
        raise OSError(errno.EINVAL, "it is no ordinary file")
    return found


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """What an ordinary file holds.

    Args:
        path: the file.
        most: bytes that are read at most.

    Raises:
        OSError: as `opened`, or it has more than `most` bytes.
    """
    with opened(path) as file:
        # The size first: a sparse file may have terabytes. Then what was read: files in /proc claim to be empty.
        if os.fstat(file.fileno()).st_size > most or len(data := file.read(most + 1)) > most:
            raise OSError(errno.EFBIG, f"it has more than {most / 1e6:g} MB")
        return data


def user_path(name: str | Path) -> Path:
    """A path that a user wrote, `~` being the home. Where nobody is called so, `~name` is a name as any other."""
    return Path(os.path.expanduser(name))


def cache_folder() -> Path:
    """Where specchat keeps what can be made again; SPECCHAT_CACHE names another."""
    if named := os.environ.get("SPECCHAT_CACHE"):
        return user_path(named).absolute()
    import platformdirs  # most processes never ask

    return platformdirs.user_cache_path("specchat", appauthor=False)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The same as text; bytes that are not UTF-8 become U+FFFD."""
    return read_bytes(path, most).decode("utf-8", "replace")


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """The same as JSON.

    Raises:
        OSError: as `read_bytes`.
        ValueError: it is not JSON, or nested too deep.
    """
    try:
        return json.loads(read_bytes(path, most))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def is_database(status: os.stat_result) -> bool:
    """Whether a file is one of `databases`."""
    for path in databases:
        with suppress(OSError):
            if os.path.samestat(status, os.stat(path)):
                return True
    return False


def require_ordinary(status: os.stat_result) -> None:
    """Refuse pipes, devices and folders.

    Raises:
        OSError: it is one of them.
    """
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no ordinary file")


def _check(status: os.stat_result) -> None:
    require_ordinary(status)
    if is_database(status):
        raise OSError(errno.EBUSY, "specchat keeps its chats in it")
