"""What stands around the panes of a race: the line at the top, and the keys at the bottom."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content
from textual.widget import Widget

from ...settings.keymap import RACE, display
from ...text.cells import fit, one_line
from ...theming.colouring import Way, legend_line

LEGEND_FROM = 110
"""Narrower headers have no room for the legend beside the prompt."""


class RaceHeader(Widget):
    """One line: what is raced on, what the colours mean, and how it stands."""

    DEFAULT_CSS = "RaceHeader { height: 1; padding: 0 1; background: $surface; color: $quiet; }"

    def __init__(self, prompt: str) -> None:
        super().__init__()
        self._prompt = one_line(prompt)
        self._way: Way = "off"
        self.state: tuple[str, str] = ("", "")

    def say(self, text: str, style: str) -> None:
        """How it stands."""
        if self.state != (text, style):
            self.state = (text, style)
            self.refresh()

    def colouring(self, way: Way) -> None:
        """What to show the legend of."""
        self._way = way
        self.refresh()

    def render(self) -> Content:
        """Left: the prompt. Right: the legend and the state."""
        left, right = Content.styled("race", "bold $primary"), Content.styled(*self.state)
        if self.size.width >= LEGEND_FROM:
            right = Content.assemble(*legend_line(self._way), "   ", right)
        room = self.size.width - left.cell_length - right.cell_length - 8
        if room > 8:
            left = Content.assemble(left, ("  ·  ", "$faint"), (fit(self._prompt, room), "$foreground"))
        return Content.assemble(left, " " * max(1, self.size.width - left.cell_length - right.cell_length), right)


class RaceKeys(Widget):
    """The keys that do something now."""

    DEFAULT_CSS = """
    RaceKeys {
        height: 1; padding: 0 1; background: $surface; color: $quiet;
        link-color: $quiet; link-background: transparent; link-style: none;
        link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
    }
    """

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._display = {key.id: display(keymap.get(key.id, key.keys)) for key in RACE}
        self._actions = {key.id: key.action for key in RACE}
        self._shown: tuple[tuple[str, str], ...] = ()
        self._panes = 0

    def show(self, shown: tuple[tuple[str, str], ...], panes: int) -> None:
        """Show these ids, each with what its key does now."""
        if (shown, panes) != (self._shown, self._panes):
            self._shown, self._panes = shown, panes
            self.refresh()

    def render(self) -> Content:
        """As many as fit."""
        line = Content("")
        for id, what in self._shown:
            key, action = self._display[id], self._actions[id]
            if id == "race_swap_1":
                key = f"{key}–{self._display[f'race_swap_{self._panes}']}"
                label = Content(f" {what}")
            else:
                label = Content(f" {what}").stylize(f"@click={action if '.' in action else f'screen.{action}'}")
            part = Content.assemble((key, "bold $primary"), label)
            if line.cell_length + part.cell_length + 3 > self.size.width:
                break
            line = Content.assemble(line, "   " if line else "", part)
        return line
