"""The line at the bottom: the few most useful keys, as they are mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ...settings.keymap import CHAT, Key, display
from ...theming.colouring import Way, legend_line

GAP = 3
"""Cells between two keys."""

LEGEND_FROM = 90
"""Narrower bars have keys alone."""


class KeyBar(Widget):
    """Keys with what they do, as many as fit; each can be clicked.

    Args:
        keymap: binding id → keys, where not the default.
        order: ids in the order of their use; those at the end are left out first.
    """

    DEFAULT_CSS = """
    KeyBar {
        height: 1; padding: 0 1; background: $surface; color: $quiet;
        link-color: $quiet; link-background: transparent; link-style: none;
        link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
    }
    """
    ORDER = ("cancel", "help", "next_method", "method_menu", "race", "panels", "palette", "theme_menu", "copy_answer", "quit")

    colouring: reactive[Way | None] = reactive[Way | None](None)
    """Whose legend to show at the end, where there is room."""
    busy: reactive[bool] = reactive(False)
    """Whether there is an answer to stop."""

    def __init__(self, keymap: Mapping[str, str], order: Sequence[str] = ORDER, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        known = {key.id: key for key in CHAT}
        self._keys: list[Key] = [known[name] for name in order]

    def render(self) -> Content:
        """One line."""
        line = Content("")
        parts = legend_line(self.colouring) if self.colouring and self.size.width >= LEGEND_FROM else []
        shown = Content.assemble(*parts)
        room = self.size.width - (shown.cell_length + GAP if shown else 0)
        for key in self._keys:
            if key.id == "cancel" and not self.busy:
                continue
            label = Content(f" {key.short}").stylize(f"@click={key.action}")
            part = Content.assemble((display(self._keymap.get(key.id, key.keys)), "bold $primary"), label)
            gap = " " * GAP if line else ""
            if line.cell_length + len(gap) + part.cell_length > room:
                break
            line = Content.assemble(line, gap, part)
        return Content.assemble(line, " " * (self.size.width - line.cell_length - shown.cell_length), shown) if shown else line
