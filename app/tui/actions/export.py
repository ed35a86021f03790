"""Saving chats and races, and opening chats. Files are read and written in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....errors import NotPossible, UserError
from ....plain_file import user_path
from ...settings import actions
from ...settings.locations import ensure, exports_folder
from ...text.amounts import short_path
from ...text.cells import one_line
from ..host import Host
from ..pickers.menu import Menu, MenuItem
from .dispatch import runs

if TYPE_CHECKING:
    from ...chat.transcript import Transcript
    from ...race.record import RaceRecord
    from ...saved.chat_json import SavedChat


class Exports:
    """Exports chats and races, and opens saved chats."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.previous: Transcript | None = None
        """Chat that an opened or a new one replaced."""

    @runs(actions.EXPORT)
    def command(self, *words: str) -> None:
        """Export to a file, or in a format to one named after the time; without words, ask for the format."""
        from ...export.formats import FORMATS

        names = [word for word in words if word != "thoughts"]
        if len(names) > 1:
            raise UserError(
                "/export takes html, md, json, or a file that ends in one of these. Put a name with spaces in quotes."
            )
        if not self.host.dialogue.transcript.entries:
            raise NotPossible("There is nothing to export yet. Ask something first.")
        thoughts = len(names) < len(words)
        if names:
            format = names[0] if names[0] in FORMATS else None
            self._export_chat("" if format else names[0], format, thoughts)
            return
        self._ask("Export this chat", [*FORMATS], lambda format: self._export_chat("", format, thoughts))

    def _export_chat(self, text: str, format: str | None, thoughts: bool) -> None:
        """Write the chat to a file, as typed, or else named after the time.

        Raises:
            UserError: it cannot be attempted; a later failure becomes a notice.
        """
        from ...export.formats import Look, capture, export, target

        path = target(text, format)
        chat, look = capture(self.host.dialogue), Look(self.host.themes.palette, self.host.view.colouring, thoughts=thoughts)
        self._write(path, lambda: export(chat, path, look))

    def choose_race(self, record: RaceRecord) -> None:
        """Ask for the format of a race, then write it to a file in the folder of exports."""
        from ...export.formats import Look, export, target
        from ...saved.chat_json import frozen_race

        snapshot = frozen_race(record)
        look = Look(self.host.themes.palette, self.host.view.colouring)

        def chosen(format: str) -> None:
            path = target("", format, "specchat-race")
            self._write(path, lambda: export(snapshot, path, look))

        self._ask("Export this race", ["html", "json"], chosen)

    def _ask(self, title: str, formats: Sequence[str], chosen: Callable[[str], None]) -> None:
        from ...export.formats import FORMATS

        items = [MenuItem(format, format, detail=FORMATS[format]) for format in formats]
        self.host.ask(Menu(f"{title} to {short_path(exports_folder())} as", items, "", self.host.live.keymap), chosen)

    def _write(self, path: Path, work: Callable[[], Path]) -> None:
        def write() -> Path:
            if path.parent == exports_folder():
                ensure(path.parent)
            return work()

        def done(place: Path) -> None:
            self.host.tell(f"Saved as {short_path(place)}.")

        self.host.in_background(write, done, f"Writing {one_line(path.name)} …")

    @runs(actions.OPEN)
    def open(self, *words: str) -> None:
        """Open a chat saved as JSON; without words, return to the previous chat."""
        if not words and self.previous is not None:
            self.host.dialogue.must_be_idle("open a chat")
            self._swap(self.previous)
            return
        if len(words) != 1:
            raise UserError("/open takes one chat saved as JSON. Put a name with spaces in quotes.")
        from ...saved.chat_json import read_chat

        self.host.dialogue.must_be_idle("open a file")
        path = user_path(words[0])

        def done(opened: SavedChat) -> None:
            self.host.dialogue.must_be_idle("open a file")
            back = self._swap(opened.transcript)
            by = f", from {one_line(opened.model_name)}" if opened.model_name else ""
            self.host.tell(f"Opened {one_line(path.name)}{by}. Your next message continues it.{back}")

        self.host.in_background(lambda: read_chat(path), done, f"Reading {one_line(path.name)} …")

    def _swap(self, transcript: Transcript) -> str:
        """Show a chat; return a sentence on the way back, empty if the chat before had no entries."""
        before = self.host.dialogue.transcript
        self.previous = before if before.entries else None
        self.host.show_chat(transcript)
        return " /open alone returns to the previous chat." if before.entries else ""
