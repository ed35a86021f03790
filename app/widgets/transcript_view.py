"""The transcript on screen: a line-API widget. A frame costs what its visible rows cost, however long the chat is."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from ..cells import width
from ..colouring import Way, effective, style_name
from ..transcript import SHADES, Answer, Transcript
from .blocks import MARK, Block, Row

MEASURE = 100
"""Longest line in cells: longer ones are hard to read, so a wide terminal gets margins instead."""

TOP = 1
"""Blank rows above the first entry."""

MARGIN = 3
"""Cells left of the text, for the bar beside a prompt."""


REASON_STYLES = {"eos": "figures", "died": "error", "error": "error"}
"""Finish reason → style; others are worth a warning's colour, since text is missing."""


class TranscriptView(ScrollView, can_focus=True):
    """Shows a Transcript and follows its end until the user scrolls up."""

    DEFAULT_CSS = """
    TranscriptView {
        background: $background;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
    }
    """
    ALLOW_SELECT = True
    BINDINGS: ClassVar = []

    following: reactive[bool] = reactive(True)
    """Whether new text scrolls the view."""
    colouring: reactive[Way] = reactive[Way]("cycle")
    """How runs are told apart."""

    @dataclass
    class Followed(Message):
        """The view began or ceased to follow the end, or text came in below what is visible (`fresh`)."""

        following: bool
        fresh: bool = False

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.transcript = transcript
        self._blocks: list[Block] = []
        self._tops: list[int] = []  # first row of each block
        self._open = 0  # blocks before this one are closed
        self._height = 0
        self._cells = 0  # width that the blocks are wrapped at
        self._strips: LRUCache[tuple[int, int, int], Strip] = LRUCache(1024)
        self._styles: dict[str, Style] = {}
        self._styled_for = ""
        self._way: Way = "cycle"
        self.draws = 0
        """Rows drawn so far (not those taken from the cache): what tests and benchmarks count."""

    @property
    def margin(self) -> int:
        """Cells left of the text."""
        return max(MARGIN, (self.size.width - self._cells) // 2)

    def show(self, transcript: Transcript) -> None:
        """Show another transcript, from its end."""
        self.transcript = transcript
        self._reset()
        self.following = True
        self._to_end()

    def update_text(self) -> None:
        """Take in what the transcript gained."""
        if not self._cells:
            return
        entries = self.transcript.entries
        changed: int | None = None
        for index in range(self._open, len(entries)):
            if index == len(self._blocks):
                self._blocks.append(Block(entries[index], self._cells))
                self._tops.append(0)
                first: int | None = 0
                self._blocks[index].update()
            else:
                first = self._blocks[index].update()
            self._tops[index] = self._tops[index - 1] + self._blocks[index - 1].height if index else TOP
            if first is not None and changed is None:
                changed = self._tops[index] + first
        while self._open < len(self._blocks) and self._blocks[self._open].closed:
            self._open += 1
        if changed is None:
            return
        height = self._tops[-1] + self._blocks[-1].height
        if height != self._height:
            self._resize_content(height)
        if self.following:
            self._to_end()
        else:
            self.post_message(self.Followed(False, fresh=True))
        # The last row is blank, and so was what was there before.
        self.refresh_lines(changed, max(1, height - changed - 1))

    def _resize_content(self, height: int) -> None:
        """Take note of the content's height."""
        self._height = height
        size = Size(self.size.width, height)
        if self.show_vertical_scrollbar == (height > self.size.height):
            # The usual way lays out the whole screen anew (10 ms), which only the scrollbar's coming or going calls for.
            self.set_reactive(TranscriptView.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = height
        else:
            self.virtual_size = size

    def on_resize(self) -> None:
        """Wrap anew; the row at the top stays in view unless the end is followed."""
        cells = max(8, min(MEASURE, self.size.width - 2 * MARGIN))
        if cells == self._cells:
            self._strips.clear()
            if self.following:
                self._to_end()
            return
        following, anchor = self.following, self._place()
        self._cells = cells
        self._reset()
        if following:
            self.following = True
            self._to_end()
        elif anchor is not None:
            self.scroll_to(y=self._row_of(*anchor), animate=False, immediate=True, force=True)

    def _place(self) -> tuple[int, int] | None:
        """Block and offset in its text at the top of the view."""
        y = self.scroll_offset.y
        if not self._blocks or not TOP <= y < self._height:
            return None
        index = bisect_right(self._tops, y) - 1
        lines = self._blocks[index].flow.lines
        return index, sum(len(line.text) for line in lines[: y - self._tops[index]])

    def _row_of(self, index: int, offset: int) -> int:
        """The row that shows an anchor now."""
        row = 0
        for line in self._blocks[index].flow.lines:
            offset -= len(line.text)
            if offset < 0:
                break
            row += 1
        return self._tops[index] + row

    def _reset(self) -> None:
        self._blocks, self._tops, self._open, self._height = [], [], 0, 0
        self._strips.clear()
        self.update_text()
        if not self._blocks:
            self.virtual_size = Size(self.size.width, 0)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling up ends following; reaching the end takes it up again."""
        super().watch_scroll_y(old_value, new_value)
        self.following = self.is_vertical_scroll_end

    def watch_following(self, following: bool) -> None:
        """Tell the screen, which shows a hint."""
        self.post_message(self.Followed(following))

    def _to_end(self) -> None:
        # Forced: right after a growth the scrollbar, and with it the permission to scroll, is not there yet.
        self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._to_end()
        self.following = True

    def watch_colouring(self) -> None:
        """Draw anew what is visible."""
        self._styled_for = ""

    # Drawing

    def row_at(self, y: int) -> tuple[int, int] | None:
        """Block and row in it of a row of the whole transcript."""
        if not TOP <= y < self._height:
            return None
        index = bisect_right(self._tops, y) - 1
        return index, y - self._tops[index]

    def render_line(self, y: int) -> Strip:
        """One visible row."""
        if self._styled_for != self.app.theme:
            self._style()
        place = self.row_at(y + self.scroll_offset.y)
        if place is None:
            return Strip.blank(self.size.width, self.rich_style)
        index, local = place
        key = (index, local, self._blocks[index].version(local))
        strip = self._strips.get(key)
        if strip is None:
            strip = self._draw(self._blocks[index], self._blocks[index].row(local))
            strip = strip.extend_cell_length(self.size.width).apply_style(self.rich_style).simplify()
            self._strips[key] = strip
        absolute = y + self.scroll_offset.y
        if (selection := self.text_selection) is not None and (span := selection.get_span(absolute)) is not None:
            strip = self._selected(strip, *span)
        return strip.apply_offsets(0, absolute)

    def _style(self) -> None:
        """Styles of the theme in force."""
        variables = self.app.theme_variables
        self._way = effective(self.colouring, self.app.no_color)
        self._styles = {
            name: Style(color=variables[variable], bold=bold, italic=italic)
            for name, variable, bold, italic in (
                ("figures", "quiet", None, None),
                ("prompt", "foreground", True, None),
                ("information", "quiet", None, True),
                ("warning", "warning", None, None),
                ("error", "error", None, None),
                ("bar", "primary", True, None),
                ("cursor", "primary", None, None),
                ("mark", "accent", None, True),
                ("plain", "plain", None, None),
                ("plain-alt", "plain-alt", None, None),
            )
        }
        self._styles["prompt-row"] = Style(bgcolor=variables["surface"])
        self._styles["selected"] = Style(bgcolor=variables["screen-selection-background"])
        for i in range(SHADES):
            self._styles[f"run-{i}"] = Style(
                color=variables[f"run-{i}"],
                bgcolor=variables[f"run-{i}-tint"],
            )
            self._styles[f"heat-{i}"] = Style(color=variables[f"heat-{i}"], bgcolor=variables[f"heat-{i}-tint"])
            # Neighbours differ by line and weight.
            self._styles[f"line-{i}"] = Style(color=variables["foreground"], underline=i % 2 == 0, bold=i % 2 == 1)
        self._strips.clear()
        self._styled_for = self.app.theme

    def _run_style(self, answer: Answer, run: int) -> Style:
        if run == MARK:
            return self._styles["mark"]
        made = answer.runs[run]
        return self._styles[style_name(self._way, made.shade, made.tokens)]

    def _draw(self, block: Block, row: Row) -> Strip:
        self.draws += 1
        margin = self.margin
        space = Segment(" " * margin)
        match row.kind:
            case "blank":
                return Strip([])
            case "answer":
                assert isinstance(block.entry, Answer)
                segments = [space, *(Segment(text, self._run_style(block.entry, run)) for text, run in row.pieces)]
                if row.last:
                    segments.append(Segment("▍", self._styles["cursor"]))
                return Strip(segments)
            case "figures":
                assert isinstance(block.entry, Answer)
                reason, dot, rest = row.text.partition(" · ") if row.first else ("", "", row.text)
                style = self._styles[REASON_STYLES.get(block.entry.reason or "", "warning")]
                return Strip([space, Segment(reason, style), Segment(dot + rest, self._styles["figures"])])
            case "prompt":
                behind = self._styles["prompt-row"]
                bar = Segment("▌ ", self._styles["bar"] + behind)
                fill = " " * (self._cells + 1 - width(row.text))
                left = Segment(" " * (margin - 2))
                return Strip([left, bar, Segment(row.text + fill, self._styles["prompt"] + behind)])
            case kind:
                glyph = {"information": "· ", "warning": "! ", "error": "× "}[kind] if row.first else "  "
                style = self._styles[kind]
                return Strip([Segment(" " * (margin - 2) + glyph, style), Segment(row.text, style)])

    def _selected(self, strip: Strip, start: int, end: int) -> Strip:
        """A row with the characters from `start` to `end` (−1: all) marked."""
        text = strip.text.rstrip()
        end = len(text) if end < 0 else min(end, len(text))
        start = max(start, min(self.margin, len(text)))
        if end <= start:
            return strip
        left, right = width(text[:start]), width(text[:end])
        before, middle, after = strip.divide([left, right, strip.cell_length])
        return Strip.join([before, middle.apply_style(self._styles["selected"]), after])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Text under a selection: wrapped lines come out whole, margins and marks are left out."""
        start = selection.start or Offset(0, 0)
        last = self._height - 1 if selection.end is None else min(selection.end.y, self._height - 1)
        out: list[str] = []
        for y in range(start.y, last + 1):
            place = self.row_at(y)
            if place is None:
                continue
            row = self._blocks[place[0]].row(place[1])
            # Marks have their place in the row, but are no part of the text.
            pieces = ("\0" * len(text) if run == MARK and row.kind == "answer" else text for text, run in row.pieces)
            text = " " * self.margin + "".join(pieces)
            span = selection.get_span(y) or (0, -1)
            part = text[max(self.margin, span[0]) : None if span[1] < 0 else span[1]]
            part = part.replace("\0", "")
            out.append(part if row.continued and y < last else part.rstrip() + "\n")
        return "".join(out).strip("\n"), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()
