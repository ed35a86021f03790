"""An import from beginning to end: files in, a report out. Cancelled at any moment, what was taken in so far stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from ...errors import UserError
from ..history.store import Store, history_file, trouble
from ..text.cells import fit, one_line
from .conversation import Bad
from .keeping import Importer, Tally
from .sources import Batch, read_chats

SHOWN = 20
"""Records that could not be read and are named one by one."""

TOLD_SECONDS = 0.1
"""Between two times that progress is told."""


@dataclass(slots=True)
class Report:
    """How it went."""

    dry: bool
    tally: Tally = field(default_factory=Tally)
    bad: list[Bad] = field(default_factory=list)
    """The first SHOWN records that could not be read."""
    bads: int = 0
    """How many there were."""
    failed: list[str] = field(default_factory=list)
    """A sentence for each file that could not be read, or not to its end."""
    cancelled: bool = False
    told: list[str] = field(default_factory=list)
    """What was done to open the history that a person should know of."""

    def sentence(self) -> str:
        """All of it in a sentence or two."""
        tally = self.tally
        parts = [_count(tally.chats, "chat"), _count(tally.branches, "branch", "branches")]
        new = " and ".join(part for part in parts if part)
        said = []
        if new:
            said.append(f"{'Would import' if self.dry else 'Imported'} {new} ({_count(tally.messages, 'message')}).")
        if tally.continued:
            verb = "would go on" if self.dry else "went on"
            said.append(f"{_count(tally.continued, 'chat')} that you had {verb} with what is new.")
        if tally.known:
            said.append(f"{_count(tally.known, 'conversation')} {'was' if tally.known == 1 else 'were'} there already.")
        if tally.missing:
            said.append(f"{_count(tally.missing, 'image or file', 'images and files')} left out; a mark stands for each.")
        if tally.left_out:
            said.append(f"{_count(tally.left_out, 'older branch', 'older branches')} left out.")
        if self.bads:
            said.append(f"{_count(self.bads, 'record')} could not be read.")
        if self.cancelled:
            said.append("Cancelled: the rest was not read; importing again goes on from here.")
        return " ".join(said) or "There was nothing to import."

    def as_dict(self) -> dict[str, Any]:
        """What --json prints."""
        return {
            "dry_run": self.dry,
            **asdict(self.tally),
            "unreadable": self.bads,
            "cancelled": self.cancelled,
            "problems": self.problems(),
        }

    def problems(self) -> list[str]:
        """A sentence for each thing that went wrong."""
        out = [f"{fit(one_line(bad.place), 120)} {fit(one_line(bad.why), 300)}." for bad in self.bad]
        if self.bads > len(self.bad):
            out.append(f"{self.bads - len(self.bad):,} more records could not be read.")
        return out + self.failed


Progress = Callable[[str, int, int, Tally], None]
"""Told the file's name, how far it is of how much, and what was found so far."""


class _Cancelled(Exception):
    pass


def import_files(
    paths: Sequence[Path],
    *,
    dry: bool = False,
    progress: Progress | None = None,
    stop: Event | None = None,
    history: Path | None = None,
) -> Report:
    """Bring the conversations in some files into the history.

    Args:
        paths: the files.
        dry: count, and write nothing.
        progress: told a few times a second how far it is.
        stop: set it to cancel.
        history: the database; the user's own if None.

    Returns:
        what was done; a file that cannot be read is told in it, and the others are read all the same.

    Raises:
        UserError: the history cannot be written.
    """
    report = Report(dry)
    path = history or history_file()
    with ExitStack() as stack:
        store = None
        if not dry or path.exists():
            store = stack.enter_context(Store(path, reading=dry))
            report.told = list(store.told)
        batch = stack.enter_context(Batch())
        try:
            importer = stack.enter_context(Importer(store, dry))
            report.tally = importer.tally
            for file in paths:
                _read(file, importer, batch, report, progress, stop)
            for bad in batch.left():
                _bad(report, bad)
            importer.flush()
        except _Cancelled:
            report.cancelled = True
        except sqlite3.Error as error:
            raise UserError(f"{report.sentence()} {trouble(error, path)}" if report.tally else trouble(error, path)) from None
    return report


def _read(file: Path, importer: Importer, batch: Batch, report: Report, progress: Progress | None, stop: Event | None) -> None:
    told = 0.0

    def look(done: int, total: int) -> None:
        nonlocal told
        importer.rest()
        if stop is not None and stop.is_set():
            raise _Cancelled
        now = monotonic()
        if progress is not None and (now - told >= TOLD_SECONDS or done >= total):
            told = now
            progress(one_line(file.name), done, total, importer.tally)

    try:
        otherwise = file.stat().st_mtime
    except (OSError, ValueError):
        otherwise = None
    try:
        for found in read_chats(file, batch, look):
            if isinstance(found, Bad):
                _bad(report, found)
            else:
                importer.take(found, otherwise)
            if stop is not None and stop.is_set():
                raise _Cancelled
    except UserError as error:
        report.failed.append(str(error))


def _bad(report: Report, bad: Bad) -> None:
    report.bads += 1
    if len(report.bad) < SHOWN:
        report.bad.append(bad)


def _count(number: int, one: str, many: str = "") -> str:
    if not number:
        return ""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
