"""The bar at the bottom: the keys that matter now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ...theming.colouring import Colouring, legend_line
from .context import KEYS, Hint, KeyContext, shown

GAP = 3
"""Cells between two keys."""

HELP = {"help", "ask_help", "race_help"}
"""Bindings that open the help."""

LEGEND_FROM = 90
"""Fewest cells of a bar with a legend."""


class KeyBar(Widget):
    """The keys of a context with their effects, as many as fit; each can be clicked."""

    DEFAULT_CSS = """
    KeyBar {
        height: 1; padding: 0 1; background: $surface; color: $quiet;
        link-color: $quiet; link-background: transparent; link-style: none;
        link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
    }
    """

    colouring: reactive[Colouring | None] = reactive[Colouring | None](None)
    """Colouring whose legend stands at the end, if there is room."""
    key_context: reactive[KeyContext | None] = reactive[KeyContext | None](None)

    def __init__(self, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap

    def render(self) -> Content:
        about = Content.assemble(*(legend_line(self.colouring) if self.colouring and self.size.width >= LEGEND_FROM else ()))
        room = self.size.width - (about.cell_length + GAP if about else 0)
        hints = list(self.key_context.hints if self.key_context is not None else ())
        line = self._line(hints)
        while line.cell_length > room and hints:
            # The key for help stays, since the help lists all keys.
            hints.remove(next((hint for hint in reversed(hints) if not HELP.intersection(hint.ids)), hints[-1]))
            line = self._line(hints)
        return Content.assemble(line, " " * (self.size.width - line.cell_length - about.cell_length), about) if about else line

    def _line(self, hints: Sequence[Hint]) -> Content:
        parts = []
        for hint in hints:
            label = Content(f" {hint.label}")
            if len(hint.ids) == 1:
                label = label.stylize(f"@click=press('{hint.ids[0]}')")
            parts.append(Content.assemble((shown(hint, self._keymap), "bold $primary"), label))
        return Content(" " * GAP).join(parts)

    async def action_press(self, id: str) -> None:
        if self.key_context is not None:
            await self.app.run_action(KEYS[id].action, self.key_context.place)
