"""The engine's log file: the output of native libraries, and the tracebacks of bugs."""

from __future__ import annotations

import os
import time
import traceback
from contextlib import suppress
from pathlib import Path

LOG_VARIABLE = "SPECCHAT_LOG"
"""Environment variable that names another log file."""

MOST_BYTES = 4_000_000
"""A log longer than this is moved aside, so that the two together stay below 8 MB plus one session's output."""


def log_path() -> Path:
    """Return the log file: $SPECCHAT_LOG, else engine.log in the user's log folder."""
    if named := os.environ.get(LOG_VARIABLE):
        return Path(named)
    # Deferred: the drawing process needs it only to start the engine and to name the file in a message.
    from platformdirs import user_log_path

    return user_log_path("specchat", appauthor=False) / "engine.log"


def open_log(path: Path) -> int:
    """Open a descriptor that appends to the log, after moving a full one aside; the null device if that is not possible.

    Several engines may share the file: each write is appended whole, and one that has a moved file open continues in it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_name(path.name + ".1"))
        # Without O_NONBLOCK, opening a pipe would wait for its reader.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        os.set_blocking(file, True)
        return file
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def redirect(path: Path) -> None:
    """Point descriptors 1 and 2 at the log, so that no library's output can reach the protocol or the terminal."""
    log = open_log(path)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def log(text: str) -> None:
    """Write one entry with time and process id (several engines share the file). Never raises: on a full disk it is lost."""
    entry = f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {text.rstrip()}\n"
    # Not through sys.stderr, which keeps unwritten text and raises again at every later write.
    with suppress(OSError):
        os.write(2, entry.encode("utf-8", "backslashreplace"))


def log_traceback(what: str, error: BaseException) -> None:
    """Write an entry with the error's traceback."""
    log(f"{what}\n{''.join(traceback.format_exception(error))}")
