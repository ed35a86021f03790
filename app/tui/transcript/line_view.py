"""Lines of styled text that scroll; showing new ones repaints only the rows that changed."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import RenderOptions

from ...text.cells import fit, width
from ...text.charts import WHOLE
from .quick_rows import QuickRows

Line = tuple[tuple[str, str], ...]
"""One row: texts, each with its style ("bold $primary")."""

PAD = 1
"""Blank cells on the left; on the right there is one more, which a scrollbar may take."""


class LineView(QuickRows, can_focus=True):
    """Shows lines that fit its width less the padding."""

    DEFAULT_CSS = """
    LineView { background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar = []

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Line] = []
        self._strips: LRUCache[Line, Strip] = LRUCache(512)
        self._drawn_for: tuple[str, int] = ("", 0)
        self.draws = 0
        """Rows drawn so far (not those taken from the cache)."""

    @property
    def cells(self) -> int:
        """Width of a line, the same with a scrollbar and without."""
        return max(1, self.container_size.width - 2 * PAD - 1)

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines; rows that say the same as before are not painted again."""
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
        """One visible row."""
        size = self.size.width
        if self._drawn_for != (self.app.theme, size):
            self._strips.clear()
            self._drawn_for = (self.app.theme, size)
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        strip = self._strips.get(line)
        if strip is None:
            self.draws += 1
            content = Content.assemble(" " * PAD, *line)
            strips = content.render_strips(size, 1, self.visual_style, RenderOptions(self._get_style, {}))
            strip = (strips[0] if strips else Strip([])).crop(0, size).extend_cell_length(size, self.rich_style)
            self._strips[line] = strip
        return strip


def track(drawn: str, cells: int, style: str) -> Line:
    """A bar on its track."""
    return (drawn, style), (WHOLE * (cells - len(drawn)), "$line")


def line(*parts: tuple[str, str] | str) -> Line:
    """A line out of texts and (text, style) pairs."""
    return tuple((part, "") if isinstance(part, str) else part for part in parts)


def length(row: Line) -> int:
    """Cells of a line."""
    return sum(width(text) for text, _ in row)


def ends(left: Line, right: Line, cells: int) -> Line:
    """A line with something at each end; where both do not fit, the left alone, cut."""
    gap = cells - length(left) - length(right)
    return (*left, (" " * gap, ""), *right) if gap >= 1 else cut(left, cells)


def cut(row: Line, cells: int) -> Line:
    """A line cut to some cells."""
    out: list[tuple[str, str]] = []
    for text, style in row:
        if width(text) > cells:
            out.append((fit(text, cells), style))
            break
        out.append((text, style))
        cells -= width(text)
    return tuple(out)


def paragraph(text: str, cells: int, style: str = "", *, first: str = "", indent: str = "") -> list[Line]:
    """Text on as many lines as it takes; `first` stands before the first of them, `indent` before the others."""
    lines = wrap(text, max(8, cells), initial_indent=first, subsequent_indent=indent) or [first]
    return [((fit(part, cells), style),) for part in lines]
