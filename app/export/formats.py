"""Chats and races as files: a web page, JSON that can be opened again, and chats as Markdown too (docs/files.md). The suffix of
a file decides its format, no file is overwritten by default, and a file is written whole or not at all."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from ...errors import UserError
from ...plain_file import replacing, user_path
from ..race.record import RaceRecord
from ..saved.capture import SavedChat, capture
from ..saved.chat_json import chat_json
from ..saved.race_json import race_json
from ..settings.locations import exports_folder
from ..text.cells import one_line
from .html import chat_html
from .look import Look
from .markdown import chat_markdown
from .race_html import race_html

__all__ = ["FORMATS", "Look", "SavedChat", "capture", "export_chat", "export_race", "target"]

FORMATS = {"html": "web page", "md": "Markdown", "json": "all there is"}
"""Format, which is also the file's suffix → its description."""

SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json"}
"""Suffix of a file → format."""

_CHUNK = 1 << 16
_BREATH_SECONDS = 0.001
"""Pause after each chunk, so that an export's thread leaves the interface its turns."""

_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "its folder is not writable",
    errno.EPERM: "its folder is not writable",
    errno.ENOENT: "there is no such folder",
    errno.ENOTDIR: "there is no such folder",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EISDIR: "it is a folder",
    errno.EFBIG: "it is too large for this disk",
}


def format_of(path: Path) -> str:
    """Return the format that a file's suffix names.

    Raises:
        UserError: it names none; lists them.
    """
    if format := SUFFIXES.get(path.suffix.lower()):
        return format
    has = f"ends in {one_line(path.suffix)}" if path.suffix else "has no extension"
    raise UserError(f"{one_line(path.name) or 'The file'} {has}. Choose .html, .md or .json.")


def target(text: str, format: str | None = None, stem: str = "specchat") -> Path:
    """Return the file that an argument names.

    Args:
        text: the argument; `~` is the home folder. A folder that exists, or nothing for that of exports, stands for a file in
            it named by the time.
        format: the required format; that of the suffix if None.
        stem: beginning of an automatic name.

    Raises:
        UserError: its suffix names no format, or another one than `format`.
    """
    if "\0" in text:
        raise UserError("A file name cannot contain the NUL character. Choose another name.")
    path = user_path(text) if text else exports_folder()
    if format is not None and (not text or os.path.isdir(path)):
        return path / f"{stem}-{datetime.now():%Y-%m-%d-%H%M%S}.{format}"
    if format is None:
        if os.path.isdir(path):
            raise UserError(f"{one_line(text)} is a folder. Give a file in it that ends in .html, .md or .json.")
        format_of(path)
        return path
    named = SUFFIXES.get(path.suffix.lower())
    if named is None:
        return path.with_name(f"{path.name}.{format}")
    if named != format:
        raise UserError(f"{one_line(path.name)} ends in {path.suffix}, but you asked for {format}. Leave one of them out.")
    return path


def write(path: Path, chunks: Iterable[str], overwrite: bool = False) -> Path:
    """Write a file, whole or not at all; returns its path.

    Args:
        path: the file; `name-2.html` is used if `name.html` exists.
        chunks: its text. Lone surrogates become escapes as JSON has them.
        overwrite: replace a file that exists.

    Raises:
        UserError: it cannot be written; nothing is left of it, and an existing file is unchanged.
    """
    try:
        # The target of a link is replaced, not the link.
        place = path.resolve() if overwrite else path.absolute()
        if overwrite and place.exists() and not place.is_file():
            raise UserError(f"{one_line(str(path))} is not a regular file. Choose another name.")
        place = place if overwrite else _free(place)
        with replacing(place) as file:
            since = 0
            for chunk in chunks:
                since += file.write(chunk.encode("utf-8", "backslashreplace"))
                if since >= _CHUNK:
                    time.sleep(_BREATH_SECONDS)
                    since = 0
        return place
    except OSError as error:
        why = _WHY.get(error.errno or 0) or one_line(error.strerror or str(error))
        raise UserError(f"Could not write {one_line(str(path))}: {why}. Choose another place.") from None


def _free(place: Path) -> Path:
    """Return the path, or the first free one with a number."""
    numbered = (place.with_name(f"{place.stem}-{number}{place.suffix}") for number in count(2))
    return next(name for name in chain([place], numbered) if not os.path.lexists(name))


def export_chat(chat: SavedChat, path: Path, look: Look, overwrite: bool = False) -> Path:
    """Write a chat in the format of the file's suffix; returns its path (`name-2.html` if `name.html` exists).

    Raises:
        UserError: the suffix names no format, or the file cannot be written; nothing is left of it.
    """
    return write(path, chat_chunks(chat, format_of(path), look), overwrite)


def export_race(record: RaceRecord, path: Path, look: Look, overwrite: bool = False) -> Path:
    """Write a race as a web page or as JSON, by the file's suffix; returns its path as `export_chat` does.

    Raises:
        UserError: the suffix names no format, or the file cannot be written; nothing is left of it.
    """
    return write(path, race_chunks(record, format_of(path), look), overwrite)


def race_chunks(record: RaceRecord, format: str, look: Look) -> Iterator[str]:
    """Yield a race as `html` or `json` in pieces."""
    return race_html(record, look) if format == "html" else race_json(record)


def chat_chunks(chat: SavedChat, format: str, look: Look) -> Iterator[str]:
    """Yield a chat in one of FORMATS in pieces."""
    match format:
        case "html":
            return chat_html(chat, look)
        case "md":
            return chat_markdown(chat, thoughts=look.thoughts)
        case _:
            return chat_json(chat)
