"""Text that grows at its end, wrapped by cell width. Appending re-wraps only the last lines, whatever the length before them.

The text comes in segments (a run of tokens, a mark), each with an owner, so that a line knows which part of it is whose.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from .cells import TAB, cluster_width, graphemes

OPEN_LINES = 4
"""Last lines of a paragraph that are wrapped anew at each append. Two would do (a word moves down when it grows too long);
a combining mark or a variation selector may still change the width of the character that caused the last break."""

_NO_START = frozenset("、。，．：；！？）」』】〉》〕］｝ー…‥・々ぁぃぅぇぉっゃゅょァィゥェォッャュョ%)]}.,:;!?")
"""Must not begin a line (the common core of the Japanese and Chinese rules)."""
_NO_END = frozenset("（「『【〈《〔［｛([{")
"""Must not end a line."""


class WrappedLine(NamedTuple):
    """One wrapped line. `segment` is the segment that it begins in; `cuts` are offsets in `text` where each next one begins."""

    text: str
    segment: int
    cuts: tuple[int, ...]

    def pieces(self) -> Iterator[tuple[str, int]]:
        """The line's parts with their segment numbers; the newline at the end is left out."""
        text = self.text.removesuffix("\n")
        start = 0
        for i, cut in enumerate(self.cuts):
            if cut > start:
                yield text[start:cut], self.segment + i
            start = cut
        if start < len(text):
            yield text[start:], self.segment + len(self.cuts)


class Flow:
    """Wrapped text that can be appended to.

    Args:
        width: cells per line, at least 2.
    """

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.owners = array("q")
        """Owner of each segment, as given to `append`."""
        self.lines: list[WrappedLine] = []
        self.settled = 0
        """Lines before this one will not change any more."""
        self._tail = ""  # the text of the lines from `settled` on
        self._segment = 0  # the segment that the tail begins in
        self._cuts: list[int] = []  # offsets in the tail where each next segment begins
        self._new: list[str] = []  # segments since the last `wrap`; joined there, since adding each to the tail copies it
        self._length = 0  # of the tail and what is new
        self._lent = ""  # text of the last segment, if that is lent
        self._changed = False  # what is lent, since the last `wrap`

    def append(self, text: str, owner: int) -> None:
        """Add a segment at the end; `wrap` brings the lines up to date, once for many appends."""
        self.lend()
        if self.owners:
            self._cuts.append(self._length)
        self.owners.append(owner)
        self._new.append(text)
        self._length += len(text)

    def lend(self, text: str = "", owner: int = 0) -> None:
        """Show a segment behind all others until the next is appended or lent; without a text, none."""
        if self._lent:
            self.owners.pop()
        if text:
            self.owners.append(owner)
        self._changed |= text != self._lent
        self._lent = text

    def wrap(self) -> int:
        """Bring `lines` up to date; return the index of the first line that has changed."""
        first = self.settled
        if not self._new and not self._changed:
            return len(self.lines)
        self._tail += "".join(self._new)
        self._new.clear()
        self._changed = False
        before = self.lines[first:]
        del self.lines[first:]
        text = self._tail + self._lent
        places = [*self._cuts, len(self._tail)] if self._lent and len(self.owners) > 1 else self._cuts
        start = 0
        for end in line_ends(text, self.width):
            lo, hi = bisect_right(places, start), bisect_right(places, end - 1)
            cuts = tuple(cut - start for cut in places[lo:hi])
            self.lines.append(WrappedLine(text[start:end], self._segment + lo, cuts))
            start = end
        for old, new in zip(before, self.lines[first:], strict=False):
            if old != new:
                break
            first += 1
        self._settle()
        return first

    def _settle(self) -> None:
        """Keep only the text of the lines that may still change: the last ones, and those with what is lent."""
        count = keep = len(self.lines)
        if self._lent:
            length = 0
            for count in range(self.settled, keep):
                length += len(self.lines[count].text)
                if length > self._length:
                    break
            keep = count
        while keep > self.settled and count - keep < OPEN_LINES and not self.lines[keep - 1].text.endswith("\n"):
            keep -= 1
        if keep == self.settled:
            return
        offset = sum(len(line.text) for line in self.lines[self.settled : keep])
        passed = bisect_right(self._cuts, offset)
        self._tail = self._tail[offset:]
        self._length = len(self._tail)
        self._cuts = [cut - offset for cut in self._cuts[passed:]]
        self._segment += passed
        self.settled = keep


def line_ends(text: str, width: int) -> list[int]:
    """Return the end of each line of `text`. Spaces hang over the edge rather than begin a line; no character is lost."""
    ends: list[int] = []
    start = 0
    while start < len(text):
        newline = text.find("\n", start)
        stop = len(text) if newline < 0 else newline
        paragraph = text[start:stop]
        if len(paragraph) <= width and paragraph.isascii() and "\t" not in paragraph:
            inner: list[int] = []
        elif paragraph.isascii() and "\t" not in paragraph:
            inner = _ascii_breaks(paragraph, width)
        else:
            inner = _wide_breaks(paragraph, width)
        ends.extend(start + end for end in inner)
        start = stop + (newline >= 0)
        ends.append(start)
    return ends


def _ascii_breaks(text: str, width: int) -> list[int]:
    """Breaks inside a paragraph where every character is one cell."""
    breaks: list[int] = []
    start, stop = 0, len(text)
    while stop - start > width:
        edge = start + width
        if text[edge] == " ":
            end = edge
            while end < stop and text[end] == " ":
                end += 1
            if end == stop:
                break
        else:
            end = text.rfind(" ", start, edge) + 1
            # Indentation alone is no place to break: the word would not gain a cell worth having.
            if end <= start or text[start:end].isspace():
                end = edge
        breaks.append(end)
        start = end
    return breaks


def _wide_breaks(text: str, width: int) -> list[int]:
    """Breaks inside a paragraph with wide characters, clusters or tabs."""
    breaks: list[int] = []
    line, column = 0, 0
    last_break = -1  # best place to break in this line
    carried = 0  # cells after it
    ink = False  # whether the line has more than spaces so far
    before, before_width = "", 0
    for start, end in graphemes(text):
        cluster = text[start:end]
        if cluster in (" ", "\t", "\u3000"):
            column += TAB - column % TAB if cluster == "\t" else cluster_width(cluster)
            if ink:
                last_break, carried = end, 0
            before, before_width = cluster, 0
            continue
        cells = cluster_width(cluster)
        if ink and (cells > 1 or before_width > 1) and cluster not in _NO_START and before not in _NO_END and before_width:
            last_break, carried = start, 0
        while column + cells > width and start > line:
            if last_break > line:
                line, column = last_break, carried
            else:
                line, column, carried = start, 0, 0
            breaks.append(line)
            last_break = -1
        column += cells
        carried += cells
        ink = True
        before, before_width = cluster, cells
    return breaks
