"""The transcript on the screen, and the places in it. A frame costs as much as its visible rows, however long the chat is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.color import Color
from textual.containers import ScrollableContainer
from textual.geometry import Offset
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from ...chat.entries import Answer, ChatEntry, Prompt
from ...chat.transcript import Transcript
from ...render.blocks import EntryBlock, make_block
from ...render.inspection import strip_rows
from ...render.runs import Place, RunSpot, adjacent_run, find_place, outermost, run_above, run_at
from ...render.thoughts import Thoughts
from ...settings.keymap import INSPECT
from ...text.cells import expand_tabs, find_all
from ...theming.colouring import Colouring, effective
from ..keys import bindings_of
from .painter import RowPainter
from .rows import QuickRows

MEASURE = 100
"""Longest line in cells: longer ones are hard to read, so a wide terminal gets margins instead."""

TOP = 1
"""Blank rows above the first entry."""

MARGIN = 3
"""Cells left of the text, for the bar of a prompt."""

SLICE = 0.05
"""Longest time to render Markdown before the screen gets its turn, in seconds."""

Move = Literal["previous", "next", "above", "below", "first", "last"]

SIGN = "┃"
"""Sign of a marked message, in the margin."""


class TranscriptView(QuickRows, can_focus=True, inherit_bindings=False):
    """The transcript on the screen, which follows its end until the user scrolls up."""

    DEFAULT_CSS = """
    TranscriptView {
        background: $background;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
    }
    """
    ALLOW_SELECT = True
    # Outside an inspection the same keys scroll.
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(INSPECT, priority=False),
        *ScrollableContainer.BINDINGS,
    ]

    following: reactive[bool] = reactive(True)
    """Whether the view scrolls with new text."""
    markdown: reactive[bool] = reactive(False)
    """Whether finished answers are Markdown."""
    colouring: reactive[Colouring] = reactive[Colouring]("length")
    thoughts: reactive[Thoughts] = reactive[Thoughts]("folded")
    """State of thoughts that the user has neither opened nor folded."""

    @dataclass
    class Followed(Message):
        """The view began or ceased to follow the end, or new text is out of sight (`fresh`)."""

        following: bool
        fresh: bool = False

    @dataclass
    class Inspected(Message):
        """The inspected run of an answer has changed."""

        answer: Answer

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.transcript = transcript
        self.blocks: list[EntryBlock] = []
        """Wrapped entries."""
        self.tops: list[int] = []
        """First row of each block."""
        self.room = 0
        """Blank rows below the last block, for the strip about a run."""
        self._height = 0
        self._cells = 0  # width that the blocks are wrapped at
        self._open = 0  # blocks before this one are closed
        self._strips: LRUCache[tuple[int, int, int, int], Strip] = LRUCache(1024)
        self._painter: RowPainter
        self._plain: Style
        self._styled_for: tuple[Mapping[str, str], Color] | None = None
        self._anchor = 0, 0, -1
        """Text kept in place last: its block, the characters above it in the block, and the first visible row then."""
        self.cursor = RunCursor(self)
        self.mark = MessageMark(self)
        self.finder = TextFinder(self)
        self.draws = 0
        """Rows drawn so far, without those from the cache; for tests and benchmarks."""

    @property
    def margin(self) -> int:
        return max(MARGIN, (self.size.width - self._cells) // 2)

    def row_at(self, y: int) -> tuple[int, int] | None:
        """Find the block of a row of the whole transcript, and the row in it."""
        if not TOP <= y < self._height:
            return None
        index = bisect_right(self.tops, y) - 1
        return index, y - self.tops[index]

    # Contents

    def show(self, transcript: Transcript) -> None:
        """Show another transcript, from its end."""
        self.cursor.stop()
        self.mark.clear()
        self.finder.restart()
        self._anchor = 0, 0, -1
        self.transcript = transcript
        self._wrap()
        self.following = True
        self.to_end()

    def _wrap(self) -> None:
        """Wrap all entries."""
        self.blocks = []
        self.tops = []
        self._open = 0
        self._height = 0
        self._strips.clear()
        self.update_text(fresh=False)
        if not self.blocks:
            self._set_height(0)
        self.refresh()

    def rewind(self, index: int) -> None:
        """Redraw from the entry at `index` on, after a change of the entries there."""
        self.cursor.stop()
        following, y = self.following, self.scroll_offset.y
        del self.blocks[index:], self.tops[index:]
        self._anchor = 0, 0, -1
        self._open = min(self._open, index)
        self.following = False  # else it would jump to the end of the shorter text for a moment
        self.update_text()
        self._lay_out()
        if following:
            self.follow()
        else:
            self.jump_to(min(y, self.max_scroll_y))

    def update_text(self, fresh: bool = True) -> None:
        """Show new text; `fresh` is False if it is only wrapped again."""
        if not self._cells:
            return
        changed: int | None = None
        for index in range(self._open, len(self.transcript.entries)):
            if new := index == len(self.blocks):
                self.blocks.append(make_block(self.transcript, index, self._cells, self.thoughts))
                self.tops.append(0)
            block = self.blocks[index]
            first = block.update()
            if isinstance(block.entry, Answer) and block.closed and first is not None and not new:
                if block.entry.figures.certainty == "unknown":
                    first = 0  # its runs may have lost their colours
                    self._strips.clear()
                if self.markdown:
                    self._render_markdown(block)
                    first = 0
            self.tops[index] = self.tops[index - 1] + self.blocks[index - 1].height if index else TOP
            if changed is None and (new or first is not None):
                changed = self.tops[index] + (0 if new else first or 0)
        while self._open < len(self.blocks) and self.blocks[self._open].closed:
            self._open += 1
        if changed is None:
            return
        height, before = self.tops[-1] + self.blocks[-1].height, self._height
        if height != before:
            self._set_height(height)
        self.cursor.relocate()
        if self.following and self.cursor.active and not self.cursor.stays(height):
            self.following = False
        if self.following:
            self.to_end()
        elif fresh:
            self.post_message(self.Followed(False, fresh=True))
            if self.scroll_offset.y > self.max_scroll_y:  # a thought was folded
                self.jump_to(self.max_scroll_y)
        if self.markdown:
            self.call_later(self._render_more)
        # Without the last row, which was blank and still is.
        self.refresh_lines(changed, max(1, max(height, before) - changed - 1))

    # Layout

    def _set_height(self, height: int) -> None:
        self._height = height
        self.resize_content(height + self.room)

    def make_room(self, rows: int) -> None:
        self.room = rows
        self._set_height(self._height)
        if self.following:
            self.to_end()
        elif self.scroll_offset.y > self.max_scroll_y:
            self.jump_to(self.max_scroll_y)

    def _lay_out(self) -> None:
        """Place the blocks after a change of their heights."""
        top = TOP
        for index, block in enumerate(self.blocks):
            self.tops[index] = top
            top += block.height
        self._strips.clear()
        self._set_height(top if self.blocks else 0)
        self.refresh()

    def on_resize(self) -> None:
        """Wrap the text again for another width."""
        cells = max(8, min(MEASURE, self.size.width - 2 * MARGIN))
        if cells != self._cells:
            self.screen.clear_selection()  # its rows have other text now
            with self._keeping_place():
                self._cells = cells
                self._wrap()
        else:
            self._strips.clear()
            if self.following:
                self.to_end()
        self.cursor.resized()

    @contextmanager
    def _keeping_place(self) -> Iterator[None]:
        """Place the blocks after a change of their heights. The same text stays at the top, or the end while it is followed."""
        following, place = self.following, self.row_at(max(TOP, self.scroll_offset.y))
        if self._anchor[2] != self.scroll_offset.y and place is not None:
            block = self.blocks[place[0]]
            # Markdown has other rows: the same share of the text.
            share = int(place[1] / block.height * _length(block))
            self._anchor = place[0], block.offset(place[1]) if block.rendered is None else share, -1
        yield
        self._lay_out()
        self.following = following
        if following:
            self.to_end()
        elif place is not None:
            index, offset, _ = self._anchor
            block = self.blocks[index]
            share = round(offset / max(1, _length(block)) * block.height)
            self.jump_to(self.tops[index] + (block.row_at(offset) if block.rendered is None else share))
            # Several changes in a row would drift, each to the start of a row.
            self._anchor = index, offset, self.scroll_offset.y

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end while it is in view."""
        super().watch_scroll_y(old_value, new_value)
        self.following = self.is_vertical_scroll_end

    def watch_following(self, following: bool) -> None:
        self.post_message(self.Followed(following))

    def follow(self) -> None:
        """Scroll to the end, and end an inspection."""
        self.cursor.stop()
        self.to_end()
        self.following = True

    # Markdown

    def watch_markdown(self, markdown: bool) -> None:
        """Redraw finished answers: the visible ones at once, the rest of a long chat bit by bit."""
        self.cursor.stop()
        with self._keeping_place():
            for block in self.blocks:
                block.rendered = None
                block.colours = {}
        self._render_more()

    def _render_markdown(self, block: EntryBlock) -> None:
        from .markdown_rows import as_markdown, markdown_rows  # 20 ms, unused in most chats

        assert isinstance(block.entry, Answer)
        block.colours = self.app.theme_variables
        dark = self.app.current_theme.dark
        block.rendered = markdown_rows(as_markdown(block.entry), self._cells, block.colours, dark) or None

    def _render_more(self) -> None:
        """Render finished answers, those in view first, for SLICE seconds, then let the screen draw."""
        answers = [(i, block) for i, block in enumerate(self.blocks) if isinstance(block.entry, Answer) and block.closed]
        waiting = [i for i, block in answers if not block.colours]
        if not (self.markdown and waiting):
            return
        middle = self.row_at(self.scroll_offset.y + self.size.height // 2) or (len(self.blocks), 0)
        deadline = monotonic() + SLICE
        with self._keeping_place():
            for index in sorted(waiting, key=lambda index: abs(index - middle[0])):
                self._render_markdown(self.blocks[index])
                if monotonic() > deadline:
                    self.set_timer(0.01, self._render_more)
                    break

    # Thoughts

    def watch_thoughts(self) -> None:
        with self._keeping_place():
            for block in self.blocks:
                block.thoughts = self.thoughts
                block.fold(None)
        self.cursor.relocate()

    def fold(self, index: int | None = None) -> bool:
        """Open or fold the thought of an answer; False if there is none.

        Args:
            index: of the block; None for the marked answer, else the last one with a thought.
        """
        thoughts = [i for i, block in enumerate(self.blocks) if block.has_thoughts]
        if index is None:
            marked = [i for i in thoughts if self.blocks[i].entry is self.mark.entry]
            index = (marked or thoughts[-1:] or [-1])[0]
        if index not in thoughts:
            return False
        block, following = self.blocks[index], self.following
        block.fold(not block.opened)
        self._lay_out()
        if following and not (block.opened and block.closed):
            self.to_end()
        else:
            # An open thought is read from its beginning.
            self.following = False
            self.jump_to(min(self.scroll_offset.y, self.tops[index], self.max_scroll_y))
            self.following = self.is_vertical_scroll_end
        self.cursor.relocate()
        return True

    # Drawing

    def watch_colouring(self) -> None:
        self._styled_for = None

    def render_line(self, y: int) -> Strip:
        return self.painted(y).apply_offsets(0, y + self.scroll_offset.y)

    def painted(self, y: int) -> Strip:
        styled_for = self.app.theme_variables, self.styles.background  # they follow the theme with a delay
        if self._styled_for != styled_for:
            self._plain = self.rich_style  # expensive, as it goes through all parents
            self._painter = RowPainter(self.app.theme_variables, effective(self.colouring, self.app.no_color), self._plain)
            self._strips.clear()
            self._styled_for = styled_for
        y += self.scroll_offset.y
        place = self.row_at(y)
        if place is None:
            return Strip.blank(self.size.width, self._plain)
        index, row = place
        block = self.blocks[index]
        if block.rendered is not None and block.colours is not self.app.theme_variables:
            self._render_markdown(block)  # in other colours, on the same rows
        run = self.cursor.run_in(index, row)
        key = (index, row, block.version(row), run)
        strip = self._strips.get(key)
        if strip is None:
            self.draws += 1
            strip = self._painter.draw(block, block.row(row), self.margin, run)
            strip = strip.extend_cell_length(self.size.width, self._plain).simplify()
            self._strips[key] = strip
        strip = self.mark.draw(strip, block, row, self.margin)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            strip = self._painter.selected(strip, *span, self.margin)
        return strip

    # Keys and mouse

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the moves from run to run during an inspection alone."""
        return self.cursor.active if action == "inspect_move" else True

    def action_inspect_move(self, where: Move) -> None:
        self.cursor.move(where)

    def on_click(self, event: events.Click) -> None:
        """Inspect the clicked run, or end that; open or fold a thought."""
        place = self.row_at(event.y + self.scroll_offset.y)
        if place is not None and self.blocks[place[0]].row(place[1]).kind == "thought":
            event.prevent_default()  # Textual selects everything at a double click
            self.fold(place[0])
            return
        spot = self.cursor.at(event.x, event.y)
        if event.chain > 1 or self.text_selection is not None or spot is None:
            return
        if spot == self.cursor.spot:
            self.cursor.stop()
        else:
            self.cursor.start(spot)

    def on_blur(self) -> None:
        """End the inspection, unless the terminal itself has lost the focus."""
        if self.app.app_focus:
            self.cursor.stop()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Read the selected text with wrapped lines joined, without margins and marks."""
        start = selection.start or Offset(0, 0)
        last = self._height - 1 if selection.end is None else min(selection.end.y, self._height - 1)
        out: list[str] = []
        for y in range(start.y, last + 1):
            place = self.row_at(y)
            if place is None:
                continue
            row = self.blocks[place[0]].row(place[1])
            # Marks and text that may change take their cells in the row, but are not part of the text.
            pieces = ("\0" * len(text) if run < 0 and row.kind == "answer" else text for text, run in row.pieces)
            text = " " * self.margin + "".join(pieces)
            span = selection.get_span(y) or (0, -1)
            part = text[max(self.margin, span[0]) : None if span[1] < 0 else span[1]]
            part = part.replace("\0", "")
            out.append(part if row.continued and y < last else part.rstrip() + "\n")
        return "".join(out).strip("\n"), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def _length(block: EntryBlock) -> int:
    """Count the characters of a block's last section."""
    return sum(len(line.text) for line in block.flow.lines)


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
