"""What stands around the panes of a race: the line at the top, and which keys are at the bottom."""

from __future__ import annotations

from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget

from ...race.race import FEWEST, MOST, Race
from ...text.cells import fit, one_line
from ...theming.colouring import Colouring, legend_line
from ..keys.context import KeyContext, hints

LEGEND_FROM = 110
"""Narrower headers have no room for the legend beside the prompt."""


class RaceHeader(Widget):
    """One line: what is raced on, what the colours mean, and how it stands."""

    DEFAULT_CSS = "RaceHeader { height: 1; padding: 0 1; background: $surface; color: $quiet; }"

    def __init__(self, prompt: str) -> None:
        super().__init__()
        self._prompt = one_line(prompt)
        self._way: Colouring = "off"
        self.state: tuple[str, str] = ("", "")

    def say(self, text: str, style: str) -> None:
        if self.state != (text, style):
            self.state = (text, style)
            self.refresh()

    def colouring(self, way: Colouring) -> None:
        self._way = way
        self.refresh()

    def render(self) -> Content:
        left, right = Content.styled("race", "bold $primary"), Content.styled(*self.state)
        if self.size.width >= LEGEND_FROM:
            right = Content.assemble(*legend_line(self._way), "   ", right)
        room = self.size.width - left.cell_length - right.cell_length - 8
        if room > 8:
            left = Content.assemble(left, ("  ·  ", "$faint"), (fit(self._prompt, room), "$foreground"))
        return Content.assemble(left, " " * max(1, self.size.width - left.cell_length - right.cell_length), right)


def race_keys(race: Race, hidden: bool, place: DOMNode) -> KeyContext:
    """What the user is doing at a race, and the keys that matter for it."""
    panes = len(race.racers)
    swap = (" ".join(f"race_swap_{n}" for n in range(1, panes + 1)), "swap")
    line_up = [swap, ("race_model", ""), *([("race_add", "")] if panes < MOST else [])]
    line_up += [("race_remove", "")] if panes > FEWEST else []
    around = [("race_help", ""), ("race_theme", ""), ("race_colours", ""), ("race_up race_down", "scroll")]
    if race.running:
        running = [("race_leave", "stop"), ("race_pause", "continue" if race.paused else "pause"), ("race_rerun", "")]
        return KeyContext("A race is running", hints(*running, *line_up, *around), place)
    done = [("race_leave", ""), ("race_rerun", ""), ("race_export", "")]
    results = ("race_finish", "show results" if hidden else "")
    return KeyContext("A race is finished", hints(*done, *line_up, results, *around), place)
