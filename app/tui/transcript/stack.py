"""The blocks of a transcript, one below the other in rows that scroll: which row is whose, and following the end."""

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
"""Cells left of the text, for the bar beside a prompt."""


class BlockStack(QuickRows):
    """The blocks of a transcript in rows: what a run cursor and a mark know of the view that they are in."""

    following: reactive[bool] = reactive(True)
    """Whether new text scrolls the view."""
    markdown: reactive[bool] = reactive(False)
    """Whether finished answers are shown as Markdown."""

    @dataclass
    class Followed(Message):
        """The view began or ceased to follow the end, or text came in below what is visible (`fresh`)."""

        following: bool
        fresh: bool = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.blocks: list[EntryBlock] = []
        """The entries, wrapped."""
        self.tops: list[int] = []
        """First row of each block."""
        self.room = 0
        """Blank rows below the last block, so that it can be seen above the strip that tells about a run."""
        self._height = 0
        self._cells = 0  # width that the blocks are wrapped at

    @property
    def margin(self) -> int:
        return max(MARGIN, (self.size.width - self._cells) // 2)

    def row_at(self, y: int) -> tuple[int, int] | None:
        """Block and row in it of a row of the whole transcript."""
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
                self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)

    def _set_height(self, height: int) -> None:
        self._height = height
        self.resize_content(height + self.room)

    def watch_following(self, following: bool) -> None:
        self.post_message(self.Followed(following))

    def follow(self) -> None:
        self.to_end()
        self.following = True
