"""Scrolling lines of styled text; only changed rows are repainted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip

from ...text.lines import PAD, StyledLine
from ..textual_compat import line_strip
from .quick_rows import QuickRows


class LineView(QuickRows, can_focus=True):
    """A view of styled lines as wide as `cells`."""

    DEFAULT_CSS = """
    LineView { background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar = []

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[StyledLine] = []
        self._strips: LRUCache[StyledLine, Strip] = LRUCache(512)
        self._drawn_for: tuple[Mapping[str, str], int] = ({}, 0)
        self.draws = 0
        """Rows drawn so far, without those from the cache."""

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
        size = self.size.width
        drawn_for = self.app.theme_variables, size  # the variables follow the theme with a delay
        if self._drawn_for != drawn_for:
            self._strips.clear()
            self._drawn_for = drawn_for
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        strip = self._strips.get(line)
        if strip is None:
            self.draws += 1
            strip = self._strips[line] = line_strip(self, Content.assemble(" " * PAD, *line))
        return strip
