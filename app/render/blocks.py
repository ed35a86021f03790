"""The transcript's entries as rows of text, without styles: those are the view's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...engine.catalog import Share
from ..attach.attachments import folded
from ..chat.compare import badge, comparison
from ..chat.entries import Answer, ChatEntry, Notice, Prompt
from ..chat.runs import Run, thought_share
from ..chat.transcript import Transcript
from ..text.cells import expand_tabs, fit, sanitise, width
from ..text.lines import length
from ..text.wrap import Flow
from .thoughts import THOUGHT_FOR, Thoughts, thought_line
from .verdict import verdict_lines

if TYPE_CHECKING:
    from rich.segment import Segment

RowKind = Literal["blank", "prompt", "thought", "answer", "markdown", "figures", "variants", "information", "warning", "error"]

TAIL = 8
"""Lines of a thought that are shown while it is written, if it will be folded."""

MARK = -1
"""Owner of a flow's segment that is no run: the mark of a method change."""


class Piece(NamedTuple):
    """Text of a row; `run` is the index of the run it shows, or MARK."""

    text: str
    run: int


class TextRow(NamedTuple):
    """A row of the transcript."""

    kind: RowKind
    pieces: tuple[Piece, ...] = ()
    first: bool = False
    """Whether it is the first row of its entry, with the glyph in the margin."""
    last: bool = False
    """Whether it is the last row of an answer that is being written, with the cursor."""
    continued: bool = False
    """Whether the next row continues its line."""
    segments: tuple[Segment, ...] = ()
    """A row of Markdown, with its styles."""
    badge: str = ""
    """Number of a prompt's variant, at the end of the row."""
    styles: tuple[str, ...] = ()
    """Style of each piece in a row of kind `figures` or `thought` (a name of `verdict`) or `variants` (one of
    `compare.comparison`)."""
    thought: bool = False
    """Whether the row of an answer is thought."""
    sign: str = ""
    """Sign of a thought's title: ▸ folded, ▾ open."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class Section:
    """A thought or the answer after it, wrapped.

    Args:
        run: the first run with text in it.
    """

    def __init__(self, thought: bool, cells: int, run: int = 0) -> None:
        self.thought = thought
        self.flow = Flow(cells)
        self.run = run
        self.spent = Share()
        """Share of a thought."""
        self.top = 0
        """Index of its first row in the block."""
        self.titled = False
        """Whether its first row is a thought's title."""
        self.visible = range(0)
        """Lines on the screen: none of a folded thought, the last few of one being written."""
        self.blank_after = False
        """Whether a blank row follows."""

    @property
    def height(self) -> int:
        return self.titled + len(self.visible) + self.blank_after

    @property
    def lines(self) -> int:
        """Number of its lines, without blank ones at the end of a thought."""
        count = len(self.flow.lines)
        while self.thought and count and self.flow.lines[count - 1].text.isspace():
            count -= 1
        return count


class EntryBlock:
    """An entry of the chat, wrapped to rows.

    Args:
        entry: the entry; an answer may grow.
        badge: number of a prompt's variant; empty if it is the only one.
        answers: all answers to the same message, if there are several.
        thoughts: display of thoughts that the reader has neither opened nor folded.
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
        self.badge = badge
        self._answers = answers
        self.thoughts = thoughts
        # The last row of a prompt has room for its badge.
        self.sections = [Section(False, cells - len(badge) - 2 if badge else cells)]
        """Sections: one of a prompt or a notice; an answer has one more for each thought."""
        self.closed = False
        """Whether its rows are final."""
        self._runs = 0  # number of runs in the sections
        self._method = ""
        self._pending = Share()  # of a thought that has no text yet
        self._below: list[TextRow] = []  # figures and the comparison of variants
        self._ticks = 0  # number of changes
        self._layout = 0  # number of changes after which rows show other lines
        self._rendered: list[list[Segment]] | None = None
        self.colours: Mapping[str, str] = {}
        """Theme colours of the rendered Markdown."""
        if not isinstance(entry, Answer):
            self.flow.append(sanitise(folded(entry.display_text).strip("\n") if isinstance(entry, Prompt) else entry.text), 0)
            self.closed = True
        self.flow.wrap()

    @property
    def rendered(self) -> list[list[Segment]] | None:
        """Rows of Markdown in place of the runs of a finished answer; None shows the runs."""
        return self._rendered

    @rendered.setter
    def rendered(self, rows: list[list[Segment]] | None) -> None:
        self._rendered = rows
        self._layout += 1
        self._ticks += 1
        if isinstance(self.entry, Answer):
            self._lay_out()
            self._below = self._figures(self.entry) if self.closed else []

    @property
    def flow(self) -> Flow:
        """The flow of the last section, which may grow."""
        return self.sections[-1].flow

    @property
    def height(self) -> int:
        """Number of rows, with the blank one below."""
        if not isinstance(self.entry, Answer):
            return len(self.flow.lines) + 1
        text = self.text_rows
        return text + (text > 0 and bool(self._below)) + len(self._below) + 1

    def update(self) -> int | None:
        """Append the answer's new runs; returns the first row that changed, None if none did."""
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
        self.flow.lend(held, self._runs - 1)
        wrapped = [changed.flow.wrap() for changed in self.sections[start:]]
        grown = grown or wrapped[0] < before or len(wrapped) > 1
        if answer.done:
            self._below = self._figures(answer)
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
            # Line breaks between a thought and the answer get no rows.
            if len(self.sections) > 1 or thought:
                text = text if section.flow.owners else text.lstrip("\n")
            if text and section.thought == thought:
                section.flow.append(sanitise(text), max(0, index - late))
        if marked:
            self._section(run.thinking, index).flow.append(f"◆{run.method}\u00a0", MARK)
        self._method = run.method
        if run.thought_tokens:
            spent = thought_share(run)
            thoughts = [section for section in self.sections if section.thought]
            if not thoughts or (run.thinking and not self.sections[-1].thought):
                self._pending = self._pending.plus(spent)
            else:
                thoughts[-1].spent = thoughts[-1].spent.plus(spent)

    def _section(self, thought: bool, run: int, *, blank: bool = False) -> Section:
        """Return the last section if it is of this kind, else a new one, which blanks alone do not begin."""
        last = self.sections[-1]
        if last.thought == thought or blank:
            return last
        last.flow.lend()
        if not last.flow.owners and len(self.sections) == 1:
            self.sections.clear()
        self.sections.append(Section(thought, self.cells, run))
        if thought:
            self.sections[-1].spent = self._pending
            self._pending = Share()
        return self.sections[-1]

    # Thoughts

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
        """Whether all of its thoughts are visible."""
        return all(len(section.visible) == section.lines for section in self.sections if section.thought)

    def hides(self, index: int) -> bool:
        """Whether run number `index` is invisible because it is thought."""
        assert isinstance(self.entry, Answer)
        run = self.entry.runs[index]
        if not run.spans or any(not thought and not late for thought, late, _ in run.pieces()):
            return False
        at = bisect_right(self.sections, index, key=lambda section: section.run) - 1
        section = self.sections[max(0, at)]
        if not section.thought:
            return False
        return not section.visible or index < section.flow.owners[section.flow.lines[section.visible.start].segment]

    def _writes(self, section: Section) -> bool:
        return not self.closed and section is self.sections[-1]

    def _lay_out(self) -> None:
        answer = self.entry
        assert isinstance(answer, Answer)
        before = [(section.titled, section.visible.start) for section in self.sections]
        top = 0
        for section in self.sections:
            count = section.lines
            last = section is self.sections[-1]
            section.top = top
            section.titled = section.thought
            section.visible = range(count)
            if section.thought and not (self.thoughts == "open" if answer.opened is None else answer.opened):
                tail = self._writes(section) and self.thoughts == "folded" and answer.opened is None
                section.visible = range(max(0, count - TAIL), count) if tail else range(0)
                section.titled = self.thoughts != "hidden" or answer.opened is not None or last
            elif not section.thought and self.rendered is not None:
                section.visible = range(0)
            section.blank_after = section.thought and bool(section.visible) and not last
            top += section.height
        if before != [(section.titled, section.visible.start) for section in self.sections]:
            self._layout += 1
            self._ticks += 1

    def _title(self, section: Section) -> tuple[Piece, ...]:
        answer = self.entry
        assert isinstance(answer, Answer)
        lead = THOUGHT_FOR
        if self._writes(section):
            lead = "Thinking {}"
        elif answer.thinking and section is self.sections[-1]:
            lead = "Thought for {}, not finished"
        line = thought_line(section.spent, lead, passes=answer.figures.certainty != "unknown")
        while width(line) > self.cells and " · " in line:
            line = line.rpartition(" · ")[0]
        return (Piece(fit(line, self.cells), MARK),)

    # Rows

    def row(self, index: int) -> TextRow:
        """Return the row at an index below `height`."""
        if isinstance(self.entry, Answer):
            text = self.text_rows
            if index < text:
                return self._text_row(self.entry, index, last=not self.entry.done and index == text - 1)
            below = index - text - (text > 0)
            return self._below[below] if 0 <= below < len(self._below) else TextRow("blank")
        count = len(self.flow.lines)
        if index >= count:
            return TextRow("blank")
        kind: RowKind = self.entry.severity if isinstance(self.entry, Notice) else "prompt"
        badge = self.badge if index == count - 1 else ""
        pieces = tuple(self._pieces(self.sections[0], index))
        return TextRow(kind, pieces, index == 0, continued=_continued(self.flow, index), badge=badge)

    def _figures(self, answer: Answer) -> list[TextRow]:
        """Lay out the rows below a finished answer: its result, and the comparison with its variants."""
        verdict = verdict_lines(answer, self.cells)
        if verdict and self.rendered is not None and length(marked := (*verdict[-1], (" · Markdown", "quiet"))) <= self.cells:
            verdict[-1] = marked
        rows = [_styled("figures", line, first=i == 0) for i, line in enumerate(verdict)]
        if len(self._answers) > 1:
            compared = comparison(self._answers, answer, self.cells)
            rows += [TextRow("blank"), _styled("variants", compared, first=True)]
        return rows

    def _text_row(self, answer: Answer, index: int, last: bool) -> TextRow:
        section, line = self._line_at(index)
        if section is None:
            assert self.rendered is not None
            segments = tuple(self.rendered[line])
            text = "".join(segment.text for segment in segments)
            return TextRow("markdown", (Piece(text.rstrip(), MARK),), line == 0, segments=segments)
        if line >= section.visible.stop > 0:
            return TextRow("answer")
        if line < 0:
            unfinished = answer.done and answer.thinking and section is self.sections[-1]
            style = "warning" if unfinished else "quiet"
            sign = "▾" if section.visible else "▸"
            return TextRow("thought", self._title(section), index == 0, styles=(style,), sign=sign)
        pieces = tuple(self._pieces(section, line)) if section.flow.lines else ()
        return TextRow("answer", pieces, index == 0, last, _continued(section.flow, line), thought=section.thought)

    def _line_at(self, index: int) -> tuple[Section | None, int]:
        """Return the section of a row and its line there, −1 for a thought's title; for Markdown, no section and its row."""
        text = sum(section.height for section in self.sections) if self.rendered is not None else index + 1
        if index >= text:
            return None, index - text
        section = self.sections[bisect_right(self.sections, index, key=lambda candidate: candidate.top) - 1]
        line = index - section.top - section.titled
        return section, line + section.visible.start if line >= 0 else -1

    @property
    def text_rows(self) -> int:
        """Number of rows of an answer's text and its thoughts, the first ones of the block."""
        if not isinstance(self.entry, Answer):
            return 0
        last = self.sections[-1]
        rows = last.top + last.height + len(self.rendered or ())
        return max(rows, 0 if self.entry.done else 1)

    def texts(self) -> Iterator[str]:
        """Yield the text of each row up to its line break, without Markdown rows."""
        for section in self.sections:
            if section.titled:
                yield "\n"
            visible = section.visible if isinstance(self.entry, Answer) else range(section.lines)
            yield from (section.flow.lines[line].text for line in visible)
            if section.blank_after:
                yield "\n"

    def offset(self, row: int) -> int:
        """Return the number of characters above a row."""
        return sum(map(len, islice(self.texts(), row)))

    def row_at(self, offset: int) -> int:
        """Return the row with this many characters above it."""
        ends = list(accumulate(map(len, self.texts())))
        return bisect_right(ends, offset)

    def version(self, index: int) -> int:
        """Return a number that differs once the row at `index` may have changed."""
        text_rows = self.text_rows
        if index >= text_rows or (not self.closed and index == text_rows - 1):
            return self._ticks
        section, line = self._line_at(index)
        settled = section is None or 0 <= line < section.flow.settled
        return -1 - self._layout if settled else self._ticks

    def _pieces(self, section: Section, line: int) -> Iterator[Piece]:
        """Yield a line's text by run; a character that was held back belongs to the run that it ends."""
        for run, pieces in groupby(self._segments(section, line), key=lambda piece: piece.run):
            yield Piece("".join(piece.text for piece in pieces), run)

    def _segments(self, section: Section, line: int) -> Iterator[Piece]:
        column = 0
        for text, segment in section.flow.lines[line].pieces():
            text = expand_tabs(text, column)
            room = self.cells - column
            if width(text) > room:  # spaces that hang over the edge
                text = fit(f"{text}  ", room + 1).removesuffix("…") if room > 0 else ""
            column += width(text)
            if text:
                yield Piece(text, section.flow.owners[segment])


def _styled(kind: RowKind, line: Sequence[tuple[str, str]], *, first: bool) -> TextRow:
    """Make a row that shows no run, of texts with their styles."""
    return TextRow(kind, tuple(Piece(text, MARK) for text, _ in line), first, styles=tuple(style for _, style in line))


def _continued(flow: Flow, line: int) -> bool:
    return line < len(flow.lines) - 1 and not flow.lines[line].text.endswith("\n")


def make_block(transcript: Transcript, index: int, cells: int, thoughts: Thoughts = "folded") -> EntryBlock:
    """Wrap the entry at `index` to `cells`, with its badge or the comparison of its variants."""
    entry = transcript.entries[index]
    fork = transcript.fork_of(index)
    if fork is None or len(fork.ends) < 2:
        return EntryBlock(entry, cells, thoughts=thoughts)
    if isinstance(entry, Answer):
        return EntryBlock(entry, cells, answers=transcript.variant_answers(index), thoughts=thoughts)
    return EntryBlock(entry, cells, badge(fork.at, len(fork.ends)))
