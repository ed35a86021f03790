"""Search in the transcript; a match is selected, so that it stands out and ctrl+c copies it."""

from __future__ import annotations

from collections.abc import Iterator

from textual.geometry import Offset
from textual.selection import Selection

from ...chat.entries import Answer, ChatEntry, Prompt
from ...render.blocks import EntryBlock
from ...text.cells import char_at, expand_tabs, find_all, word_at
from .stack import BlockStack


class TextFinder:
    """Selects text of a view."""

    def __init__(self, view: BlockStack) -> None:
        self._view = view
        self.text = ""
        """Text of the last search."""
        self._at: tuple[int, int] | None = None  # block and offset of the last match

    def find(self, text: str) -> tuple[int, int] | None:
        """Select the last match in the chat; for the same text the one before, cyclically. Case, white space and the form of a
        letter do not matter (see `folded`).

        Returns:
            its number from 1 on, and the number of matches; None without any.
        """
        if text != self.text:
            self.text = text
            self._at = None
        matches = list(self._matches(text))
        if not matches:
            return None
        earlier = sum(self._at is None or (index, start) < self._at for index, start, _ in matches)
        index, start, end = matches[earlier - 1]
        self._at = index, start
        self._select(index, start, end)
        return earlier or len(matches), len(matches)

    def show(self, entry: ChatEntry, text: str) -> None:
        """Scroll to the first match in an entry, or to its beginning if the visible part has none."""
        index = next((index for index, block in enumerate(self._view.blocks) if block.entry is entry), None)
        if index is not None:
            _, start, end = next((match for match in self._matches(text) if match[0] == index), (index, 0, 0))
            self.text = text
            self._at = (index, start)
            self._select(index, start, end)

    def restart(self) -> None:
        """Begin the next search at the end, for another chat."""
        self._at = None

    def select_word(self, x: int, y: int) -> None:
        """Select the word at a visible cell."""
        row = y + self._view.scroll_offset.y
        if (place := self._view.row_at(row)) is not None:
            text = self._view.blocks[place[0]].row(place[1]).text
            start, end = word_at(text, char_at(text, x - self._view.margin))
            self._mark(Offset(start, row), Offset(end, row))

    def _matches(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Find all matches, oldest first: block, start and end."""
        for index, block in enumerate(self._view.blocks):
            if text.strip() and isinstance(block.entry, Prompt | Answer):
                yield from ((index, *span) for span in find_all("".join(_lines(block)), text))

    def _select(self, index: int, start: int, end: int) -> None:
        view = self._view
        first, last = self._place(index, start), self._place(index, end)
        if not first.y <= last.y < view.tops[index] + view.blocks[index].height:
            return
        view.jump_to(max(0, first.y - view.size.height // 3))
        self._mark(first, last)

    def _mark(self, first: Offset, last: Offset) -> None:
        margin, screen = Offset(self._view.margin, 0), self._view.screen
        selections = {self._view: Selection(first + margin, last + margin)} if first != last else {}
        self._view.call_later(setattr, screen, "selections", selections)  # a change of the input box clears selections

    def _place(self, index: int, offset: int) -> Offset:
        """Convert an offset in a block's text to its column and row."""
        row = 0
        for row, line in enumerate(_lines(self._view.blocks[index])):
            if offset < len(line):
                return Offset(len(expand_tabs(line[:offset], 0)), self._view.tops[index] + row)
            offset -= len(line)
        return Offset(0, self._view.tops[index] + row + 1)


def _lines(block: EntryBlock) -> Iterator[str]:
    """Read the text of a block as shown, row by row."""
    yield from block.texts()
    for row in block.rendered or ():
        yield "".join(segment.text for segment in row).rstrip() + "\n"
