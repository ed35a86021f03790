"""A list of which one item is chosen: only the visible rows are drawn, however many items there are.

Textual's OptionList lays out every option, which takes seconds for 10,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from textual import events
from textual.content import Content
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import RenderOptions

from ...text.cells import fit
from ...text.lines import StyledLine

Item = TypeVar("Item")


class PickList(ScrollView, Generic[Item], can_focus=False):
    """A list of items, one of them under the cursor. The keys are the screen's.

    Args:
        key_of: what an item stands for; None for a heading, which the cursor passes over.
        draw: an item's rows in some cells.
        rows: how many rows that are.
        gap: blank rows between two items.
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
    class Chosen(Message):
        """An item was clicked."""

        index: int

    class Moved(Message):
        """The cursor stands on another item, or other items are shown."""

    def __init__(
        self, key_of: Callable[[Item], object], draw: Callable[[Item, int], Sequence[StyledLine]], rows: int = 1, gap: int = 0
    ) -> None:
        super().__init__()
        self._key_of, self._draw, self._rows, self._gap = key_of, draw, rows, gap
        self.items: Sequence[Item] = ()
        self.empty = ""
        """What is said where there is no item."""

    @property
    def item(self) -> Item | None:
        return self.items[self.cursor] if self._may_stand(self.cursor) else None

    @property
    def key(self) -> object:
        """What the item under the cursor stands for."""
        return self._key_of(self.items[self.cursor]) if self.items else None

    @property
    def row(self) -> Offset:
        """Where the item under the cursor begins on the terminal."""
        return self.content_region.offset + Offset(0, self.cursor * self._pitch - self.scroll_offset.y)

    @property
    def page(self) -> int:
        """Items that are visible at once, less one."""
        return max(1, self.size.height // self._pitch - 1)

    def show(self, items: Sequence[Item], key: object = None, at: int = 0) -> None:
        """Show these items.

        Args:
            items: from top to bottom.
            key: the cursor goes to the item that stands for this,
            at: or, where there is none, to this one or the nearest that it may stand on.
        """
        self.items = items
        if key is not None:
            at = next((i for i, item in enumerate(items) if self._key_of(item) == key), at)
        self.set_reactive(PickList.cursor, self._nearest(at))
        self._measure()
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def move(self, by: int) -> None:
        """Move the cursor by some items, headings not counted."""
        ahead = range(self.cursor + 1, len(self.items)) if by > 0 else range(self.cursor - 1, -1, -1)
        passed = list(islice(filter(self._may_stand, ahead), abs(by)))
        if passed:
            self.cursor = passed[-1]

    def watch_cursor(self, before: int, after: int) -> None:
        self._reveal()
        self._paint(before)
        self._paint(after)
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        self._measure()
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        index = (event.y + self.scroll_offset.y) // self._pitch
        if self._may_stand(index):
            self.post_message(self.Chosen(index))

    def render_line(self, y: int) -> Strip:
        index, row = divmod(y + self.scroll_offset.y, self._pitch)
        cells, style = self.size.width, self.visual_style
        parts: StyledLine = ()
        if index < len(self.items) and row < self._rows:
            parts = self._draw(self.items[index], cells - 4)[row]
            if index == self.cursor and self._may_stand(index):
                style += self._get_style("on $block-cursor-background")
        elif not self.items and y == 0 and self.empty:
            parts = ((fit(self.empty, cells - 4), "$quiet"),)
        content = Content.assemble("  ", *parts).pad_right(max(0, cells)) if parts else Content(" " * cells)
        strips = content.render_strips(cells, 1, style, RenderOptions(self._get_style, {}))
        return (strips[0] if strips else Strip([])).crop(0, cells).extend_cell_length(cells, self.rich_style)

    @property
    def _pitch(self) -> int:
        """Rows from one item to the next."""
        return self._rows + self._gap

    def _may_stand(self, index: int) -> bool:
        return 0 <= index < len(self.items) and self._key_of(self.items[index]) is not None

    def _nearest(self, at: int) -> int:
        around = (i for far in range(len(self.items) + abs(at)) for i in (at + far, at - far))
        return next((i for i in around if self._may_stand(i)), 0)

    def _measure(self) -> None:
        self.virtual_size = Size(self.size.width, max(1, len(self.items) * self._pitch - self._gap))

    def _paint(self, index: int) -> None:
        self.refresh(Region(0, index * self._pitch - self.scroll_offset.y, self.size.width, self._rows))

    def _reveal(self) -> None:
        """Scroll so that the cursor is seen, with the headings above it."""
        first = self.cursor
        while 0 < first <= len(self.items) and not self._may_stand(first - 1):
            first -= 1
        top, end = first * self._pitch, self.cursor * self._pitch + self._rows
        y, height = self.scroll_offset.y, max(self._rows, self.size.height)
        if top < y or end > y + height:
            self.scroll_to(y=top if top < y else end - height, animate=False, immediate=True, force=True)
