"""An answer in a small window, coloured by run and following the end."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.reactive import reactive
from textual.strip import Strip

from ...chat.entries import Answer
from ...render.blocks import EntryBlock
from ...render.thoughts import Thoughts
from ...theming.colouring import Colouring, effective
from .painter import RowPainter
from .quick_rows import QuickRows

PAD = 1
"""Cells left and right of the text."""


class RunText(QuickRows, can_focus=False):
    """A small window on an answer."""

    DEFAULT_CSS = """
    RunText { background: $background; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; }
    """
    BINDINGS: ClassVar = []

    colouring: reactive[Colouring] = reactive[Colouring]("length")
    thoughts: reactive[Thoughts] = reactive[Thoughts]("folded")

    def __init__(self) -> None:
        super().__init__()
        self._answer = Answer("", "")
        self._note = ""
        self._block = EntryBlock(self._answer, 8)
        self._notes: list[str] = []
        self._height = 0
        self._strips: LRUCache[tuple[int, int, bool], Strip] = LRUCache(256)
        self._painter: RowPainter
        self._styled_for: tuple[Mapping[str, str], Colouring] | None = None

    @property
    def cells(self) -> int:
        return max(8, self.scrollable_content_region.width - 2 * PAD)

    def show(self, answer: Answer, note: str = "") -> None:
        """Show an answer, which may have grown, and a sentence below it."""
        if answer is self._answer and note == self._note:
            self._update()
        else:
            self._answer = answer
            self._note = note
            self._begin()

    def _begin(self) -> None:
        self._block = EntryBlock(self._answer, self.cells, thoughts=self.thoughts)
        self._height = 0
        self._strips.clear()
        self._update()

    def _update(self) -> None:
        if not self.size.width:
            return
        block, first = self._block, self._block.update()
        if first is None and self._height:
            return
        text = block.text_rows
        while block.closed and text > 1 and block.row(text - 1).text.isspace():
            text -= 1  # without line breaks at the end of an answer
        self._notes = [*([""] if text else []), *wrap(self._note, self.cells)] if self._note else []
        following = self.is_vertical_scroll_end
        height = max(1, text + len(self._notes))
        if height != self._height:
            self._height = height
            self.resize_content(height)
        if following:
            self.to_end()
        self.refresh_lines(first or 0, height - (first or 0) + 1)

    def on_resize(self) -> None:
        if self.cells != self._block.cells or not self._height:
            self._begin()
        self.to_end()
        self.refresh()

    def watch_colouring(self) -> None:
        self._styled_for = None
        self.refresh()

    def watch_thoughts(self) -> None:
        self._begin()
        self.refresh()

    def painted(self, y: int) -> Strip:
        variables, colouring = self.app.theme_variables, effective(self.colouring, self.app.no_color)
        if self._styled_for != (variables, colouring):
            self._painter = RowPainter(variables, colouring, self.rich_style)
            self._strips.clear()
            self._styled_for = (variables, colouring)
        index = y + self.scroll_offset.y
        text = self._height - len(self._notes)
        if index >= self._height:
            return Strip.blank(self.size.width, self.rich_style)
        if index >= text:
            note = Segment(" " * PAD + self._notes[index - text], Style(color=self.app.theme_variables["error"]))
            return Strip([note]).extend_cell_length(self.size.width).apply_style(self.rich_style)
        key = (index, self._block.version(index), self._block.closed)
        strip = self._strips.get(key)
        if strip is None:
            drawn = self._painter.draw(self._block, self._block.row(index), PAD)
            strip = self._strips[key] = drawn.extend_cell_length(self.size.width, self.rich_style).simplify()
        return strip
