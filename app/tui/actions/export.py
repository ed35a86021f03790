"""Saving and opening chats and races. Files are read and written in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    from ...export.look import Look
    from ...race.record import RaceRecord

USAGE = "/export takes html, md or json and a file if you like, or a file that ends in one of these; then thoughts, with them."


class Exports:
    """Exports chats and races, and opens those that were saved."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.previous: Transcript | None = None
        """Chat that an opened or a new one replaced."""
        self.show_race: Callable[[RaceRecord], None] = lambda record: None
        """Shows a race from a file."""

    def _look(self, *, thoughts: bool = False) -> Look:
        from ...export.formats import Look

        return Look(self.host.themes.palette, self.host.view.colouring, thoughts=thoughts)

    @runs(actions.EXPORT)
    def command(self, *arguments: str) -> None:
        """Export to `FORMAT`, `FILE` or `FORMAT FILE`, with `!` to overwrite; without words, ask for the format."""
        from ...export.formats import FORMATS

        overwrite = arguments[-1:] in (("!",), ("--force",))
        words = list(arguments[:-1] if overwrite else arguments)
        thoughts = "thoughts" in words[1:]
        if thoughts:
            words.remove("thoughts")
        format = words.pop(0).lower() if words and words[0].lower() in FORMATS else None
        if len(words) > 1:
            raise UserError(f"{USAGE} Put a name with spaces in quotes.")
        if format is None and not words:
            self.choose()
        else:
            self.export(words[0] if words else "", format, overwrite, thoughts=thoughts)

    def choose(self) -> None:
        """Ask for the format of the chat, then export it."""
        self._must_have_entries()
        details = {
            "html": "Hover over a pass to see its details.",
            "md": "Texts and figures, without colours.",
            "json": "Colours and trees; /open brings it back.",
        }
        self._ask("Export this chat", details, lambda format: self.export("", format))

    def choose_race(self, record: RaceRecord) -> None:
        """Ask for the format of a race, then write it to a file in the folder of exports."""
        from ...saved.race_json import frozen_race

        snapshot = frozen_race(record)
        details = {
            "html": "Replays the race at its recorded pace.",
            "json": "Passes, trees, clocks; /open shows it again.",
        }
        self._ask("Export this race", details, lambda format: self.export_race(snapshot, format))

    def _ask(self, title: str, details: Mapping[str, str], chosen: Callable[[str], None]) -> None:
        from ...export.formats import FORMATS

        items = [MenuItem(format, format, FORMATS[format], detail=detail) for format, detail in details.items()]
        self.host.ask(Menu(f"{title} to {short_path(exports_folder())} as", items, "", self.host.live.keymap), chosen)

    def export(self, text: str, format: str | None = None, overwrite: bool = False, *, thoughts: bool = False) -> None:
        """Write the chat to a file.

        Args:
            text: the file as typed; empty for one in the folder of exports, named after the time.
            format: one of FORMATS; by the file's suffix if None.
            overwrite: replace an existing file.
            thoughts: include the model's thoughts.

        Raises:
            UserError: it cannot be attempted; a later failure becomes a notice.
        """
        from ...export.formats import capture, export, target

        self._must_have_entries()
        path = target(text, format)
        chat, look = capture(self.host.dialogue), self._look(thoughts=thoughts)
        self._write(path, lambda: export(chat, path, look, overwrite))

    def export_race(self, record: RaceRecord, format: str) -> None:
        """Write a race to a file in the folder of exports.

        Raises:
            UserError: it cannot be attempted; a later failure becomes a notice.
        """
        from ...export.formats import export, target

        path = target("", format, "specchat-race")
        look = self._look()
        self._write(path, lambda: export(record, path, look))

    def _write(self, path: Path, work: Callable[[], Path]) -> None:
        def done(place: Path) -> None:
            renamed = f" ({one_line(path.name)} already exists; add ! to overwrite it)" if place.name != path.name else ""
            self.host.tell(f"Saved as {short_path(place)}{renamed}.")

        def write() -> Path:
            if path.parent == exports_folder():
                ensure(path.parent)
            return work()

        self.host.in_background(write, done, f"Writing {one_line(path.name)} …")

    @runs(actions.OPEN)
    def open(self, *words: str) -> None:
        """Open a chat or a race saved as JSON; without words, return to the previous chat."""
        if not words:
            if self.previous is None:
                raise UserError("/open takes a chat or a race saved as JSON; alone it returns to the previous chat.")
            self.host.dialogue.must_be_idle("open a chat")
            self._swap(self.previous)
            return
        if len(words) > 1:
            raise UserError("/open takes one JSON file of a chat or a race. Put a name with spaces in quotes.")
        from ...saved.chat_json import SavedChat
        from ...saved.race_json import read_saved

        self.host.dialogue.must_be_idle("open a file")
        path = user_path(words[0])

        def done(opened: SavedChat | RaceRecord) -> None:
            self.host.dialogue.must_be_idle("open a file")
            if not isinstance(opened, SavedChat):
                self.show_race(opened)
                return
            back = self._swap(opened.transcript)
            by = f", from {one_line(opened.model_name)}" if opened.model_name else ""
            self.host.tell(f"Opened {one_line(path.name)}{by}. Your next message continues it.{back}")

        self.host.in_background(lambda: read_saved(path), done, f"Reading {one_line(path.name)} …")

    def _swap(self, transcript: Transcript) -> str:
        """Show a chat; return a sentence on the way back, empty if the chat before had no entries."""
        before = self.host.dialogue.transcript
        self.previous = before if before.entries else None
        self.host.show_chat(transcript)
        return " /open alone returns to the previous chat." if before.entries else ""

    def _must_have_entries(self) -> None:
        if not self.host.dialogue.transcript.entries:
            raise NotPossible("There is nothing to export yet. Ask something first.")
