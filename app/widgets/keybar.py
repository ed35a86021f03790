"""The line at the bottom: the few most useful keys, as they are mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.widget import Widget

from ..keymap import CHAT, Key, display


class KeyBar(Widget):
    """Keys with what they do, as many as fit; each can be clicked.

    Args:
        keymap: binding id → keys, where not the default.
        first: ids in the order of their use; those at the end are left out first.
    """

    DEFAULT_CSS = """
    KeyBar { height: 1; padding: 0 1; background: $surface; color: $quiet; }
    """
    ORDER = ("help", "next_method", "method_menu", "cancel", "palette", "theme_menu", "copy_answer", "quit")

    def __init__(self, keymap: Mapping[str, str], first: Sequence[str] = ORDER, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        known = {key.id: key for key in CHAT}
        self._keys: list[Key] = [known[name] for name in first]

    def render(self) -> Content:
        """One line."""
        line = Content("")
        for key in self._keys:
            action = key.action if "." in key.action else f"screen.{key.action}"
            part = Content.assemble(
                (display(self._keymap.get(key.id, key.keys)), "bold $primary"), (f" {key.short}", "$quiet")
            ).stylize(f"@click={action}")
            gap = "   " if line else ""
            if line.cell_length + len(gap) + part.cell_length > self.size.width:
                break
            line = Content.assemble(line, gap, part)
        return line
