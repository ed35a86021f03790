"""The leader key: it waits for a letter and shows their effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ...settings.actions import BY_ID
from ...settings.keymap import LEADER, KeyBinding, display, shown_keys
from ..closing import ClosingScreen
from .context import bindings_of

COLUMN_CELLS = 19
"""Cells of a letter with its effect: `↑  message before`, and a gap."""


class LeaderScreen(ClosingScreen[None], ModalScreen[None]):
    """The letters that may follow the leader key, over the lowest rows."""

    DEFAULT_CSS = """
    LeaderScreen {
        align: center bottom; background: $background 0%;
        & > Static {
            width: 1fr; height: auto; max-height: 100%; background: $surface; padding: 0 1;
            border-top: solid $border; border-title-color: $primary; border-title-style: bold;
            link-color: $quiet; link-background: transparent; link-style: none;
            link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
        }
        & > Static.-repeat { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(LEADER),
        Binding("ctrl+o", "close", "Close", show=False, priority=True, id="leader", tooltip="Close"),
        Binding("escape,ctrl+c", "close", "Close", show=False, priority=True, tooltip="Close"),
    ]

    def __init__(self, keymap: Mapping[str, str], do: Callable[[str], None]) -> None:
        super().__init__()
        self._keymap = keymap
        self._do = do
        self._letters = Static()
        self._repeatable: tuple[KeyBinding, ...] = ()
        """Letters that may follow one that repeats."""

    def compose(self) -> ComposeResult:
        self._letters.border_title = f"{shown_keys('leader', self._keymap)}, then a letter, or esc"
        yield self._letters

    def on_resize(self) -> None:
        cells = self.app.size.width - 2
        keys = self._repeatable or LEADER
        columns = max(1, cells // COLUMN_CELLS)
        rows = -(-len(keys) // columns)
        lines = [Content("").join(self._item(key, cells // columns) for key in keys[row::rows]) for row in range(rows)]
        if self._repeatable:
            lines[-1] = Content.assemble(lines[-1], ("esc", "bold $primary"), (" done", "$quiet"))
        self._letters.update(Content("\n").join(lines))

    def _item(self, key: KeyBinding, cells: int) -> Content:
        letter = display(self._keymap.get(key.id) or key.keys)
        label = Content(f"  {key.short}").stylize(f"@click=screen.{key.action}")
        item = Content.assemble((letter, "bold $primary"), label).truncate(cells - 1, ellipsis=True)
        return item.pad_right(cells - item.cell_length)

    def action_do(self, id: str) -> None:
        row = BY_ID[id]
        if row.repeat:
            # With its counterpart: shorter and longer, before and after.
            self._repeatable = tuple(key for key in LEADER if BY_ID[key.id.removeprefix("leader_")].repeat == row.repeat)
            self._letters.add_class("-repeat")
            self.on_resize()
        else:
            self.dismiss(None)
        self._do(id)

    def action_close(self) -> None:
        self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        """Close; ring the bell for an unbound letter, and pass any other key to the chat."""
        event.stop()
        event.prevent_default()
        self.dismiss(None)
        if event.is_printable and not self._repeatable:
            self.app.bell()
        else:
            self.app.post_message(events.Key(event.key, event.character))

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(None)
