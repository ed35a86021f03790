"""Chats and races as files: a picture, a web page, Markdown, or JSON that can be opened again. docs/files.md tells more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..race.record import RaceRecord
from ..saved.capture import SavedChat, capture
from ..saved.chat_json import chat_json
from ..saved.race_json import race_json
from ..theming.colouring import Colouring
from ..theming.themes import Palette
from .files import FORMATS, format_of, target, write
from .html import chat_html
from .look import Look
from .markdown import chat_markdown
from .race import race_markdown
from .race_html import race_html
from .race_svg import race_svg
from .svg import chat_svg

__all__ = ["FORMATS", "Look", "SavedChat", "capture", "export_chat", "export_race", "target"]


def export_chat(chat: SavedChat, path: Path, look: Look, overwrite: bool = False) -> Path:
    """Write a chat in the format that the file's suffix names; returns where it is (`name-2.html` if there was a `name.html`).

    Raises:
        UserError: the suffix names no format, or the file cannot be written; nothing is left of it.
    """
    return write(path, chat_chunks(chat, format_of(path), look), overwrite)


def export_race(record: RaceRecord, path: Path, palette: Palette, way: Colouring = "length", overwrite: bool = False) -> Path:
    """Write a race in the format that the file's suffix names; returns where it is (`name-2.html` if there was a `name.html`).

    Raises:
        UserError: the suffix names no format, or the file cannot be written; nothing is left of it.
    """
    return write(path, race_chunks(record, format_of(path), Look(palette, way)), overwrite)


def race_chunks(record: RaceRecord, format: str, look: Look) -> Iterator[str]:
    """A race in one of FORMATS, piece by piece."""
    match format:
        case "html":
            return race_html(record, look)
        case "svg":
            return race_svg(record, look)
        case "md":
            return race_markdown(record)
        case _:
            return race_json(record)


def chat_chunks(chat: SavedChat, format: str, look: Look) -> Iterator[str]:
    """A chat in one of FORMATS, piece by piece."""
    match format:
        case "html":
            return chat_html(chat, look)
        case "svg":
            return chat_svg(chat, look)
        case "md":
            return chat_markdown(chat, thoughts=look.thoughts)
        case _:
            return chat_json(chat)
