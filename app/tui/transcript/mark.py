"""The message that was jumped to: marked in the margin, and what keys copy. The input box keeps the focus."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip

from ...chat.entries import Answer, Prompt
from ...render.blocks import EntryBlock
from ...settings.keymap import shown_keys
from .stack import BlockStack

SIGN = "┃"


class MessageMark:
    """The marked message of a view, and the way from one to the next."""

    def __init__(self, view: BlockStack) -> None:
        self._view = view
        self.entry: Prompt | Answer | None = None
        """The marked one."""

    @property
    def stops(self) -> list[int]:
        """The blocks to go to: messages and answers, oldest first."""
        return [index for index, block in enumerate(self._view.blocks) if isinstance(block.entry, Prompt | Answer)]

    def move(self, step: int) -> tuple[int, int] | None:
        """Mark the message before (−1) or after (1), and bring it into sight. Without a mark: the one before or after the
        top of the view; past the last one the view follows the end again.

        Returns:
            its number from 1 on, and how many there are; None if there is none in that direction.
        """
        stops, at = self.stops, self._at()
        if at is not None:
            to = stops.index(at) + step
        elif step < 0:
            to = self._last_before(stops)
        else:
            top = self._view.scroll_offset.y + 1
            to = next((n for n, index in enumerate(stops) if self._view.tops[index] > top), len(stops))
        if to < 0:
            return (1, len(stops)) if stops else None
        if to >= len(stops):
            if at is not None:
                self.clear()
                self._view.follow()
            return None
        self._mark(stops[to])
        return to + 1, len(stops)

    def clear(self) -> bool:
        """No message is marked any more; False if none was."""
        if self.entry is None:
            return False
        self.entry = None
        self._view.refresh()
        return True

    def told(self, place: tuple[int, int], keymap: Mapping[str, str]) -> Content:
        """Which message is marked, and what keys do with it."""
        second = ("edit", "writes it anew") if isinstance(self.entry, Prompt) else ("retry", "answers again")
        line = Content.styled(f"message {place[0]} of {place[1]}", "$foreground")
        for name, what in (("copy_answer", "copies it"), second):
            line = Content.assemble(line, "   ", (shown_keys(name, keymap), "bold $primary"), (f" {what}", "$quiet"))
        return line

    def draw(self, strip: Strip, block: EntryBlock, row: int, margin: int) -> Strip:
        """A row of the transcript, with the mark in its margin if its message is marked."""
        if self.entry is None or block.entry is not self.entry or row >= block.height - 1:
            return strip
        colours = self._view.app.theme_variables
        mark = Strip([Segment(SIGN, Style(color=colours["accent"], bgcolor=colours["background"], bold=True))])
        return Strip.join([strip.crop(0, margin - 3), mark, strip.crop(margin - 2)])

    def _at(self) -> int | None:
        """The marked block; None if there is none, or no longer."""
        if self.entry is None:
            return None
        return next((index for index, block in enumerate(self._view.blocks) if block.entry is self.entry), None)

    def _last_before(self, stops: list[int]) -> int:
        """Where the first jump up leads: to the last message that begins above the view, or to the last of all at the end."""
        view = self._view
        if view.following:
            return len(stops) - 1
        top = view.scroll_offset.y + 1
        return max((n for n, index in enumerate(stops) if view.tops[index] < top), default=0)

    def _mark(self, index: int) -> None:
        view, block = self._view, self._view.blocks[index]
        self.entry = block.entry if isinstance(block.entry, Prompt | Answer) else None
        view.scroll_to(y=max(0, view.tops[index] - 1), animate=False, immediate=True, force=True)
        view.refresh()
