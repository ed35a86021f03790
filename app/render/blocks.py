"""The transcript's entries as rows: how many there are, and what each says. No styles and no screen: those are the view's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...engine.catalog import Share
from ..attach.attachments import folded
from ..chat.compare import StyledPart, badge, table
from ..chat.entries import Answer, ChatEntry, Notice, Prompt
from ..chat.runs import Run, thought_share
from ..chat.transcript import Transcript
from ..text.cells import expand_tabs, fit, sanitise, width
from ..text.lines import StyledLine, length
from ..text.wrap import Flow
from .thoughts import THOUGHT_FOR, Thoughts, thought_line
from .verdict import verdict_lines

if TYPE_CHECKING:
    from rich.segment import Segment

RowKind = Literal["blank", "prompt", "thought", "answer", "markdown", "figures", "variants", "information", "warning", "error"]

TAIL = 8
"""Lines of a thought that are in view while it is written, if it will be folded."""

MARK = -1
"""Owner of a flow's segment that is no run: the mark where the method changed."""


class Piece(NamedTuple):
    """Text of a row; `run` is the index of the run it shows, or MARK."""

    text: str
    run: int


class TextRow(NamedTuple):
    """A row of the transcript."""

    kind: RowKind
    pieces: tuple[Piece, ...] = ()
    first: bool = False
    """First row of its entry (bears the glyph in the margin)."""
    last: bool = False
    """Last row of text of an answer that is being written (bears the cursor)."""
    continued: bool = False
    """Goes on in the next row without a line break in the text."""
    segments: tuple[Segment, ...] = ()
    """A row of Markdown, with its styles."""
    badge: str = ""
    """At the end of a prompt's row: which of its variants this is."""
    styles: tuple[str, ...] = ()
    """The style of each piece of a row of kind `figures` or `thought` (a name of `verdict`) or `variants` (one of
    `compare.StyledPart`)."""
    thought: bool = False
    """The text of an answer's row is thought."""
    sign: str = ""
    """The sign on the row above a thought that says whether it is folded."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class Section:
    """A thought or the answer behind it, wrapped.

    Args:
        run: the first run that it has text of.
    """

    def __init__(self, thought: bool, cells: int, run: int = 0) -> None:
        self.thought = thought
        self.flow = Flow(cells)
        self.run = run
        self.spent = Share()
        """What a thought came to."""
        self.top = 0
        """The first of the part's rows, counted in the block."""
        self.titled = False
        """Whether its first row says what a thought came to."""
        self.shown = range(0)
        """Which of the part's lines are shown: a folded thought shows none, one being written the last few."""
        self.parted = False
        """Whether a blank row follows."""

    @property
    def height(self) -> int:
        return self.titled + len(self.shown) + self.parted

    @property
    def lines(self) -> int:
        """How many lines it has; blank ones at the end of a thought are none."""
        count = len(self.flow.lines)
        while self.thought and count and self.flow.lines[count - 1].text.isspace():
            count -= 1
        return count


class EntryBlock:
    """An entry of the chat, wrapped to rows.

    Args:
        entry: what it shows; an answer may grow.
        badge: of a prompt, which of its variants this is; empty where there is no other.
        answers: of an answer, all that there are to the same message, where there are several.
        thoughts: how the thoughts of an answer are shown that the reader has neither opened nor folded.
    """

    def __init__(
        self,
        entry: ChatEntry,
        cells: int,
        badge: str = "",
        answers: Sequence[Answer] = (),
        thoughts: Thoughts = "folded",
    ) -> None:
        self.entry = entry
        self.cells = cells
        self.badge, self._answers = badge, answers
        self.thoughts = thoughts
        self._table: list[list[StyledPart]] = []
        self.sections = [Section(False, cells)]
        """A prompt or a notice has one; an answer one more for each thought."""
        self.closed = False
        """Its rows will not change any more."""
        self._runs = 0  # runs taken in
        self._method = ""
        self._pending = Share()  # of a thought that has no text yet
        self._verdict: list[StyledLine] = []
        self._ticks = 0  # changes so far
        self._layout = 0  # of those, such that rows show other lines
        self._rendered: list[list[Segment]] | None = None
        self.worn: Mapping[str, str] = {}
        """The colours that they are in."""
        if not isinstance(entry, Answer):
            self.flow.append(sanitise(folded(entry.display_text).strip("\n") if isinstance(entry, Prompt) else entry.text), 0)
            self.closed = True
        self.flow.wrap()
        last = self.flow.lines[-1].text.rstrip() if self.flow.lines else ""
        self._badge_row = bool(badge) and width(expand_tabs(last, 0)) + len(badge) + 2 > cells

    @property
    def rendered(self) -> list[list[Segment]] | None:
        """Rows of Markdown, shown in place of the runs of a finished answer; None shows the runs."""
        return self._rendered

    @rendered.setter
    def rendered(self, rows: list[list[Segment]] | None) -> None:
        self._rendered = rows
        self._layout += 1
        self._ticks += 1
        if isinstance(self.entry, Answer):
            self._lay_out()

    @property
    def flow(self) -> Flow:
        """What grows."""
        return self.sections[-1].flow

    @property
    def height(self) -> int:
        """Rows, with the blank one below."""
        match self.entry:
            case Answer() as answer:
                text = self.text_rows
                table = bool(self._table) + len(self._table)
                return text + (bool(text) + len(self._verdict) + table if answer.done else 0) + 1
            case _:
                return len(self.flow.lines) + self._badge_row + 1

    def update(self) -> int | None:
        """Take in what the entry gained; the first row that changed, None if none did."""
        if self.closed or not isinstance(self.entry, Answer):
            return None
        answer, section = self.entry, self.sections[-1]
        before = len(section.flow.lines)
        start = len(self.sections) - 1
        for index in range(self._runs, len(answer.runs)):
            self._take(answer.runs[index], index)
        grown = len(answer.runs) > self._runs
        self._runs = len(answer.runs)
        held = sanitise(answer.held)
        if held:
            self._section(answer.thinking, max(0, self._runs - 1))
        self.flow.lend((held, self._runs - 1))
        wrapped = [each.flow.wrap() for each in self.sections[start:]]
        grown = grown or wrapped[0] < before or len(wrapped) > 1
        if answer.done:
            self._verdict = verdict_lines(answer, self.cells)
            if len(self._answers) > 1:
                self._table = table(self._answers, answer, self.cells)
            self.closed = True
        if not grown and not self.closed:
            return None
        self._ticks += 1
        self._lay_out()
        if self.sections[start].thought:
            return self.sections[start].top
        return self.sections[start].top + min(wrapped[0], max(0, before - 1))

    def _take(self, run: Run, index: int) -> None:
        marked = run.method != self._method and bool(self._method)
        for thought, late, text in run.pieces():
            if marked and not late:
                marked = False
                gap = "" if text[:1].isspace() else "\u00a0"
                self._section(thought, index).flow.append(f"◆{run.method}{gap}", MARK)
            section = self._section(thought, index, blank=text.isspace())
            # Line breaks between a thought and the answer are no rows.
            if len(self.sections) > 1 or thought:
                text = text if section.flow.owners else text.lstrip("\n")
            if text and section.thought == thought:
                section.flow.append(sanitise(text), max(0, index - late))
        if marked:
            self._section(run.thinking, index).flow.append(f"◆{run.method}\u00a0", MARK)
        self._method = run.method
        if run.thought_tokens:
            spent = thought_share(run)
            found = next((each for each in reversed(self.sections) if each.thought), None)
            if found is None or (run.thinking and not self.sections[-1].thought):
                self._pending = self._pending.plus(spent)
            else:
                found.spent = found.spent.plus(spent)

    def _section(self, thought: bool, run: int, *, blank: bool = False) -> Section:
        """The last section if it is of this part, else a new one, which nothing but blanks does not begin."""
        last = self.sections[-1]
        if last.thought == thought or blank:
            return last
        last.flow.lend()
        if not last.flow.owners and len(self.sections) == 1:
            self.sections.clear()
        self.sections.append(Section(thought, self.cells, run))
        if thought:
            self.sections[-1].spent, self._pending = self._pending, Share()
        return self.sections[-1]

    # What is shown of thoughts

    @property
    def has_thoughts(self) -> bool:
        return any(section.thought for section in self.sections)

    def fold(self, opened: bool | None) -> None:
        """Show the answer's thoughts whole (True), as a line (False), or as the setting says (None)."""
        if isinstance(self.entry, Answer):
            self.entry.opened = opened
            self._lay_out()

    @property
    def opened(self) -> bool:
        """Whether all of its thoughts can be seen."""
        return all(len(section.shown) == section.lines for section in self.sections if section.thought)

    def hides(self, run: int) -> bool:
        """Whether a run cannot be seen because it is thought."""
        assert isinstance(self.entry, Answer)
        made = self.entry.runs[run]
        if not made.spans or any(not thought and not late for thought, late, _ in made.pieces()):
            return False
        at = bisect_right(self.sections, run, key=lambda section: section.run) - 1
        section = self.sections[max(0, at)]
        if not section.thought:
            return False
        return not section.shown or run < section.flow.owners[section.flow.lines[section.shown.start].segment]

    def _writes(self, section: Section) -> bool:
        return not self.closed and section is self.sections[-1]

    def _lay_out(self) -> None:
        answer = self.entry
        assert isinstance(answer, Answer)
        before, top = [(section.titled, section.shown.start) for section in self.sections], 0
        for section in self.sections:
            section.top, writing, count = top, self._writes(section), section.lines
            section.titled, section.shown = section.thought, range(count)
            if section.thought and not (self.thoughts == "open" if answer.opened is None else answer.opened):
                tail = writing and self.thoughts == "folded" and answer.opened is None
                section.shown = range(max(0, count - TAIL), count) if tail else range(0)
                unfinished = section is self.sections[-1]
                section.titled = self.thoughts != "hidden" or answer.opened is not None or unfinished
            elif not section.thought and self.rendered is not None:
                section.shown = range(0)
            section.parted = section.thought and bool(section.shown) and section is not self.sections[-1]
            top += section.height
        if before != [(section.titled, section.shown.start) for section in self.sections]:
            self._layout += 1
            self._ticks += 1

    def _told(self, section: Section) -> tuple[Piece, ...]:
        """What a thought came to."""
        answer, spent = self.entry, section.spent
        assert isinstance(answer, Answer)
        unfinished = answer.thinking and section is self.sections[-1]
        lead = "Thinking {}" if self._writes(section) else "Thought for {}, not finished" if unfinished else THOUGHT_FOR
        return (Piece(thought_line(spent, lead, self.cells, passes=answer.figures.certainty != "unknown"), MARK),)

    # Rows

    def row(self, index: int) -> TextRow:
        """The row at an index below `height`."""
        lines = self.flow.lines
        match self.entry:
            case Answer() as answer:
                shown = self.text_rows
                if index < shown:
                    return self._text_row(answer, index, last=not answer.done and index == shown - 1)
                figure = index - shown - bool(shown)
                if answer.done and 0 <= figure < len(self._verdict):
                    line = self._verdict[figure]
                    if self.rendered is not None and figure == len(self._verdict) - 1:
                        told = (*line, (" · Markdown", "quiet"))
                        line = told if length(told) <= self.cells else line
                    pieces = tuple(Piece(text, MARK) for text, _ in line)
                    return TextRow("figures", pieces, figure == 0, styles=tuple(style for _, style in line))
                compared = figure - len(self._verdict) - 1
                if answer.done and 0 <= compared < len(self._table):
                    parts = self._table[compared]
                    pieces = tuple(Piece(part.text, MARK) for part in parts)
                    return TextRow("variants", pieces, compared == 0, styles=tuple(part.style for part in parts))
                return TextRow("blank")
            case Prompt() | Notice() as entry:
                if index >= len(lines) + self._badge_row:
                    return TextRow("blank")
                if index == len(lines):
                    return TextRow("prompt", badge=self.badge)
                kind: RowKind = "prompt" if isinstance(entry, Prompt) else entry.severity
                badge = self.badge if index == len(lines) - 1 and not self._badge_row else ""
                pieces = tuple(self._pieces(self.sections[0], index))
                return TextRow(kind, pieces, index == 0, continued=_continued(self.flow, index), badge=badge)

    def _text_row(self, answer: Answer, index: int, last: bool) -> TextRow:
        section, line = self._line_at(index)
        if section is None:
            assert self.rendered is not None
            segments = tuple(self.rendered[line])
            text = "".join(segment.text for segment in segments)
            return TextRow("markdown", (Piece(text.rstrip(), MARK),), line == 0, segments=segments)
        if line >= section.shown.stop > 0:
            return TextRow("answer")
        if line < 0:
            unfinished = answer.done and answer.thinking and section is self.sections[-1]
            style = "warning" if unfinished else "quiet"
            return TextRow("thought", self._told(section), index == 0, styles=(style,), sign="▾" if section.shown else "▸")
        pieces = tuple(self._pieces(section, line)) if section.flow.lines else ()
        return TextRow("answer", pieces, index == 0, last, _continued(section.flow, line), thought=section.thought)

    def _line_at(self, index: int) -> tuple[Section | None, int]:
        """The section that a row of text belongs to, and its line there, −1 for the sentence above a thought; of Markdown no
        section, and the row of it."""
        text = sum(section.height for section in self.sections) if self.rendered is not None else index + 1
        if index >= text:
            return None, index - text
        section = self.sections[bisect_right(self.sections, index, key=lambda each: each.top) - 1]
        line = index - section.top - section.titled
        return section, line + section.shown.start if line >= 0 else -1

    @property
    def text_rows(self) -> int:
        """Rows of an answer's text and of its thoughts: they are the first."""
        if not isinstance(self.entry, Answer):
            return 0
        last = self.sections[-1]
        rows = last.top + last.height + len(self.rendered or ())
        return max(rows, 0 if self.entry.done else 1)

    def texts(self) -> Iterator[str]:
        """The text of each row, up to its line break; Markdown's are not among them."""
        for section in self.sections:
            if section.titled:
                yield "\n"
            shown = section.shown if isinstance(self.entry, Answer) else range(section.lines)
            yield from (section.flow.lines[line].text for line in shown)
            if section.parted:
                yield "\n"

    def offset(self, row: int) -> int:
        """How much text there is above a row."""
        out = 0
        for index in range(min(row, self.text_rows if isinstance(self.entry, Answer) else len(self.flow.lines))):
            out += self._length(index)
        return out

    def row_of(self, offset: int) -> int:
        """The row that has this much text above it."""
        rows = self.text_rows if isinstance(self.entry, Answer) else len(self.flow.lines)
        for row in range(rows):
            offset -= self._length(row)
            if offset < 0:
                return row
        return rows

    def _length(self, row: int) -> int:
        section, line = self._line_at(row)
        return len(section.flow.lines[line].text) if section is not None and 0 <= line < len(section.flow.lines) else 1

    def version(self, index: int) -> int:
        """Changes whenever the row at `index` may have changed."""
        shown = self.text_rows
        if index >= shown or (not self.closed and index == shown - 1):
            return self._ticks
        section, line = self._line_at(index)
        settled = section is None or 0 <= line < section.flow.settled
        return -1 - self._layout if settled else self._ticks

    def _pieces(self, section: Section, line: int) -> Iterator[Piece]:
        """A line's text by run: a character that was held back stands with the run that it ends."""
        for run, pieces in groupby(self._segments(section, line), key=lambda piece: piece.run):
            yield Piece("".join(piece.text for piece in pieces), run)

    def _segments(self, section: Section, line: int) -> Iterator[Piece]:
        column = 0
        for text, segment in section.flow.lines[line].pieces():
            shown = expand_tabs(text, column)
            room = self.cells - column
            if width(shown) > room:  # spaces that hang over the edge
                shown = fit(f"{shown}  ", room + 1).removesuffix("…") if room > 0 else ""
            column += width(shown)
            if shown:
                yield Piece(shown, section.flow.owners[segment])


def _continued(flow: Flow, line: int) -> bool:
    return line < len(flow.lines) - 1 and not flow.lines[line].text.endswith("\n")


def block_of(transcript: Transcript, index: int, cells: int, thoughts: Thoughts = "folded") -> EntryBlock:
    """The entry at `index`, wrapped at `cells`, with what tells of its variants."""
    entries, variants = transcript.entries, transcript.variants
    fork = variants.of(entries, index) if variants else None
    if fork is None or len(fork.ends) < 2:
        return EntryBlock(entries[index], cells, thoughts=thoughts)
    if isinstance(entries[index], Answer):
        return EntryBlock(entries[index], cells, answers=variants.answers(entries, index), thoughts=thoughts)
    return EntryBlock(entries[index], cells, badge(fork.at, len(fork.ends)))
