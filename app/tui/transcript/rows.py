"""Widgets that paint rows of text many times a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, ClassVar

from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from ...chat.entries import Answer
from ...render.blocks import EntryBlock
from ...render.thoughts import Thoughts
from ...text.lines import PAD, StyledLine
from ...theming.colouring import Colouring, effective
from ..textual_compat import line_strip
from .painter import RowPainter

EIGHTHS = 8
"""Steps of a scrollbar's handle per cell."""


class CalmScrollBar(ScrollBar):
    """A scrollbar that is repainted only if it looks different.

    While a long text grows, the handle stands still for many lines, but Textual's scrollbar repaints all its rows for each:
    once for the length, once for the position.
    """

    _look: object = None
    _pending = False

    def look(self) -> object:
        """Collect everything that the picture depends on."""
        size, window, whole = self.size.height, self.window_size, ceil(self.window_virtual_size)
        handle = (0, 0)
        if size and 0 < window < whole:
            length = max(1, window * size / whole)
            start = int((size - length) * self.position / (whole - window) * EIGHTHS)
            handle = (start, start + ceil(length * EIGHTHS))
        assert isinstance(self.parent, Widget)
        styles = self.parent.styles  # not the theme, which the style sheet follows with a delay
        colours = styles.scrollbar_color, styles.scrollbar_background
        return size, handle, window < whole, self.mouse_over, self.grabbed is not None, colours

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Any:
        """Repaint after all pending changes, if the look has changed."""
        if regions or layout or recompose or not self.is_attached:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if not self._pending:
            self._pending = self.call_later(self._repaint)
        return self

    def _repaint(self) -> None:
        self._pending = False
        look = self.look()
        if look != self._look:
            self._look = look
            super().refresh()


class QuickRows(ScrollView):
    """A line-API widget without border, padding, opacity or links, which caches its strips.

    Textual passes each row through another cache, which the next scroll empties, and through steps for borders and the like:
    with the metadata for selections, a third of the cost of a frame of a fast stream. Here a row is the strip of `painted`, as
    wide as the widget.
    """

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """Scrollbar at the right, made at the first access."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = CalmScrollBar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            self._vertical_scrollbar.display = False
            self.app._start_widget(self, self._vertical_scrollbar)
        return self._vertical_scrollbar

    def resize_content(self, height: int) -> None:
        """Set the number of rows of the text."""
        size = Size(self.size.width, height)
        if self.show_vertical_scrollbar == (height > self.size.height):
            # A change of `virtual_size` lays out the whole screen (10 ms), which only a new scrollbar needs.
            self.set_reactive(QuickRows.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = height
        else:
            self.virtual_size = size

    def to_end(self) -> None:
        # Forced, since right after a growth there is no scrollbar yet, and without one no scrolling.
        self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)

    def jump_to(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    def painted(self, y: int) -> Strip:
        """Draw a visible row. `render_line` may add metadata for the mouse."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Draw a visible row for Textual's selections."""
        return self.painted(y)

    def render_lines(self, crop: Region) -> list[Strip]:
        _, background = self.background_colors
        strips = [self.painted(y) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips


class LineView(QuickRows, can_focus=True):
    """Scrolling lines of styled text, as wide as `cells`; only changed rows are repainted."""

    DEFAULT_CSS = """
    LineView { background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar = []

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[StyledLine] = []
        self._strips: LRUCache[StyledLine, Strip] = LRUCache(512)
        self._drawn_for: tuple[Mapping[str, str], int] = ({}, 0)

    @property
    def cells(self) -> int:
        """Cells of a line, with a scrollbar or without."""
        return max(1, self.container_size.width - 2 * PAD - 1)

    def show(self, lines: Sequence[StyledLine]) -> None:
        """Show lines, and repaint those that differ from the ones before."""
        before, self._lines = self._lines, list(lines)
        height = max(len(self._lines), self.container_size.height)
        if height != self.virtual_size.height or self.virtual_size.width != self.size.width:
            self.virtual_size = Size(self.size.width, height)
        top, rows = self.scroll_offset.y, self.size.height
        for y in range(top, top + rows):
            old = before[y] if y < len(before) else ()
            new = self._lines[y] if y < len(self._lines) else ()
            if old != new:
                self.refresh(Region(0, y - top, self.size.width, 1))

    def painted(self, y: int) -> Strip:
        drawn_for = self.app.theme_variables, self.size.width  # the variables follow the theme with a delay
        if self._drawn_for != drawn_for:
            self._strips.clear()
            self._drawn_for = drawn_for
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        if (strip := self._strips.get(line)) is None:
            strip = self._strips[line] = line_strip(self, Content.assemble(" " * PAD, *line))
        return strip


class RunText(QuickRows, can_focus=False):
    """An answer in a small window, coloured by run and following the end."""

    DEFAULT_CSS = """
    RunText { background: $background; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; }
    """
    BINDINGS: ClassVar = []

    colouring: reactive[Colouring] = reactive[Colouring]("length")
    thoughts: reactive[Thoughts] = reactive[Thoughts]("folded")

    def __init__(self) -> None:
        super().__init__()
        self._block = EntryBlock(Answer("", ""), 8)
        self._height = 0
        self._strips: LRUCache[tuple[int, int, bool], Strip] = LRUCache(256)
        self._painter: RowPainter
        self._styled_for: tuple[Mapping[str, str], Colouring] | None = None

    @property
    def cells(self) -> int:
        return max(8, self.scrollable_content_region.width - 2 * PAD)

    def show(self, answer: Answer) -> None:
        """Show an answer, which may have grown."""
        if answer is not self._block.entry:
            self._begin(answer)
        elif self.size.width and ((first := self._block.update()) is not None or not self._height):
            following = self.is_vertical_scroll_end
            rows = self._block.text_rows
            while self._block.closed and rows > 1 and self._block.row(rows - 1).text.isspace():
                rows -= 1  # without line breaks at the end of an answer
            if rows != self._height:
                self._height = rows
                self.resize_content(rows)
            if following:
                self.to_end()
            self.refresh_lines(first or 0, rows - (first or 0) + 1)

    def _begin(self, answer: Answer) -> None:
        self._block = EntryBlock(answer, self.cells, thoughts=self.thoughts)
        self._height = 0
        self._strips.clear()
        self.show(answer)

    def _wrap(self) -> None:
        assert isinstance(self._block.entry, Answer)
        self._begin(self._block.entry)
        self.refresh()

    def on_resize(self) -> None:
        if self.cells != self._block.cells or not self._height:
            self._wrap()
        self.to_end()
        self.refresh()

    def watch_colouring(self) -> None:
        self._styled_for = None
        self.refresh()

    def watch_thoughts(self) -> None:
        self._wrap()

    def painted(self, y: int) -> Strip:
        variables, colouring = self.app.theme_variables, effective(self.colouring, self.app.no_color)
        if self._styled_for != (variables, colouring):
            self._painter = RowPainter(variables, colouring, self.rich_style)
            self._strips.clear()
            self._styled_for = (variables, colouring)
        index = y + self.scroll_offset.y
        if index >= self._height:
            return Strip.blank(self.size.width, self.rich_style)
        key = (index, self._block.version(index), self._block.closed)
        if (strip := self._strips.get(key)) is None:
            drawn = self._painter.draw(self._block, self._block.row(index), PAD)
            strip = self._strips[key] = drawn.extend_cell_length(self.size.width, self.rich_style).simplify()
        return strip
