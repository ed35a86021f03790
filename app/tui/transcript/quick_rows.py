"""Painting straight from a widget's rows, for those that paint many of them many times a second."""

from __future__ import annotations

from math import ceil
from typing import Any

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

EIGHTHS = 8
"""Parts of a cell that the end of a scrollbar's handle may stand at."""


class CalmScrollBar(ScrollBar):
    """A scrollbar that is painted again only where it looks different.

    In a long text that grows, the handle stands still for many lines, while Textual's paints all its rows for each of them:
    once where the text has become longer, once where the end has been gone to.
    """

    _looks: object = None
    _asked = False

    def looks(self) -> object:
        """Everything that the picture depends on."""
        size, window, whole = self.size.height, self.window_size, ceil(self.window_virtual_size)
        handle = (0, 0)
        if size and 0 < window < whole:
            length = max(1, window * size / whole)
            start = int((size - length) * self.position / (whole - window) * EIGHTHS)
            handle = (start, start + ceil(length * EIGHTHS))
        assert isinstance(self.parent, Widget)
        styles = self.parent.styles  # the style sheet follows the theme a moment later
        colours = styles.scrollbar_color, styles.scrollbar_background
        return size, handle, window < whole, self.mouse_over, self.grabbed is not None, colours

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Any:
        """Paint again, unless that turns out to change nothing once all that changes together has."""
        if regions or layout or recompose or not self.is_attached:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if not self._asked:
            self._asked = self.call_later(self._look)
        return self

    def _look(self) -> None:
        self._asked = False
        looks = self.looks()
        if looks != self._looks:
            self._looks = looks
            super().refresh()


class QuickRows(ScrollView):
    """A line-API widget without border, padding, opacity or links, which keeps its rows as strips itself.

    Textual takes each row through a cache of its own, which the next scroll empties, and through the steps that borders and the
    like call for: with the marks that a selection needs, a third of what a frame of a fast stream costs. Here a row is what
    `painted` says, as wide as the widget, and nothing else.
    """

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scrollbar at the right; made where there is none yet."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = CalmScrollBar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            self._vertical_scrollbar.display = False
            self.app._start_widget(self, self._vertical_scrollbar)
        return self._vertical_scrollbar

    def resize_content(self, height: int) -> None:
        """Let the text have so many rows."""
        size = Size(self.size.width, height)
        if self.show_vertical_scrollbar == (height > self.size.height):
            # The usual way lays out the whole screen anew (10 ms), which only the scrollbar's coming or going calls for.
            self.set_reactive(QuickRows.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = height
        else:
            self.virtual_size = size

    def to_end(self) -> None:
        # Forced: right after a growth the scrollbar, and with it the permission to scroll, is not there yet.
        self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)

    def painted(self, y: int) -> Strip:
        """A visible row as it is painted. `render_line` may add to it what the mouse needs."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """A visible row, as Textual asks for it when something is selected."""
        return self.painted(y)

    def render_lines(self, crop: Region) -> list[Strip]:
        _, background = self.background_colors
        strips = [self.painted(y) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips
