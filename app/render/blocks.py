"""The transcript's entries as rows: how many there are, and what each says. No styles and no screen: those are the view's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..attach.attachments import folded
from ..chat.compare import StyledPart, badge, table
from ..chat.entries import Answer, ChatEntry, Notice, Prompt
from ..chat.transcript import Transcript
from ..text.cells import expand_tabs, fit, sanitise, width
from ..text.lines import StyledLine, length
from ..text.wrap import Flow
from .verdict import verdict_lines

if TYPE_CHECKING:
    from rich.segment import Segment

RowKind = Literal["blank", "prompt", "answer", "markdown", "figures", "variants", "information", "warning", "error"]

MARK = -1
"""Owner of a flow's segment that is no run: the mark where the method changed."""

TENTATIVE = -2
"""Owner of text that may yet change."""


class Piece(NamedTuple):
    """Text of a row; `run` is the index of the run it shows, MARK or TENTATIVE."""

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
    """The style of each piece of a row of kind `figures` (a name of `verdict`) or `variants` (one of `compare.StyledPart`)."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class EntryBlock:
    """An entry of the chat, wrapped to rows.

    Args:
        entry: what it shows; an answer may grow.
        cells: width of a line.
        badge: of a prompt, which of its variants this is; empty where there is no other.
        answers: of an answer, all that there are to the same message, where there are several.
        model: of an answer, the name of its model, where the sentence below it is to tell it.
        speeds: whether that sentence tells how fast the answer came.
    """

    def __init__(
        self,
        entry: ChatEntry,
        cells: int,
        badge: str = "",
        answers: Sequence[Answer] = (),
        *,
        model: str = "",
        speeds: bool = True,
    ) -> None:
        self.entry = entry
        self.cells = cells
        self.badge, self._answers, self._model, self._speeds = badge, answers, model, speeds
        self._table: list[list[StyledPart]] = []
        self.flow = Flow(cells)
        self.closed = False
        """Its rows will not change any more."""
        self._runs = 0  # runs taken in
        self._method = ""
        self._verdict: list[StyledLine] = []
        self.rendered: list[list[Segment]] | None = None
        """Rows of Markdown, shown in place of the runs of a finished answer; None shows the runs."""
        self.worn = ""
        """The theme that they are in."""
        if not isinstance(entry, Answer):
            self.flow.append(sanitise(folded(entry.text).strip("\n") if isinstance(entry, Prompt) else entry.text), 0)
            self.closed = True
        self.flow.wrap()
        last = self.flow.lines[-1].text.rstrip() if self.flow.lines else ""
        self._badge_row = bool(badge) and width(expand_tabs(last, 0)) + len(badge) + 2 > cells

    @property
    def height(self) -> int:
        """Rows, with the blank one below."""
        match self.entry:
            case Answer() as answer:
                text = self._shown(answer)
                table = bool(self._table) + len(self._table)
                return text + (bool(text) + len(self._verdict) + table if answer.done else 0) + 1
            case _:
                return len(self.flow.lines) + self._badge_row + 1

    def update(self) -> int | None:
        """Take in what the entry gained; the first row that changed, None if none did."""
        if self.closed or not isinstance(self.entry, Answer):
            return None
        answer = self.entry
        before = len(self.flow.lines)
        for index in range(self._runs, len(answer.runs)):
            run = answer.runs[index]
            if run.carried:
                self.flow.append(sanitise(run.text[: run.carried]), index - 1)
            own = run.text[run.carried :]
            if run.method != self._method:
                if self._method:
                    gap = "" if own[:1].isspace() else "\u00a0"
                    self.flow.append(f"◆{run.method}{gap}", MARK)
                self._method = run.method
            if own:
                self.flow.append(sanitise(own), index)
        grown = len(answer.runs) > self._runs
        self._runs = len(answer.runs)
        self.flow.lend((sanitise(answer.held), self._runs - 1), (sanitise(answer.tentative), TENTATIVE))
        first = self.flow.wrap()
        grown = grown or first < before
        if answer.done:
            self._verdict = verdict_lines(answer, self.cells, self._model, speeds=self._speeds)
            if len(self._answers) > 1:
                self._table = table(self._answers, answer, self.cells)
            self.closed = True
            return min(first, max(0, before - 1))
        return min(first, max(0, before - 1)) if grown else None

    def row(self, index: int) -> TextRow:
        """The row at an index below `height`."""
        lines = self.flow.lines
        match self.entry:
            case Answer() as answer:
                shown = self._shown(answer)
                if self.rendered is not None and index < shown:
                    segments = tuple(self.rendered[index])
                    text = "".join(segment.text for segment in segments)
                    return TextRow("markdown", (Piece(text.rstrip(), MARK),), index == 0, segments=segments)
                if index < shown:
                    writing = not answer.done and index == shown - 1
                    pieces = tuple(self._pieces(index)) if lines else ()
                    return TextRow("answer", pieces, index == 0, writing, self._continued(index))
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
                return TextRow(kind, tuple(self._pieces(index)), index == 0, continued=self._continued(index), badge=badge)

    def _shown(self, answer: Answer) -> int:
        """Rows of text."""
        if self.rendered is not None:
            return len(self.rendered)
        return max(len(self.flow.lines), 0 if answer.done else 1)

    def version(self, index: int) -> int:
        """Changes whenever the row at `index` may have changed."""
        if self.rendered is not None:
            return -2
        cursor = not self.closed and index == len(self.flow.lines) - 1
        return -1 if index < self.flow.settled and not cursor else self.flow.revision * 2 + self.closed

    def _continued(self, index: int) -> bool:
        lines = self.flow.lines
        return index < len(lines) - 1 and not lines[index].text.endswith("\n")

    def _pieces(self, index: int) -> Iterator[Piece]:
        """A row's text by run: a character that was held back stands with the run that it ends."""
        for run, pieces in groupby(self._segments(index), key=lambda piece: piece.run):
            yield Piece("".join(piece.text for piece in pieces), run)

    def _segments(self, index: int) -> Iterator[Piece]:
        column = 0
        for text, segment in self.flow.lines[index].pieces():
            shown = expand_tabs(text, column)
            room = self.cells - column
            if width(shown) > room:  # spaces that hang over the edge
                shown = fit(f"{shown}  ", room + 1).removesuffix("…") if room > 0 else ""
            column += width(shown)
            if shown:
                yield Piece(shown, self.flow.owners[segment])


def block_of(transcript: Transcript, index: int, cells: int) -> EntryBlock:
    """The entry at `index`, wrapped at `cells`, with what tells of its variants."""
    entries, variants = transcript.entries, transcript.variants
    fork = variants.of(entries, index) if variants else None
    if fork is None or len(fork.ends) < 2:
        return EntryBlock(entries[index], cells)
    if isinstance(entries[index], Answer):
        return EntryBlock(entries[index], cells, answers=variants.answers(entries, index))
    return EntryBlock(entries[index], cells, badge(fork.at, len(fork.ends)))


def step_at(block: EntryBlock, row: int, cell: int) -> int:
    """Where a click on a row of a block leads: −1 on the left half of the sign, 1 on the right one, 0 beside it."""
    found = block.row(row)
    if found.kind == "variants" and found.first:
        start, sign = 0, found.pieces[0].text
    else:
        start, sign = block.cells - len(found.badge), found.badge
    if not sign or not start <= cell < start + len(sign):
        return 0
    return -1 if cell < start + len(sign) // 2 else 1
