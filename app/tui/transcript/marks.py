"""Places in the transcript: the inspected run, the marked message, and matches of a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from ...chat.entries import Answer, ChatEntry, Prompt
from ...render.blocks import EntryBlock
from ...render.inspection import strip_rows
from ...render.runs import Place, RunSpot, adjacent_run, find_place, outermost, run_above, run_at
from ...text.cells import expand_tabs, find_all

if TYPE_CHECKING:
    from .view import TranscriptView

Move = Literal["previous", "next", "above", "below", "first", "last"]

SIGN = "┃"
"""Sign of a marked message, in the margin."""


class RunCursor:
    """The inspected run, which keys and clicks move. It is kept in sight, above the strip about it."""

    def __init__(self, view: TranscriptView) -> None:
        self.view = view
        self.spot: RunSpot | None = None
        """Block and index of the inspected run, if any."""
        self.place: Place | None = None
        """Rows of the run."""
        self.at_end = False
        """Whether it was on the last run when the text last grew."""
        self._cell = 0  # column for moves up and down
        self._followed = False  # whether the view followed the end before

    @property
    def active(self) -> bool:
        """Whether a run is inspected."""
        return self.spot is not None

    @property
    def answer(self) -> Answer | None:
        entry = self.view.blocks[self.spot.block].entry if self.spot is not None else None
        return entry if isinstance(entry, Answer) else None

    def run_in(self, block: int, row: int) -> int:
        """Find the inspected run in a row; −1 if it is elsewhere."""
        if self.spot is None or self.place is None or self.spot.block != block:
            return -1
        return self.spot.run if self.place.first <= row <= self.place.last else -1

    def start(self, spot: RunSpot | None = None) -> bool:
        """Move to a run, else to the last one in sight; False if there is none."""
        view = self.view
        view.markdown = False  # it has no runs
        spot = spot or self._last_in_sight()
        if spot is None:
            return False
        if not self.active:
            self._followed = view.following
            view.make_room(strip_rows(view.size.height))
        view.focus(scroll_visible=False)
        self._choose(spot)
        return True

    def _last_in_sight(self) -> RunSpot | None:
        view, top = self.view, self.view.scroll_offset.y
        for y in reversed(range(top, top + view.size.height)):
            if (place := view.row_at(y)) is not None and isinstance(view.blocks[place[0]].entry, Answer):
                for _, run in reversed(view.blocks[place[0]].row(place[1]).pieces):
                    if run >= 0:
                        return RunSpot(place[0], run)
        return outermost(view.blocks, 1)

    def stop(self) -> None:
        """End the inspection, and return to the end if the view followed it before."""
        if not self.active:
            return
        self._choose(None)
        self.view.make_room(0)
        if self._followed:
            self.view.follow()
        else:
            self.view.watch_following(self.view.following)

    def move(self, where: Move) -> None:
        """Move to another run, if there is one."""
        blocks, spot = self.view.blocks, self.spot
        if spot is None:
            return
        match where:
            case "previous" | "next":
                target = adjacent_run(blocks, spot, -1 if where == "previous" else 1)
            case "above" | "below":
                target = run_above(blocks, spot, -1 if where == "above" else 1, self._cell)
            case "first" | "last":
                target = outermost(blocks, -1 if where == "first" else 1)
        if target is not None:
            self._choose(target, keep_cell=where in ("above", "below"))

    def at(self, x: int, y: int) -> RunSpot | None:
        """Find the run at a visible cell."""
        place = self.view.row_at(y + self.view.scroll_offset.y)
        if place is None:
            return None
        run = run_at(self.view.blocks[place[0]], place[1], x - self.view.margin)
        return None if run is None else RunSpot(place[0], run)

    @property
    def rows(self) -> tuple[int, int]:
        """First and last row of the run in the whole transcript."""
        assert self.spot is not None
        assert self.place is not None
        top = self.view.tops[self.spot.block]
        return top + self.place.first, top + self.place.last

    def relocate(self) -> None:
        """Find the run after the text has changed."""
        if self.spot is None:
            return
        block, run = self.spot
        entry = self.view.blocks[block].entry if block < len(self.view.blocks) else None
        if not isinstance(entry, Answer) or run >= len(entry.runs) or self.view.blocks[block].hides(run):
            self.stop()
        else:
            self.place = find_place(self.view.blocks[block], run)

    @property
    def on_last(self) -> bool:
        return self.spot is not None and self.spot == outermost(self.view.blocks, 1)

    def resized(self) -> None:
        if self.active:
            self.view.make_room(strip_rows(self.view.size.height))
            self._reveal()
            self._announce()

    def stays(self, height: int) -> bool:
        """Whether the run would be in sight with the end of so many rows at the bottom."""
        return self.place is None or self.rows[0] >= height + self.view.room - self.view.size.height

    def _reveal(self) -> None:
        """Scroll the run into sight, with a row around it."""
        if self.place is None:
            return
        view = self.view
        first, last = self.rows
        top, rows = view.scroll_offset.y, view.size.height - view.room
        y = max(top, last + 2 - rows)
        if first - 1 < y:
            y = max(0, first - 1)
        if y != top:
            view.jump_to(y)

    def _choose(self, spot: RunSpot | None, *, keep_cell: bool = False) -> None:
        """Inspect another run; `keep_cell` keeps the column of moves up and down."""
        if spot == self.spot:
            return
        self._repaint()
        before = self.answer
        self.spot = spot
        self.place = None if spot is None else find_place(self.view.blocks[spot.block], spot.run)
        self.at_end = self.on_last
        inspected = self.answer
        if spot is not None and inspected is not None and inspected.runs[spot.run].thought_tokens:
            inspected.opened = True  # so that it does not fold during inspection
        if self.place is not None and not keep_cell:
            self._cell = self.place.cell
        self._repaint()
        self._reveal()
        self._announce(before)

    def _announce(self, before: Answer | None = None) -> None:
        """Report the inspected run's answer, or `before` if there is none."""
        if (answer := self.answer or before) is not None:
            self.view.post_message(self.view.Inspected(answer))

    def _repaint(self) -> None:
        if self.place is not None:
            first, last = self.rows
            self.view.refresh_lines(first, last - first + 1)


class MessageMark:
    """The marked message, which keys copy, edit or answer again; the input box keeps the focus."""

    def __init__(self, view: TranscriptView) -> None:
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
            if self.clear():
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

    def draw(self, strip: Strip, block: EntryBlock, row: int, margin: int) -> Strip:
        """Draw the mark into the margin of a row of the marked message."""
        if self.entry is None or block.entry is not self.entry or row >= block.height - 1:
            return strip
        colours = self._view.app.theme_variables
        mark = Strip([Segment(SIGN, Style(color=colours["accent"], bgcolor=colours["background"], bold=True))])
        return Strip.join([strip.crop(0, margin - 3), mark, strip.crop(margin - 2)])


class TextFinder:
    """Search in the transcript; a match is selected, so that it stands out and ctrl+c copies it."""

    def __init__(self, view: TranscriptView) -> None:
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
        margin = Offset(view.margin, 0)
        selections = {view: Selection(first + margin, last + margin)} if first != last else {}
        view.call_later(setattr, view.screen, "selections", selections)  # a change of the input box clears selections

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
