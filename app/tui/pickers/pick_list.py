"""A list with a cursor that draws its visible rows alone, however many items there are.

Textual's OptionList lays out every option, which takes seconds for 10,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ...text.cells import fit
from ...text.lines import StyledLine
from ..textual_compat import line_strip, style_of

Item = TypeVar("Item")


class PickList(ScrollView, Generic[Item], can_focus=False):
    """A list of items, one of them under the cursor. The keys are the screen's.

    Args:
        key_of: returns an item's key; None for a heading, which the cursor skips.
        draw: draws an item's rows, given the cells of a row.
        rows: of an item, with the blank ones below it.
    """

    DEFAULT_CSS = """
    PickList {
        height: 1fr; background: $surface; scrollbar-size-vertical: 1; overflow-x: hidden;
        scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
    }
    """
    cursor: reactive[int] = reactive(0, repaint=False)
    """Index of the item under the cursor."""

    @dataclass
    class Clicked(Message):
        """An item was clicked."""

        index: int

    class Moved(Message):
        """The cursor is on another item, or there are other items."""

    def __init__(
        self, key_of: Callable[[Item], object], draw: Callable[[Item, int], Sequence[StyledLine]], rows: int = 1
    ) -> None:
        super().__init__()
        self._key_of = key_of
        self._draw = draw
        self._rows = rows
        self.items: Sequence[Item] = ()
        self.empty = ""
        """Sentence for a list without items."""

    @property
    def item(self) -> Item | None:
        return self.items[self.cursor] if self._may_stand(self.cursor) else None

    @property
    def key(self) -> object:
        """Key of the item under the cursor."""
        return self._key_of(self.items[self.cursor]) if self.items else None

    @property
    def page(self) -> int:
        """Items of a page: one less than are visible."""
        return max(1, self.size.height // self._rows - 1)

    def show(self, items: Sequence[Item], key: object = None, at: int = 0) -> None:
        """Show these items.

        Args:
            items: from top to bottom.
            key: of the item for the cursor.
            at: index for the cursor if no item has that key; or the nearest that is no heading.
        """
        self.items = items
        if key is not None:
            at = next((i for i, item in enumerate(items) if self._key_of(item) == key), at)
        around = (i for distance in range(len(items) + abs(at)) for i in (at + distance, at - distance))
        self.set_reactive(PickList.cursor, next((i for i in around if self._may_stand(i)), 0))
        self.on_resize()
        self.refresh()
        self.post_message(self.Moved())

    def move(self, by: int) -> None:
        """Move the cursor by a number of items, not counting headings."""
        ahead = range(self.cursor + 1, len(self.items)) if by > 0 else range(self.cursor - 1, -1, -1)
        passed = list(islice(filter(self._may_stand, ahead), abs(by)))
        if passed:
            self.cursor = passed[-1]

    def watch_cursor(self, before: int, after: int) -> None:
        self._reveal()
        for index in (before, after):
            self.refresh(Region(0, index * self._rows - self.scroll_offset.y, self.size.width, self._rows))
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, max(1, len(self.items) * self._rows))
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        index = (event.y + self.scroll_offset.y) // self._rows
        if self._may_stand(index):
            self.post_message(self.Clicked(index))

    def render_line(self, y: int) -> Strip:
        index, row = divmod(y + self.scroll_offset.y, self._rows)
        cells, style = self.size.width, self.visual_style
        parts: StyledLine = ()
        if index < len(self.items):
            parts = self._draw(self.items[index], cells - 4)[row]
            if index == self.cursor and self._may_stand(index) and parts:
                style += style_of(self, "on $block-cursor-background")
        elif not self.items and y == 0 and self.empty:
            parts = ((fit(self.empty, cells - 4), "$quiet"),)
        content = Content.assemble("  ", *parts).pad_right(max(0, cells)) if parts else Content(" " * cells)
        return line_strip(self, content, style)

    def _may_stand(self, index: int) -> bool:
        return 0 <= index < len(self.items) and self._key_of(self.items[index]) is not None

    def _reveal(self) -> None:
        """Scroll to the cursor and the headings above it."""
        first = self.cursor
        while 0 < first <= len(self.items) and not self._may_stand(first - 1):
            first -= 1
        top, end = first * self._rows, self.cursor * self._rows + self._rows
        y, height = self.scroll_offset.y, max(self._rows, self.size.height)
        if top < y or end > y + height:
            self.scroll_to(y=top if top < y else end - height, animate=False, immediate=True, force=True)
