"""`specchat chats` and `specchat why`."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import UserError
from ..settings.precedence import load_settings
from ..text.amounts import short_path
from ..text.cells import fit
from . import complete as completers
from .options import AsJson, argument, flag, option, print_json

if TYPE_CHECKING:
    from ..history.chats import ChatRow, OpenedChat

chats = typer.Typer(name="chats", help="List, search, show, delete and export your chats.", no_args_is_help=True)

Chat = Annotated[str, argument("The chat's number, title, or part of its title.", "CHAT", completers.chats)]
Thoughts = Annotated[bool, flag("--thoughts", "Include the model's thoughts.")]
Limit = Annotated[int, option("--limit", "Print at most N chats.", "N")]


@chats.command("list")
def list_chats(
    limit: Limit = 20,
    deleted: Annotated[bool, flag("--deleted", "List deleted chats, which can be restored.")] = False,
    json: AsJson = False,
) -> None:
    """List chats, the most recently changed first."""
    from ..history.chats import reading

    with reading() as history:
        rows = history.deleted()[:limit] if deleted else history.newest(limit=limit)
        count = len(rows) if deleted else history.count()
    if json:
        print_json({"chats": [_as_json(row) for row in rows], "count": count})
        return
    for row in rows:
        typer.echo(_line(row))
    if not rows:
        typer.echo("There are no deleted chats." if deleted else "There are no chats yet. Start one with `specchat`.")
    elif count > len(rows):
        typer.echo(f"… and {count - len(rows)} more: --limit {count} lists all.")


@chats.command()
def search(
    text: Annotated[
        str,
        argument("Find all of these words; put a phrase in double quotes.", "TEXT"),
    ],
    limit: Limit = 20,
    json: AsJson = False,
) -> None:
    """Find chats by what was said in them, newest first; part of a word is enough. Exit code 1: none found."""
    from ..history.chats import reading

    with reading() as history:
        matches = history.search(text, limit)
    if json:
        print_json({"chats": [{**_as_json(match.chat), "excerpt": "".join(match.excerpt)} for match in matches]})
    else:
        for match in matches:
            typer.echo(f"{_line(match.chat)}\n       {_fitted(''.join(match.excerpt), 7)}")
        if not matches:
            typer.echo("No chat contains that.", err=True)
    if not matches:
        raise typer.Exit(1)


@chats.command()
def show(chat: Chat, thoughts: Thoughts = False, json: AsJson = False) -> None:
    """Print a chat as Markdown, or as JSON with everything that `/open` needs."""
    from ..export.markdown import chat_markdown
    from ..saved.chat_json import chat_json

    opened = _open(chat)
    for chunk in chat_json(opened) if json else chat_markdown(opened, thoughts=thoughts):
        typer.echo(chunk.encode("utf-8", "backslashreplace"), nl=False)


def why(
    chat: Annotated[
        str | None,
        argument("The chat's number, title, or part of its title; else the last chat.", "CHAT", completers.chats),
    ] = None,
    json: AsJson = False,
) -> None:
    """Say why the last answer of a chat was no faster, and which one change would help most."""
    from ...engine.options import ModelInfo
    from ...engine.wire import decode
    from ..chat.entries import Answer
    from ..chat.why import diagnose
    from ..render.why_page import why_text

    opened = _open(chat)
    answers = [entry for entry in reversed(opened.transcript.entries) if isinstance(entry, Answer) and len(entry.log)]
    if not answers:
        raise UserError("No answer of this chat is kept with its passes, so nothing is known of its speed. Ask it again.")
    info = ModelInfo()
    with suppress(ValueError):  # written by another version of specchat
        info = decode(ModelInfo, opened.model)
    diagnosis = diagnose(answers[0], info, answers)
    if json:
        print_json(asdict(diagnosis))
    else:
        typer.echo(why_text(diagnosis))


@chats.command()
def delete(
    chat: Chat,
    undo: Annotated[bool, flag("--undo", "Restore it; this is possible for 30 days.")] = False,
) -> None:
    """Delete a chat, or restore it."""
    from ..history.chats import reading
    from ..history.past import forget_deleted

    with reading() as history:
        row = history.find(chat, deleted=undo)
        if undo:
            history.undelete(row.id)
        else:
            history.delete(row.id)
    if not undo:
        forget_deleted()
    if undo:
        typer.echo(f"Restored: {row.id}  {row.title}")
    else:
        typer.echo(f"Deleted: {row.id}  {row.title}\n`specchat chats delete --undo {row.id}` undoes this (kept 30 days).")


@chats.command()
def export(
    chat: Chat,
    file: Annotated[Path, argument("The file to write; it ends in .html, .md or .json.", "FILE")],
    force: Annotated[bool, flag("--force", "Overwrite an existing file.")] = False,
    thoughts: Thoughts = False,
) -> None:
    """Write a chat to a file, in the colours of your settings."""
    from ..export import formats
    from ..export.html import settings_look

    settings, _ = load_settings()
    path = formats.target(str(file), None)
    opened = _open(chat)
    place = formats.export(opened, path, settings_look(settings, thoughts=thoughts), force)
    other = f" ({path.name} already exists; --force overwrites it)" if place.name != path.name else ""
    typer.echo(f"Saved as {short_path(place)}{other}.")


def _line(row: ChatRow) -> str:
    at = datetime.fromtimestamp(row.changed)
    return f"{row.id:>5}  {_fitted(f'{at:%Y-%m-%d %H:%M}  {row.answers:>3}  {row.title}', 7)}"


def _fitted(text: str, indent: int) -> str:
    """Cut a text to the rest of a terminal's line; in a pipe it stays whole."""
    return fit(text, shutil.get_terminal_size().columns - indent) if sys.stdout.isatty() else text


def _as_json(row: ChatRow) -> dict[str, object]:
    times = {name: datetime.fromtimestamp(getattr(row, name)).astimezone().isoformat() for name in ("created", "changed")}
    return asdict(row) | times


def _open(chat: str | None) -> OpenedChat:
    """Open a chat by its number or title, the last one if None."""
    from ..history.chats import reading

    with reading() as history:
        return history.open(history.find(chat).id)
