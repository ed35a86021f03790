"""What was typed in earlier chats, for the up key: a file of JSON lines in the data folder, this user's alone.

Several chats may add to it at once: each line is added under a lock. A line that cannot be read is passed over.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ... import plain_file
from ..settings.locations import data_folder, ensure
from ..text.cells import enterable, has_words

MOST = 1000
"""Messages that are kept."""

MOST_BYTES = 1_000_000
"""Bytes of the file; at twice that the oldest go."""

MOST_ONE = 100_000
"""Bytes of one message with what was pasted into it; a longer one is kept for as long as its chat is open."""


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
            status = self.path.stat()
            self._seen = (status.st_mtime_ns, status.st_size)
            lines = plain_file.read_bytes(self.path, 4 * MOST_BYTES).splitlines()
        except FileNotFoundError:
            return []
        found: list[Typed] = []
        for typed in filter(None, map(parsed, lines)):
            if found and found[-1].text == typed.text:
                found.pop()
            found.append(typed)
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
        with open(self.path, "r+b", opener=_own) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # which ends with the file
            size = file.seek(0, os.SEEK_END)
            if size + len(line) > 2 * MOST_BYTES:
                newest = self._newest()
                file.seek(0)  # over what is there, so that a kill or a full disk in between costs nothing
                file.writelines(newest)
                file.truncate()
            elif size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                line = b"\n" + line  # whoever wrote last was killed in the middle
            file.write(line)
        return True

    def _newest(self) -> list[bytes]:
        """The last messages, up to MOST_BYTES, as lines."""
        kept, size = deque[bytes](), 0
        for line in map(dumped, reversed(self.read())):
            size += len(line)
            if size > MOST_BYTES:
                break
            kept.appendleft(line)
        return list(kept)


def _own(path: str, flags: int) -> int:
    """Open a file that nobody else may read."""
    file = os.open(path, flags | os.O_CREAT | os.O_NONBLOCK, 0o600)
    plain_file.require_ordinary(os.fstat(file))
    return file


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
    """The messages that have every word of a query, newest first, each once."""
    out: dict[str, None] = {}
    for text in reversed(list(history)):
        if text not in out and has_words(text, query):
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
