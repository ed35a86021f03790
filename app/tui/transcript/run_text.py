"""An answer's runs in a small window: wrapped, coloured by run, following the end; as far as it has come at a moment."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ...chat.entries import Answer
from ...chat.runs import thoughts_of
from ...render.blocks import TENTATIVE, Thoughts, thought_line
from ...text.cells import expand_tabs, fit, sanitise, width
from ...text.wrap import Flow
from ...theming.colouring import Colouring, bared, effective, ink_name
from .painter import DIM, run_styles

PAD = 1
"""Cells left and right of the text."""

NOTE, FOLDED = -1, -3
"""Owners of a flow's segments that are a sentence of ours: about the lane, and in place of a thought."""

THOUGHT = 1 << 40
"""Added to the number of a run: what of it is thought."""


class RunText(ScrollView, can_focus=False):
    """A small window on an answer, or on its first runs."""

    DEFAULT_CSS = """
    RunText { background: $background; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; }
    """
    BINDINGS: ClassVar = []

    colouring: reactive[Colouring] = reactive[Colouring]("length")
    """How runs are told apart."""
    thoughts: reactive[Thoughts] = reactive[Thoughts]("folded")
    """How thoughts are shown."""

    def __init__(self) -> None:
        super().__init__()
        self._answer = Answer("", "")
        self._count: int | None = None
        self._note = ""
        self._writing = False
        self._runs = 0  # taken in
        self._noted = False
        self._folded = False
        """Whether thoughts take no room, as the answer has begun."""
        self._flow = Flow(8)
        self._height = 0
        self._strips: LRUCache[tuple[int, int, bool], Strip] = LRUCache(256)
        self._styles: dict[str, Style] = {}
        self._styled_for: tuple[str, Colouring, bool] | None = None

    @property
    def cells(self) -> int:
        return max(8, self.scrollable_content_region.width - 2 * PAD)

    def show(self, answer: Answer, count: int | None = None, *, writing: bool = False, note: str = "") -> None:
        """Show an answer.

        Args:
            answer: may have grown since the last call.
            count: how many of its runs; all if None.
            writing: whether there is more to come.
            note: a sentence below the text.
        """
        shown = len(answer.runs) if count is None else count
        if answer is not self._answer or shown < self._runs or (self._noted and note != self._note):
            self._answer, self._note = answer, note
            self._count, self._writing = count, writing
            self._begin()
            self.refresh()
            return
        moved = shown != self._runs or writing != self._writing or (bool(note) and not self._noted)
        self._count, self._note, self._writing = count, note, writing
        if moved:
            self._take_in()

    def _begin(self, *, folded: bool = False) -> None:
        self._flow = Flow(self.cells)
        self._runs, self._height, self._noted = 0, 0, False
        self._folded = folded or self.thoughts == "hidden"
        self._strips.clear()
        self._take_in()

    def _take_in(self) -> None:
        if not self.size.width:
            return
        flow, runs = self._flow, self._answer.runs
        before = len(flow.lines)
        end = len(runs) if self._count is None else min(self._count, len(runs))
        for index in range(self._runs, end):
            for thought, late, text in runs[index].pieces():
                if thought and not self._folded:
                    flow.append(sanitise(text), THOUGHT + max(0, index - late))
                elif not thought:
                    thinking = bool(flow.owners) and flow.owners[-1] >= THOUGHT
                    if thinking and self.thoughts == "folded" and text.strip():
                        self._begin(folded=True)
                        return
                    if not flow.owners and (spent := thoughts_of(runs[: index + 1])).tokens:
                        if self.thoughts == "folded":
                            flow.append(f"▸ {thought_line(spent, cells=self.cells - 2)}\n", FOLDED)
                        text = text.lstrip("\n")
                    flow.append(("\n\n" if thinking else "") + sanitise(text), max(0, index - late))
        self._runs = end
        tail = (self._answer.held, self._answer.tentative) if end == len(runs) else ("", "")
        thinking = bool(end) and runs[end - 1].thinking
        held = "" if thinking and self._folded else sanitise(tail[0])
        flow.lend((held, end - 1 + THOUGHT * thinking), (sanitise(tail[1]), TENTATIVE))
        if self._note and not self._noted:
            flow.append(("\n\n" if runs else "") + sanitise(self._note), NOTE)
            self._noted = True
        first = min(flow.wrap(), max(0, before - 1))
        following = self.is_vertical_scroll_end
        height = max(1, len(flow.lines))
        while not self._writing and height > 1 and flow.lines[height - 1].text.isspace():
            height -= 1  # line breaks at the end of an answer take no room
        if height != self._height:
            self._height = height
            size = Size(self.size.width, height)
            if self.show_vertical_scrollbar == (height > self.size.height):
                # The usual way lays out the whole screen anew, which only the scrollbar's coming or going calls for.
                self.set_reactive(RunText.virtual_size, size)
                self.vertical_scrollbar.window_virtual_size = height
            else:
                self.virtual_size = size
        if following:
            self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)
        self.refresh_lines(first, height - first + 1)

    def on_resize(self) -> None:
        if self.cells != self._flow.width or not self._height:
            self._begin()
        self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)
        self.refresh()

    def watch_colouring(self) -> None:
        self._styled_for = None
        self.refresh()

    def watch_thoughts(self) -> None:
        self._begin()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        wanted = (self.app.theme, self.colouring, self.app.no_color)
        if self._styled_for != wanted:
            self._style()
            self._styled_for = wanted
        index, flow = y + self.scroll_offset.y, self._flow
        if index >= max(1, len(flow.lines)):
            return Strip.blank(self.size.width, self.rich_style)
        last = self._writing and index == max(0, len(flow.lines) - 1)
        key = (index, -1 if index < flow.settled else flow.revision, last)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._draw(index, last).extend_cell_length(self.size.width).apply_style(self.rich_style).simplify()
            self._strips[key] = strip
        return strip

    def _draw(self, index: int, last: bool) -> Strip:
        segments, column, cells = [Segment(" " * PAD)], 0, self._flow.width
        pieces = self._flow.lines[index].pieces() if self._flow.lines else ()
        for text, segment in pieces:
            shown = expand_tabs(text, column)
            if width(shown) > (room := cells - column):  # spaces that hang over the edge
                shown = fit(shown, room + 1).removesuffix("…") if room > 0 else ""
            column += width(shown)
            before, core, after = bared(shown)
            parts = ((before, None), (core, self._run_style(self._flow.owners[segment])), (after, None))
            segments += [Segment(part, style) for part, style in parts if part]
        if last:
            segments.append(Segment("▍", self._styles["cursor"]))
        return Strip(segments)

    def _run_style(self, owner: int) -> Style:
        if owner < 0:
            return self._styles[{NOTE: "note", FOLDED: "folded", TENTATIVE: "tentative"}[owner]]
        run, thought = self._answer.runs[owner % THOUGHT], owner >= THOUGHT
        return self._styles[DIM * thought + ink_name(effective(self.colouring, self.app.no_color), run.shade, run.together)]

    def _style(self) -> None:
        variables = self.app.theme_variables
        self._styles = {
            "cursor": Style(color=variables["primary"]),
            "note": Style(color=variables["error"]),
            "folded": Style(color=variables["quiet"]),
            **run_styles(variables),
        }
        self._strips.clear()
