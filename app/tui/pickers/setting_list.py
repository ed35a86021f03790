"""The list of settings: a row each below the headings of their groups; only the visible ones are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import RenderOptions

from ...settings.rows import Row
from ...text.cells import fit, one_line, width
from ...text.lines import Line, ends, line

NAME_CELLS = 34
"""Of a setting's name, where there is room."""

NARROW = 64
"""Below so many cells names are cut sooner, and where a value comes from is told below the list alone."""


class SettingList(ScrollView, can_focus=False):
    """Shows settings, one of them under the cursor. The keys are the screen's."""

    DEFAULT_CSS = """
    SettingList {
        background: $surface; scrollbar-size-vertical: 1; overflow-x: hidden;
        scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
    }
    """
    cursor: reactive[int] = reactive(0, repaint=False)
    """Which of the rows; always one with a setting, if there is any."""

    @dataclass
    class Moved(Message):
        """Another setting is under the cursor."""

    @dataclass
    class Chosen(Message):
        """A setting was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self._places: list[int] = []

    def show(self, rows: Sequence[Row], key: str = "") -> None:
        """Show these rows.

        Args:
            rows: settings and headings.
            key: the setting that the cursor goes to, if it is among them.
        """
        self.rows = rows
        self._places = [at for at, row in enumerate(rows) if row.entry is not None]
        at = next((at for at in self._places if rows[at].title == key), self._places[0] if self._places else 0)
        self.set_reactive(SettingList.cursor, at)
        self.virtual_size = Size(self.size.width, max(1, len(rows)))
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self._places else None

    @property
    def count(self) -> int:
        """How many settings are listed."""
        return len(self._places)

    def move(self, by: int) -> None:
        """Move the cursor by some settings."""
        if self._places:
            at = self._places.index(self.cursor) + by
            self.cursor = self._places[max(0, min(len(self._places) - 1, at))]

    def watch_cursor(self, before: int, after: int) -> None:
        """Only the two rows change."""
        self._reveal()
        for index in (before, after):
            self.refresh(Region(0, index - self.scroll_offset.y, self.size.width, 1))
        self.post_message(self.Moved())

    def _reveal(self) -> None:
        # The heading of a group is seen with its first setting.
        first = self.cursor
        while first and self.rows and self.rows[first - 1].entry is None:
            first -= 1
        y, height = self.scroll_offset.y, max(1, self.size.height)
        if first < y:
            self.scroll_to(y=first, animate=False, immediate=True, force=True)
        elif self.cursor >= y + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True, force=True)

    def on_resize(self) -> None:
        """The cursor stays in view."""
        self.virtual_size = Size(self.size.width, max(1, len(self.rows)))
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """A click chooses; on a heading it does nothing."""
        at = event.y + self.scroll_offset.y
        if at in self._places:
            self.cursor = at
            self.post_message(self.Chosen())

    def render_line(self, y: int) -> Strip:
        """One visible row."""
        at = y + self.scroll_offset.y
        cells = self.size.width
        style = self.visual_style
        parts: Line = ()
        if at < len(self.rows):
            parts = self._row(self.rows[at], cells - 4)
            if at == self.cursor and self.rows[at].entry is not None:
                style += self._get_style("on $block-cursor-background")
        elif not self.rows and y == 0:
            parts = (("No setting has that in its name, its description or its value.", "$quiet"),)
        content = Content.assemble("  ", *parts).pad_right(max(0, cells)) if parts else Content(" " * cells)
        strips = content.render_strips(cells, 1, style, RenderOptions(self._get_style, {}))
        return (strips[0] if strips else Strip([])).crop(0, cells).extend_cell_length(cells, self.rich_style)

    def _row(self, row: Row, cells: int) -> Line:
        if row.entry is None:
            return line((fit(row.title, cells), "bold $primary")) if row.title else ()
        wide = cells >= NARROW
        room = NAME_CELLS if wide else max(14, cells * 45 // 100)
        name = fit(one_line(_short(row)), room - 2)
        mark = row.mark if wide else ""
        left = room - width(name)
        value = fit(row.text, max(4, cells - room - (width(mark) + 2 if mark else 0)))
        set_here = bool(row.mark)
        parts = line((name, "$foreground"), " " * left, (value, "bold $foreground" if set_here else "$quiet"))
        return ends(parts, line((mark, "$accent")), cells)


def _short(row: Row) -> str:
    """A setting's name below its heading: without the table's."""
    head, _, rest = row.title.partition(".")
    return rest.partition(".")[2] if head == "methods" else rest if head == "keymap" else row.title
