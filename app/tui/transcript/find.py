"""Text in the transcript, found or pointed at: selected where it stands, so that it is seen and ctrl+c copies it."""

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
        """What was looked for last."""
        self._at: tuple[int, int] | None = None  # block and offset of the last match

    def find(self, text: str) -> tuple[int, int] | None:
        """Select the last match in the chat; looked for again, the one before, and at the first begin anew. Case, white space
        and the way of writing a letter make no difference (see `folded`).

        Returns:
            its number from 1 on, and how many there are; None if there is none.
        """
        if text != self.text:
            self.text, self._at = text, None
        found = list(self._matches(text))
        if not found:
            return None
        earlier = sum(self._at is None or (index, start) < self._at for index, start, _ in found)
        index, start, end = found[earlier - 1]
        self._at = index, start
        self._select(index, start, end)
        return len(found) if earlier == 0 else earlier, len(found)

    def show(self, entry: ChatEntry, text: str) -> None:
        """Bring the first match in an entry into sight; the entry's beginning if what is shown of it has none."""
        index = next((index for index, block in enumerate(self._view.blocks) if block.entry is entry), None)
        if index is not None:
            _, start, end = next((match for match in self._matches(text) if match[0] == index), (index, 0, 0))
            self.text, self._at = text, (index, start)
            self._select(index, start, end)

    def leave(self) -> None:
        """Another chat is shown: what is looked for once more is its last match."""
        self._at = None

    def select_word(self, x: int, y: int) -> None:
        """Select the word at a cell of what is visible."""
        row = y + self._view.scroll_offset.y
        if (place := self._view.row_at(row)) is not None:
            text = self._view.blocks[place[0]].row(place[1]).text
            start, end = word_at(text, char_at(text, x - self._view.margin))
            self._mark(Offset(start, row), Offset(end, row))

    def _matches(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Block, start and end of each, oldest first."""
        for index, block in enumerate(self._view.blocks):
            if text.strip() and isinstance(block.entry, Prompt | Answer):
                yield from ((index, *span) for span in find_all("".join(_lines(block)), text))

    def _select(self, index: int, start: int, end: int) -> None:
        view = self._view
        first, last = self._place(index, start), self._place(index, end)
        if not first.y <= last.y < view.tops[index] + view.blocks[index].height:
            return
        view.scroll_to(y=max(0, first.y - view.size.height // 3), animate=False, immediate=True, force=True)
        self._mark(first, last)

    def _mark(self, first: Offset, last: Offset) -> None:
        margin, screen = Offset(self._view.margin, 0), self._view.screen
        found = {self._view: Selection(first + margin, last + margin)} if first != last else {}
        self._view.call_later(setattr, screen, "selections", found)  # a change of the input box clears what is selected

    def _place(self, index: int, offset: int) -> Offset:
        """Character and row of an offset in a block's text."""
        row = 0
        for row, line in enumerate(_lines(self._view.blocks[index])):
            if offset < len(line):
                return Offset(len(expand_tabs(line[:offset], 0)), self._view.tops[index] + row)
            offset -= len(line)
        return Offset(0, self._view.tops[index] + row + 1)


def _lines(block: EntryBlock) -> Iterator[str]:
    """The text of a block as it is shown, row by row."""
    yield from block.texts()
    for row in block.rendered or ():
        yield "".join(segment.text for segment in row).rstrip() + "\n"
