"""The transcript on the screen: a line-API widget. A frame costs as much as its visible rows, however long the chat is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.color import Color
from textual.containers import ScrollableContainer
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from ...chat.entries import Answer
from ...chat.transcript import Transcript
from ...render.blocks import EntryBlock, make_block
from ...render.thoughts import Thoughts
from ...settings.keymap import INSPECT
from ...theming.colouring import Colouring, effective
from ..keys import bindings_of
from .cursor import Move, RunCursor
from .find import TextFinder
from .mark import MessageMark
from .painter import RowPainter
from .stack import MARGIN, TOP, BlockStack

MEASURE = 100
"""Longest line in cells: longer ones are hard to read, so a wide terminal gets margins instead."""

FIRST_SLICE, SLICE = 0.1, 0.03
"""Longest time to render Markdown before the screen gets its turn, in seconds: at first, and later."""


class TranscriptView(BlockStack, can_focus=True, inherit_bindings=False):
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

    colouring: reactive[Colouring] = reactive[Colouring]("length")
    thoughts: reactive[Thoughts] = reactive[Thoughts]("folded")
    """State of thoughts that the user has neither opened nor folded."""

    @dataclass
    class Inspected(Message):
        """The inspected run of an answer has changed."""

        answer: Answer

    @dataclass
    class Turned(Message):
        """The sign of an entry's variants was clicked: the entry's index, and the direction (−1 or 1)."""

        index: int
        step: int

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.transcript = transcript
        self._open = 0  # blocks before this one are closed
        self._strips: LRUCache[tuple[int, int, int, int], Strip] = LRUCache(1024)
        self._painter: RowPainter
        self._plain: Style
        self._styled_for: tuple[Mapping[str, str], Color] | None = None
        self._resized: tuple[tuple[int, int], int] | None = None
        """Block and offset at the top after the last resize, and their row."""
        self._waiting: list[EntryBlock] = []
        """Answers to render as Markdown, oldest first."""
        self.cursor = RunCursor(self, lambda answer: self.post_message(self.Inspected(answer)))
        self.mark = MessageMark(self)
        self.finder = TextFinder(self)
        self.draws = 0
        """Rows drawn so far, without those from the cache; for tests and benchmarks."""

    def show(self, transcript: Transcript) -> None:
        """Show another transcript, from its end."""
        self.cursor.stop()
        self.mark.clear()
        self.finder.restart()
        self.transcript = transcript
        self._reset()
        self.following = True
        self.to_end()

    def rewind(self, index: int) -> None:
        """Redraw from the entry at `index` on, after a change of the entries there."""
        self.cursor.stop()
        following, y = self.following, self.scroll_offset.y
        del self.blocks[index:], self.tops[index:]
        self._open = min(self._open, index)
        self._waiting = [block for block in self._waiting if block in self.blocks]
        self._strips.clear()
        self.following = False  # else it would jump to the end of the shorter text for a moment
        self.update_text()
        self._set_height(self.tops[-1] + self.blocks[-1].height if self.blocks else 0)
        if following:
            self.follow()
        else:
            self.jump_to(min(y, self.max_scroll_y))
        self.refresh()

    def update_text(self, fresh: bool = True) -> None:
        """Show new text; `fresh` is False if it is only wrapped again."""
        if not self._cells:
            return
        entries = self.transcript.entries
        changed: int | None = None
        for index in range(self._open, len(entries)):
            if index == len(self.blocks):
                self.blocks.append(make_block(self.transcript, index, self._cells, self.thoughts))
                self.tops.append(0)
                first: int | None = 0
                self.blocks[index].update()
                if self.markdown and isinstance(entries[index], Answer):
                    self._waiting.append(self.blocks[index])
            else:
                first = self.blocks[index].update()
                entry = entries[index]
                if isinstance(entry, Answer) and entry.done and entry.figures.certainty == "unknown":
                    first = 0  # its runs may have lost their colours
                    self._strips.clear()
                if self.markdown and first is not None:
                    self._render_markdown(self.blocks[index])
                    if self.blocks[index].rendered is not None:
                        first = 0
            self.tops[index] = self.tops[index - 1] + self.blocks[index - 1].height if index else TOP
            if first is not None and changed is None:
                changed = self.tops[index] + first
        while self._open < len(self.blocks) and self.blocks[self._open].closed:
            self._open += 1
        if changed is None:
            return
        height, before = self.tops[-1] + self.blocks[-1].height, self._height
        if height != before:
            self._set_height(height)
        self.cursor.relocate()
        if self.following and self.cursor.by_keys and not self.cursor.stays(height):
            self.following = False
        if self.following:
            self.to_end()
        elif fresh:
            self.post_message(self.Followed(False, fresh=True))
            if self.scroll_offset.y > self.max_scroll_y:  # a thought was folded
                self.jump_to(self.max_scroll_y)
        if self._waiting:
            self.call_later(self._render_more, FIRST_SLICE)
        # Without the last row, which was blank and still is.
        self.refresh_lines(changed, max(1, max(height, before) - changed - 1))

    def on_resize(self) -> None:
        """Wrap the text again, and keep the row at the top unless the end is followed."""
        cells = max(8, min(MEASURE, self.size.width - 2 * MARGIN))
        if cells == self._cells:
            self._strips.clear()
            if self.following:
                self.to_end()
            self.cursor.resized()
            return
        following, anchor = self.following, self._anchor()
        if self._resized is not None and self._resized[1] == self.scroll_offset.y:
            anchor = self._resized[0]  # else several resizes would drift, each to the start of a row
        self._cells = cells
        self.screen.clear_selection()  # its rows have other text now
        self._reset()
        self.following = following
        if following:
            self.to_end()
        elif anchor is not None:
            index, offset = anchor
            self.jump_to(self.tops[index] + self.blocks[index].row_at(offset))
            self._resized = anchor, self.scroll_offset.y
        self.cursor.resized()

    def _anchor(self) -> tuple[int, int] | None:
        """Find the block at the top of the view, and the offset in its text."""
        if (place := self.row_at(self.scroll_offset.y)) is None:
            return None
        index, row = place
        block = self.blocks[index]
        if block.rendered is not None:  # Markdown has other rows: take the same share of the text
            return index, int(row / block.height * sum(len(line.text) for line in block.flow.lines))
        return index, block.offset(row)

    def _reset(self) -> None:
        self._waiting = []
        self.blocks = []
        self.tops = []
        self._open = self._height = 0
        self._strips.clear()
        self.update_text(fresh=False)
        if not self.blocks:
            self.virtual_size = Size(self.size.width, 0)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end while it is in view."""
        super().watch_scroll_y(old_value, new_value)
        self.following = self.is_vertical_scroll_end
        self.cursor.scrolled()

    def follow(self) -> None:
        self.cursor.stop()
        super().follow()

    def watch_markdown(self, markdown: bool) -> None:
        """Redraw finished answers: the visible ones at once, the rest of a long chat bit by bit."""
        self.cursor.leave()  # the mouse is over another text now
        place = self._top_place()
        for block in self.blocks:
            block.rendered = None
        self._waiting = []
        if markdown:
            middle = self.row_at(self.scroll_offset.y + self.size.height // 2)
            first = len(self.blocks) if place is not None else 0
            if middle is not None:
                first = middle[0]
            order = sorted(range(len(self.blocks)), key=lambda index: -abs(index - first))
            self._waiting = [self.blocks[index] for index in order if isinstance(self.blocks[index].entry, Answer)]
        self._render_more(FIRST_SLICE, place)

    def _render_markdown(self, block: EntryBlock) -> None:
        if isinstance(block.entry, Answer) and block.closed and block.entry.text.strip():
            from .markdown_rows import as_markdown, markdown_rows  # 20 ms, unused in most chats

            block.colours = self.app.theme_variables
            dark = self.app.current_theme.dark
            block.rendered = markdown_rows(as_markdown(block.entry), self._cells, block.colours, dark) or None

    def _render_more(self, seconds: float = SLICE, place: tuple[int, float] | None = None) -> None:
        """Render waiting answers, the last first, for some seconds, then let the screen draw. The view stays at its top, or at
        `place`."""
        following, place = self.following, place or self._top_place()
        deadline = monotonic() + seconds
        while self._waiting and monotonic() < deadline:
            self._render_markdown(self._waiting.pop())
        self._lay_out_at(place, following)
        if self._waiting:
            self.set_timer(0.01, self._render_more)

    def _top_place(self) -> tuple[int, float] | None:
        """Find the block at the top of the view, and the share of it above the top."""
        place = self.row_at(self.scroll_offset.y)
        return None if place is None else (place[0], place[1] / self.blocks[place[0]].height)

    def _lay_out_at(self, place: tuple[int, float] | None, following: bool) -> None:
        """Lay out the blocks, and stay at the end or at a place."""
        self._lay_out()
        if following:
            self.following = True
            self.to_end()
        elif place is not None:
            self.jump_to(self.tops[place[0]] + round(place[1] * self.blocks[place[0]].height))

    def _lay_out(self) -> None:
        top = TOP
        for index, block in enumerate(self.blocks):
            self.tops[index] = top
            top += block.height
        self._strips.clear()
        self._set_height(top if self.blocks else 0)
        self.refresh()

    def watch_colouring(self) -> None:
        self._styled_for = None

    # Thoughts

    def watch_thoughts(self) -> None:
        place, following = self._top_place(), self.following
        for block in self.blocks:
            block.thoughts = self.thoughts
            block.fold(None)
        self._lay_out_at(place, following)
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
            strip = self._painter.draw(block, block.row(row), self.margin, run, self.cursor.sign)
            strip = strip.extend_cell_length(self.size.width, self._plain).simplify()
            self._strips[key] = strip
        strip = self.mark.draw(strip, block, row, self.margin)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            strip = self._painter.selected(strip, *span, self.margin)
        return strip

    # Inspection

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the moves from run to run during an inspection alone."""
        return self.cursor.by_keys if action == "inspect_move" else True

    def action_inspect_move(self, where: Move) -> None:
        self.cursor.move(where)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not event.button:
            self.cursor.hover(event.x, event.y)

    def on_leave(self) -> None:
        self.cursor.leave()

    def on_click(self, event: events.Click) -> None:
        """Inspect the clicked run; a second click ends that, a double click selects a word, and the sign of variants turns to
        another one."""
        place = self.row_at(event.y + self.scroll_offset.y)
        if place is not None and (step := step_at(self.blocks[place[0]], place[1], event.x - self.margin)):
            self.post_message(self.Turned(place[0], step))
            return
        if place is not None and self.blocks[place[0]].row(place[1]).kind == "thought":
            event.prevent_default()  # as below
            self.fold(place[0])
            return
        if event.chain == 2:
            event.prevent_default()  # Textual selects everything
            self.finder.select_word(event.x, event.y)
        spot = self.cursor.at(event.x, event.y)
        if event.chain > 1 or self.text_selection is not None or spot is None:
            return
        if self.cursor.by_keys and spot == self.cursor.spot:
            self.cursor.stop()
        else:
            self.cursor.start(spot)

    def on_blur(self) -> None:
        """End the inspection, unless the terminal itself has lost the focus."""
        if self.app.app_focus and self.cursor.by_keys:
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


def step_at(block: EntryBlock, row: int, cell: int) -> int:
    """Choose the direction for a click in a row: −1 on the left half of the sign of variants, 1 on the right, 0 elsewhere."""
    line = block.row(row)
    start, sign = block.cells - len(line.badge), line.badge
    if line.kind == "variants" and line.first:
        start, sign = 0, line.pieces[0].text
    if not sign or not start <= cell < start + len(sign):
        return 0
    return -1 if cell < start + len(sign) // 2 else 1
