"""The list of models: a row each, in columns that fit the width; only the visible rows are drawn."""

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

from ...models.rows import Row, drawn
from ...text.cells import fit
from ...text.lines import Line


class ModelList(ScrollView, can_focus=False):
    """Shows rows, one of them under the cursor. The keys are the screen's."""

    DEFAULT_CSS = """
    ModelList {
        background: $surface; scrollbar-size-vertical: 1; overflow-x: hidden;
        scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
    }
    """
    cursor: reactive[int] = reactive(0, repaint=False)
    """Which of the rows."""

    @dataclass
    class Chosen(Message):
        """A row was clicked."""

        index: int

    @dataclass
    class Moved(Message):
        """The cursor stands on another row."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.empty = ""
        """What is said where there is no row."""

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.rows and not self.rows[self.cursor].heading else None

    def show(self, rows: Sequence[Row], key: object = None) -> None:
        """Show these rows, the cursor on the one of this key, else where it was. Rows that stay the same are not painted."""
        before = self.rows
        places = {row.key: i for i, row in enumerate(rows) if not row.heading}
        at = places.get(key) if key is not None else None
        if at is None and (under := self.row) is not None:
            at = places.get(under.key)
        top = self.scroll_offset.y
        old_cursor, old_height = self.cursor, len(before)
        self.rows = rows
        self.set_reactive(ModelList.cursor, self._settled(self.cursor if at is None else at))
        if len(rows) != old_height:
            self.virtual_size = Size(self.size.width, max(1, len(rows)))
        self._reveal()
        if self.scroll_offset.y == top:
            for y in range(top, top + self.size.height):
                if before[y : y + 1] != rows[y : y + 1] or y in (old_cursor, self.cursor):
                    self.refresh(Region(0, y - top, self.size.width, 1))
        self.post_message(self.Moved())

    def _settled(self, at: int) -> int:
        """The nearest row that the cursor may stand on."""
        free = [i for i, row in enumerate(self.rows) if not row.heading]
        return min(free, key=lambda i: (abs(i - at), -i)) if free else 0

    def move(self, by: int) -> None:
        """Move the cursor by some rows, headings not counted."""
        free = [i for i, row in enumerate(self.rows) if not row.heading]
        if free:
            now = free.index(self.cursor) if self.cursor in free else 0
            self.cursor = free[max(0, min(len(free) - 1, now + by))]

    @property
    def page(self) -> int:
        """Rows that are visible at once, less one."""
        return max(1, self.size.height - 2)

    def watch_cursor(self, before: int, after: int) -> None:
        """Only the two rows change."""
        self._reveal()
        for index in (before, after):
            self.refresh(Region(0, index - self.scroll_offset.y, self.size.width, 1))
        self.post_message(self.Moved())

    def _reveal(self) -> None:
        """Scroll so that the cursor is seen, with its heading."""
        height, y = max(1, self.size.height), self.scroll_offset.y
        top = self.cursor - 1 if self.cursor and self.rows and self.rows[self.cursor - 1].heading else self.cursor
        if top < y:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)
        elif self.cursor >= y + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True, force=True)

    def on_resize(self) -> None:
        """The cursor stays in view."""
        self.virtual_size = Size(self.size.width, max(1, len(self.rows)))
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        index = event.y + self.scroll_offset.y
        if index < len(self.rows) and not self.rows[index].heading:
            self.post_message(self.Chosen(index))

    def render_line(self, y: int) -> Strip:
        """One visible row."""
        index, cells = y + self.scroll_offset.y, self.size.width
        style = self.visual_style
        parts: Line = ()
        if index < len(self.rows):
            parts = drawn(self.rows[index], cells - 4)
            if index == self.cursor and not self.rows[index].heading:
                style += self._get_style("on $block-cursor-background")
        elif not self.rows and y == 0 and self.empty:
            parts = ((fit(self.empty, cells - 4), "$quiet"),)
        content = Content.assemble("  ", *parts).pad_right(max(0, cells)) if parts else Content(" " * cells)
        strips = content.render_strips(cells, 1, style, RenderOptions(self._get_style, {}))
        return (strips[0] if strips else Strip([])).crop(0, cells).extend_cell_length(cells, self.rich_style)
