"""What is being typed, chat by chat, on disk soon after it was typed: whatever ends the program, it comes back.

Each running specchat has a file of its own, which it holds a lock on; a file that nobody holds was left by one that has ended.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import time
from pathlib import Path

from ..settings.locations import data_folder, ensure
from .prompts import Typed, dumped, parsed

NEW = 0
"""Stands for a chat that the history does not have yet."""

MOST_BYTES = 1_000_000
"""Size at which a file of drafts is begun anew."""

MOST_READ = 64_000_000
"""Bytes that are read of one: a single draft may be larger than the size above."""


class Drafts:
    """The drafts of this run, and those that earlier ones left.

    Args:
        folder: where the files are; in the data folder if None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder() / "drafts"
        self.by_chat: dict[int, list[Typed]] = {}
        """Number of a chat, or NEW → what was typed in it and is not sent, the text in the input box last."""
        self._file = -1
        self._path = self.folder / f"{time.time_ns()}-{os.getpid()}.json"
        self._written = ""
        self._taken: dict[Path, int] = {}  # files of earlier runs, locked, until this run has written what they held
        self._lock = threading.Lock()
        self._closed = False

    def take_over(self) -> list[Typed]:
        """Take what earlier runs left; what was in the box when each of them ended, oldest first. A file that cannot be read
        stays where it is, and costs the others nothing.

        Raises:
            OSError: the folder cannot be read.
        """
        last = []
        for path in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            try:
                file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found, shown = _read(file)
                last += found.pop(shown, []) + found.pop(NEW, [])
                self.by_chat |= found
                self._taken[path] = file
            except OSError:  # it is running, or the file is a pipe
                os.close(file)
        return last

    def line(self, shown: int) -> str:
        """What there is, as `write` takes it; `shown` is the chat on the screen."""
        table = {number: [json.loads(dumped(each)) for each in typed] for number, typed in self.by_chat.items() if typed}
        return json.dumps({"shown": shown, "drafts": table}) if table else ""

    def write(self, line: str) -> None:
        """Write it down, from any thread; nothing once it is closed.

        Raises:
            OSError: it cannot be written.
            UserError: the folder cannot be made.
        """
        with self._lock:
            if not self._closed:
                self._write(line)

    def close(self, line: str | None = None) -> None:
        """Write the last of it down, if anything, and leave the file to the next run; none where there is nothing in it.

        Raises:
            OSError: it cannot be written.
            UserError: the folder cannot be made.
        """
        with self._lock:  # what a thread has yet to write is older
            self._closed = True
            if line is not None:
                self._write(line)
            if self._file >= 0:
                if not self._written:
                    self._path.unlink(missing_ok=True)
                os.close(self._file)
                self._file = -1

    def _write(self, line: str) -> None:
        if line == self._written and not self._taken:
            return
        if self._file < 0:
            ensure(self.folder)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        # A line behind the one before, so that a kill in between costs nothing.
        if os.fstat(self._file).st_size + len(line) > MOST_BYTES or not line:
            os.ftruncate(self._file, 0)
        data, size = b"\n" + line.encode() + b"\n", os.fstat(self._file).st_size
        if os.pwrite(self._file, data, size) < len(data):  # a disk that gets full takes a part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._written = line
        # Not before: a kill in between would cost what they held.
        while self._taken:
            path, file = self._taken.popitem()
            path.unlink(missing_ok=True)
            os.close(file)


def _read(file: int) -> tuple[dict[int, list[Typed]], int]:
    """The last drafts in a file that were written whole, and the number of the chat that was on the screen."""
    for line in reversed(os.pread(file, MOST_READ, 0).splitlines()):
        try:
            table = json.loads(line)
            drafts = {
                int(number): [*filter(None, (parsed(json.dumps(each).encode()) for each in typed))]
                for number, typed in table["drafts"].items()
            }
            return drafts, int(table["shown"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
    return {}, NEW
