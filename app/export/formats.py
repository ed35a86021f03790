"""Chats and races as files: a web page, JSON that can be opened again, and chats as Markdown too (docs/files.md). The suffix of
a file decides its format, no file is overwritten by default, and a file is written whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from ...errors import UserError
from ...plain_file import replacing, user_path
from ..race.record import RaceRecord
from ..saved.chat_json import SavedChat, capture, chat_json, race_json
from ..settings.locations import exports_folder
from ..text.cells import one_line
from .html import Look, chat_html
from .markdown import chat_markdown
from .race_html import race_html

__all__ = ["FORMATS", "Look", "SavedChat", "capture", "export", "target"]

FORMATS = {"html": "web page", "md": "Markdown", "json": "all there is"}
"""Format, which is also the file's suffix → its description."""

_CHUNK = 1 << 16
_BREATH_SECONDS = 0.001
"""Pause after each chunk, so that an export's thread leaves the interface its turns."""


def format_of(path: Path) -> str:
    """Return the format that a file's suffix names.

    Raises:
        UserError: it names none; lists them.
    """
    if (format := path.suffix.lower()[1:]) in FORMATS:
        return format
    raise UserError(f"{one_line(path.name) or 'The file'} has no format. Choose a name that ends in .html, .md or .json.")


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
    if format is None:
        format_of(path)
        return path
    if not text or os.path.isdir(path):
        return path / f"{stem}-{datetime.now():%Y-%m-%d-%H%M%S}.{format}"
    named = path.suffix.lower()[1:]
    if named in FORMATS and named != format:
        raise UserError(f"{one_line(path.name)} ends in {path.suffix}, but you asked for {format}. Leave one of them out.")
    return path if named == format else path.with_name(f"{path.name}.{format}")


def write(path: Path, texts: Iterable[str], overwrite: bool = False) -> Path:
    """Write a file, whole or not at all; returns its path.

    Args:
        path: the file; `name-2.html` is used if `name.html` exists.
        texts: its text in pieces. Lone surrogates become escapes as JSON has them.
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
            for text in texts:
                since += file.write(text.encode("utf-8", "backslashreplace"))
                if since >= _CHUNK:
                    time.sleep(_BREATH_SECONDS)
                    since = 0
        return place
    except OSError as error:
        why = one_line(error.strerror or str(error))
        raise UserError(f"Could not write {one_line(str(path))} ({why}). Choose another place.") from None


def _free(place: Path) -> Path:
    """Return the path, or the first free one with a number."""
    numbered = (place.with_name(f"{place.stem}-{number}{place.suffix}") for number in count(2))
    return next(name for name in chain([place], numbered) if not os.path.lexists(name))


def export(saved: SavedChat | RaceRecord, path: Path, look: Look, overwrite: bool = False) -> Path:
    """Write a chat or a race in the format of the file's suffix; returns its path (`name-2.html` if `name.html` exists).

    Raises:
        UserError: the suffix names no format, or the file cannot be written; nothing is left of it.
    """
    return write(path, chunks(saved, format_of(path), look), overwrite)


def chunks(saved: SavedChat | RaceRecord, format: str, look: Look) -> Iterator[str]:
    """Yield a chat in one of FORMATS, or a race as `html` or `json`, in pieces."""
    if isinstance(saved, RaceRecord):
        return race_html(saved, look) if format == "html" else race_json(saved)
    if format == "json":
        return chat_json(saved)
    return chat_html(saved, look) if format == "html" else chat_markdown(saved, thoughts=look.thoughts)
