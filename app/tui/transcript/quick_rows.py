"""Fast painting for widgets that paint many rows many times a second."""

from __future__ import annotations

from math import ceil
from typing import Any

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

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
