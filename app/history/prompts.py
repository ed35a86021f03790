"""What was typed in earlier chats, for the up key: a file of JSON lines in the data folder, this user's alone.

Several chats may add to it at once: each line is added under a lock. A line that cannot be read is passed over.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ... import plain_file
from ..settings.locations import data_folder, ensure
from ..text.cells import enterable

MOST = 1000
"""Messages that are kept."""

MOST_BYTES = 1_000_000
"""Bytes of the file; at twice that, or twice as many messages, the oldest go."""

MOST_ONE = 100_000
"""Bytes of one message with what was pasted into it; a longer one is kept for as long as its chat is open."""

LOCK_SECONDS = 2.0
"""How long to wait for another chat that is writing."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A message as it was typed."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)
    """What stands in it for a long text → that text."""


class PromptHistory:
    """The file of messages that were sent.

    Args:
        path: where it is; in the data folder if None.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / "prompts.jsonl"
        self._seen: tuple[int, int] | None = None  # time of change and size, when last read

    def read(self) -> list[Typed]:
        """The messages, oldest first, none twice in a row; none where there is no file.

        Raises:
            OSError: it cannot be read, or is a pipe, a device or a folder.
        """
        try:
            with plain_file.opened(self.path) as file:
                status = os.fstat(file.fileno())
                self._seen = (status.st_mtime_ns, status.st_size)
                file.seek(max(0, status.st_size - 4 * MOST_BYTES))  # never more, whatever lies there
                lines = file.read(4 * MOST_BYTES).splitlines()
        except FileNotFoundError:
            return []
        found: list[Typed] = []
        for line in lines:
            typed = parsed(line)
            if typed is not None:
                found[len(found) - (bool(found) and found[-1].text == typed.text) :] = [typed]
        return found[-MOST:]

    def stale(self) -> bool:
        """Whether the file has changed since it was read."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return self._seen != (status.st_mtime_ns, status.st_size)

    def add(self, typed: Typed) -> bool:
        """Add a message; False if it is too long.

        Raises:
            OSError: the file cannot be written.
            UserError: its folder cannot be made.
        """
        line = dumped(typed)
        if len(line) > MOST_ONE:
            return False
        ensure(self.path.parent)
        with self._locked() as file:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                line = b"\n" + line  # whoever wrote last was killed in the middle
            os.write(file, line)
            if size + len(line) > 2 * MOST_BYTES or (size > 2 * MOST * 20 and _count(file) > 2 * MOST):
                self._shorten()
        return True

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, open for adding, with nobody else writing."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                plain_file.require_ordinary(os.fstat(file))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
                    continue
                if not _is(file, self.path):  # another chat has put a shorter one in its place
                    continue
                if os.fstat(file).st_mode & 0o077:
                    os.fchmod(file, 0o600)
                yield file
                return
            finally:
                os.close(file)

    def _shorten(self) -> None:
        """Leave the newest only. The new file takes the place of the old one in one move."""
        kept: list[bytes] = []
        size = 0
        for typed in reversed(self.read()):
            line = dumped(typed)
            if size + len(line) > MOST_BYTES:
                break
            kept.append(line)
            size += len(line)
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            out = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(out, "wb") as file:
                file.writelines(reversed(kept))
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)


def _is(file: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _count(file: int) -> int:
    """Lines of a file below 2 × MOST_BYTES."""
    return os.pread(file, 2 * MOST_BYTES, 0).count(b"\n")


def dumped(typed: Typed) -> bytes:
    """A message as a line of JSON."""
    pastes = {chip: text for chip, text in typed.pastes.items() if chip in typed.text}
    table = {"text": typed.text, **({"pastes": pastes} if pastes else {})}
    return json.dumps(table, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def parsed(line: bytes) -> Typed | None:
    """The message in such a line; None if there is none."""
    try:
        table = json.loads(line)
        text, pastes = table["text"], table.get("pastes", {})
        if not isinstance(text, str) or not text.strip() or not isinstance(pastes, dict):
            return None
        clean = {_clean(enterable(str(chip))): _clean(str(pasted)) for chip, pasted in pastes.items()}
        return Typed(_clean(enterable(text)), clean)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _clean(text: str) -> str:
    """A text without what no terminal can be sent: half a surrogate pair, nul."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def found(history: Iterable[str], query: str, most: int = 200) -> list[str]:
    """The messages that have every word of a query, newest first, each once. Upper and lower case are the same."""
    words = query.casefold().split()
    out: dict[str, None] = {}
    for text in reversed(list(history)):
        folded = text.casefold()
        if text not in out and all(word in folded for word in words):
            out[text] = None
            if len(out) == most:
                break
    return list(out)


def step_back(history: list[str], at: int, prefix: str, step: int) -> int | None:
    """The next message in a direction that begins with what was typed; None if there is none.

    Args:
        history: oldest first.
        at: where the walk is; `len(history)` for the draft.
        prefix: what was typed; with an empty one every message will do.
        step: −1 for older ones, 1 for newer ones.
    """
    to = at + step
    while 0 <= to < len(history):
        if history[to].startswith(prefix):
            return to
        to += step
    return None
