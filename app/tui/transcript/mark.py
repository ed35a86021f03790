"""The marked message, which keys copy, edit or answer again; the input box keeps the focus."""

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
    """The marked message of a view."""

    def __init__(self, view: BlockStack) -> None:
        self._view = view
        self.entry: Prompt | Answer | None = None
        """The marked message or answer, if any."""

    def move(self, step: int) -> tuple[int, int] | None:
        """Mark the message before (−1) or after (1) the marked one, else the top of the view, and scroll to it. After the last
        one the view follows the end again.

        Returns:
            its number from 1 on, and the number of messages; None if there is none in that direction.
        """
        view, top = self._view, self._view.scroll_offset.y + 1
        stops = [index for index, block in enumerate(view.blocks) if isinstance(block.entry, Prompt | Answer)]
        marked = next((n for n, index in enumerate(stops) if view.blocks[index].entry is self.entry), None)
        if marked is not None:
            to = marked + step
        elif step > 0:
            to = next((n for n, index in enumerate(stops) if view.tops[index] > top), len(stops))
        elif view.following:
            to = len(stops) - 1
        else:
            to = max((n for n, index in enumerate(stops) if view.tops[index] < top), default=0)
        if to < 0:
            return (1, len(stops)) if stops else None
        if to >= len(stops):
            if marked is not None:
                self.clear()
                view.follow()
            return None
        entry = view.blocks[stops[to]].entry
        self.entry = entry if isinstance(entry, Prompt | Answer) else None
        view.jump_to(max(0, view.tops[stops[to]] - 1))
        view.refresh()
        return to + 1, len(stops)

    def clear(self) -> bool:
        """Remove the mark; False if there is none."""
        if self.entry is None:
            return False
        self.entry = None
        self._view.refresh()
        return True

    def describe(self, place: tuple[int, int], keymap: Mapping[str, str]) -> Content:
        """Describe the marked message and its keys, given its number and the number of messages."""
        second = ("edit", "writes it anew") if isinstance(self.entry, Prompt) else ("retry", "answers again")
        line = Content.styled(f"message {place[0]} of {place[1]}", "$foreground")
        for name, what in (("copy_answer", "copies it"), second):
            line = Content.assemble(line, "   ", (shown_keys(name, keymap), "bold $primary"), (f" {what}", "$quiet"))
        return line

    def draw(self, strip: Strip, block: EntryBlock, row: int, margin: int) -> Strip:
        """Draw the mark into the margin of a row of the marked message."""
        if self.entry is None or block.entry is not self.entry or row >= block.height - 1:
            return strip
        colours = self._view.app.theme_variables
        mark = Strip([Segment(SIGN, Style(color=colours["accent"], bgcolor=colours["background"], bold=True))])
        return Strip.join([strip.crop(0, margin - 3), mark, strip.crop(margin - 2)])
