"""`specchat history import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson, flag

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="What they are is seen from their content; several at once.", show_default=False),
]


def import_chats(
    files: Files,
    dry_run: Annotated[bool, flag("--dry-run", "Count what would be imported, and change nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Import chats into the history: logs.db of llm, exports of ChatGPT and Claude, JSONL with messages, ShareGPT.

    What is there already is passed over. Exit code 1: a file or a record could not be read; 130: cancelled with ctrl+c.
    """
    import signal
    from threading import Event

    from ..importing.keeping import Tally
    from ..importing.run import import_files
    from ..terminal.output import Notes

    stop = Event()
    notes = Notes("auto")

    def cancel(*_: object) -> None:
        if stop.is_set():  # asked for twice
            raise KeyboardInterrupt
        stop.set()

    def progress(name: str, done: int, total: int, tally: Tally) -> None:
        if not json:
            share = f"{min(1.0, done / total):.0%}" if total else ""
            notes.progress(f"{name} {share}: {tally.chats + tally.branches:,} chats, {tally.known:,} known")

    before = signal.signal(signal.SIGINT, cancel)
    try:
        report = import_files(files, dry=dry_run, progress=progress, stop=stop)
    finally:
        signal.signal(signal.SIGINT, before)
        notes.clear()
    for sentence in (*report.told, *report.problems()):
        notes.sentence(sentence)
    if json:
        _print(report.as_dict())
    else:
        typer.echo(report.sentence())
    raise typer.Exit(130 if report.cancelled else 1 if report.bads or report.failed else 0)


def _print(body: object) -> None:
    import json

    typer.echo(json.dumps(body, indent=1))
