"""The blocks of a transcript in scrolling rows: the position of each block, and following the end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from textual.message import Message
from textual.reactive import reactive

from ...render.blocks import EntryBlock
from .quick_rows import QuickRows

TOP = 1
"""Blank rows above the first entry."""

MARGIN = 3
"""Cells left of the text, for the bar of a prompt."""


class BlockStack(QuickRows):
    """The blocks of a transcript in rows: the part of the view that its run cursor, mark and finder use."""

    following: reactive[bool] = reactive(True)
    """Whether the view scrolls with new text."""
    markdown: reactive[bool] = reactive(False)
    """Whether finished answers are Markdown."""

    @dataclass
    class Followed(Message):
        """The view began or ceased to follow the end, or new text is out of sight (`fresh`)."""

        following: bool
        fresh: bool = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.blocks: list[EntryBlock] = []
        """Wrapped entries."""
        self.tops: list[int] = []
        """First row of each block."""
        self.room = 0
        """Blank rows below the last block, for the strip about a run."""
        self._height = 0
        self._cells = 0  # width that the blocks are wrapped at

    @property
    def margin(self) -> int:
        return max(MARGIN, (self.size.width - self._cells) // 2)

    def row_at(self, y: int) -> tuple[int, int] | None:
        """Find the block of a row of the whole transcript, and the row in it."""
        if not TOP <= y < self._height:
            return None
        index = bisect_right(self.tops, y) - 1
        return index, y - self.tops[index]

    def make_room(self, rows: int) -> None:
        self.room = rows
        if self.blocks:
            self._set_height(self._height)
            if self.following:
                self.to_end()
            elif self.scroll_offset.y > self.max_scroll_y:
                self.jump_to(self.max_scroll_y)

    def _set_height(self, height: int) -> None:
        self._height = height
        self.resize_content(height + self.room)

    def watch_following(self, following: bool) -> None:
        self.post_message(self.Followed(following))

    def follow(self) -> None:
        self.to_end()
        self.following = True
