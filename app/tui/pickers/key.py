"""Asks for the key that a binding is to have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from ...settings.keymap import ALL, CHAT, INPUT, KeyBinding, keys_of, spell, wanted_by
from ..keys.context import Hint
from .framed import FramedScreen


class KeyScreen(FramedScreen[dict[str, str]]):
    """Waits for a key; answers with the changes of the keymap (binding id → keys), None if all stays as it is."""

    DEFAULT_CSS = """
    KeyScreen {
        & > Frame { width: 64; max-width: 94%; }
        & #key-note { margin-top: 1; color: $quiet; }
        & #key-note.-wrong { color: $warning; }
    }
    """

    def __init__(self, binding: str, keymap: Mapping[str, str]) -> None:
        super().__init__("A key for this", keymap)
        self._binding: KeyBinding = next(key for key in ALL if key.id == binding)
        self._asked = ""

    def compose(self) -> ComposeResult:
        now = spell(",".join(keys_of(self._binding, self._keymap)))
        with self.frame:
            yield Static(Content(self._binding.what))
            yield Static(Content.assemble(("now ", "$quiet"), (now, "bold"), (", press another key", "$quiet")), id="key-note")

    def hints(self) -> Iterator[Hint]:
        """Any key but one is the answer, the one for help too."""
        yield Hint((), "takes it", "any key")

    def ways_out(self) -> tuple[Hint, ...]:
        return (Hint((), "cancel", "esc"),)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        key = event.key
        if key == "escape":
            self.dismiss(None)
            return
        if self._binding in (*CHAT, *INPUT) and event.is_printable and "+" not in key:
            self._say("Letters, digits and signs always type here: take one with ctrl or alt, or F1 to F12.")
            return
        taken = [other for other, _ in wanted_by(key, self._binding.id, self._keymap)]
        alone = [other for other in taken if keys_of(other, self._keymap) == [key]]
        if alone:
            self._say(f"{spell(key)} is the only key of {alone[0].id} ({alone[0].what}): give that another key first.")
            return
        if taken and self._asked != key:
            self._asked = key
            self._say(f"{spell(key)} is a key of {taken[0].id} ({taken[0].what}): pressed again, it goes from there to here.")
            return
        changes = {self._binding.id: key}
        for other in taken:
            changes[other.id] = ",".join(each for each in keys_of(other, self._keymap) if each != key)
        self.dismiss(changes)

    def _say(self, text: str) -> None:
        note = self.query_one("#key-note", Static)
        note.set_class(True, "-wrong")
        note.update(Content(text))
