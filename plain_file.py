"""Paths, and reading files that others wrote. Only regular files are read, and only up to a limit, so that no pipe, device or
endless file can hang specchat."""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

MOST_BYTES = 1_000_000
"""Most bytes of a file that people write by hand: settings, themes, presets. The longest theme has 3 kB."""

MOST_VALUES = 3_000_000
"""Most values in a JSON file, each of some 80 bytes once read. The largest known tokenizer, of Gemma, has 1.8 million."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors that only more room mends."""

databases: set[Path] = set()
"""Files that SQLite has open in this process. Nothing else may open them: the locks of a file belong to the process, and go as
soon as it closes any descriptor of that file."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file for reading.

    Raises:
        OSError: it does not exist, cannot be read, is a pipe, device or folder, or is one of `databases`; `strerror` says
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
    """A file that always has data or has ended. /proc/kmsg claims to be a regular file but keeps its readers waiting."""

    def readinto(self, buffer: Buffer, /) -> int:
        count: int | None = super().readinto(buffer)
        return _come(count)

    def readall(self) -> bytes:
        return _come(super().readall())


def _come(found: T | None) -> T:
    if found is None:
        raise OSError(errno.EINVAL, "it is not a regular file")
    return found


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The contents of a regular file.

    Args:
        path: the file.
        most: the most bytes to read.

    Raises:
        OSError: as `opened`, or it is longer than `most` bytes.
    """
    with opened(path) as file:
        # The size first: a sparse file may have terabytes. Then what was read: files in /proc claim to be empty.
        if os.fstat(file.fileno()).st_size > most or len(data := file.read(most + 1)) > most:
            raise OSError(errno.EFBIG, f"it is larger than {most / 1e6:g} MB")
        return data


def stand_somewhere() -> bool:
    """Go home where the folder that this process is in was deleted; True if that was so. From a folder that is gone relative
    paths fail and torch cannot be loaded."""
    try:
        os.getcwd()
    except OSError:
        for place in (os.path.expanduser("~"), "/"):
            with suppress(OSError):
                os.chdir(place)
                return True
    return False


def as_text(data: bytes, errors: str = "replace") -> str:
    """UTF-8 as text, without the byte order mark that editors of Windows put before it.

    Raises:
        UnicodeDecodeError: it is not UTF-8, and `errors` is "strict".
    """
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors)


def user_path(name: str | Path) -> Path:
    """A path as a user wrote it, with `~` expanded. If there is no such user, `~name` stays an ordinary name."""
    return Path(os.path.expanduser(name))


def cache_folder() -> Path:
    """Where specchat keeps what can be rebuilt; SPECCHAT_CACHE overrides it."""
    if named := os.environ.get("SPECCHAT_CACHE"):
        return user_path(named).absolute()
    import platformdirs  # most processes never ask

    return platformdirs.user_cache_path("specchat", appauthor=False)


def hub_cache() -> Path:
    """Where huggingface_hub keeps downloaded models: its own rule, repeated here because importing it takes 0.2 s."""
    if named := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return user_path(os.path.expandvars(named))
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return user_path(os.path.expandvars(home)) / "hub"


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """`read_bytes` as text (`as_text`)."""
    return as_text(read_bytes(path, most))


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """`read_bytes` as JSON.

    Raises:
        OSError: as `read_bytes`, or `require_few_values`.
        ValueError: it is not JSON, or is nested too deep.
    """
    data = read_bytes(path, most)
    require_few_values(data)
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def require_few_values(data: bytes) -> None:
    """Raise an error for JSON that would take much more memory than it has bytes: an empty list of two becomes 64.

    Raises:
        OSError: it may hold more than MOST_VALUES.
    """
    if sum(map(data.count, (b"[", b"{", b","))) > MOST_VALUES:
        raise OSError(errno.EFBIG, f"it holds more than {MOST_VALUES / 1e6:.0f} million values")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that takes the place of another one, and its mode, in one move; nothing is left of it where that fails.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    part = path.with_name(f".specchat-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write a small file that takes the place of the old one in one move.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(data), "utf-8")
    part.replace(path)


def is_database(status: os.stat_result) -> bool:
    """Whether a file is one of `databases`."""
    for path in databases:
        with suppress(OSError):
            if os.path.samestat(status, os.stat(path)):
                return True
    return False


def require_ordinary(status: os.stat_result) -> None:
    """Raise an error for pipes, devices and folders.

    Raises:
        OSError: it is one of these.
    """
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _check(status: os.stat_result) -> None:
    require_ordinary(status)
    if is_database(status):
        raise OSError(errno.EBUSY, "specchat keeps its chats in it")
