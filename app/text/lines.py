"""Rows of text in pieces with styles, measured, cut and wrapped by cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .cells import fit, width
from .charts import WHOLE
from .wrap import line_ends

StyledLine = tuple[tuple[str, str], ...]
"""One row: texts, each with its style ("bold $primary")."""
PAD = 1
"""Blank cells on the left; on the right there is one more, which a scrollbar may take."""


def track(drawn: str, cells: int, style: str) -> StyledLine:
    """A bar on its track."""
    return (drawn, style), (WHOLE * (cells - len(drawn)), "$line")


def line(*parts: tuple[str, str] | str) -> StyledLine:
    """A line out of texts and (text, style) pairs."""
    return tuple((part, "") if isinstance(part, str) else part for part in parts)


def length(row: StyledLine) -> int:
    return sum(width(text) for text, _ in row)


def ends(left: StyledLine, right: StyledLine, cells: int) -> StyledLine:
    """A line with something at each end; where both do not fit, the left alone, cut."""
    gap = cells - length(left) - length(right)
    return (*left, (" " * gap, ""), *right) if gap >= 1 else cut(left, cells)


def cut(row: StyledLine, cells: int) -> StyledLine:
    """A line cut to some cells."""
    out: list[tuple[str, str]] = []
    for text, style in row:
        if width(text) > cells:
            out.append((fit(text, cells), style))
            break
        out.append((text, style))
        cells -= width(text)
    return tuple(out)


def flowed(row: StyledLine, cells: int, most: int | None = None) -> list[StyledLine]:
    """A line on as many rows as it takes, broken at blanks; the last of at most `most` rows is cut."""
    text = "".join(part for part, _ in row)
    breaks = line_ends(text, max(8, cells))
    if most is not None and len(breaks) > most:
        breaks[max(0, most - 1) :] = [len(text)] if most > 0 else []
    return [cut(_between(row, a, a + len(text[a:b].rstrip())), cells) for a, b in pairwise([0, *breaks])]


def _between(row: StyledLine, start: int, end: int) -> StyledLine:
    """The characters from `start` to `end` of a line."""
    out, at = [], 0
    for part, style in row:
        if text := part[max(0, start - at) : max(0, end - at)]:
            out.append((text, style))
        at += len(part)
    return tuple(out)


def figures_rows(figures: Sequence[tuple[str, str]], cells: int) -> list[StyledLine]:
    """Values, each with its unit, in as many rows as that takes."""
    rows = [line()]
    for value, unit in figures:
        figure = line((value, "bold $foreground"), (f" {unit}" if unit else "", "$quiet"))
        if rows[-1] and length(rows[-1]) + 3 + length(figure) > cells:
            rows.append(line())
        rows[-1] += (*(line("   ") if rows[-1] else ()), *figure)
    return rows


def paragraph(text: str, cells: int, style: str = "", *, indent: str = "") -> list[StyledLine]:
    """Text on as many lines as it takes, at least one, each behind the indent."""
    return [cut(line(indent, *row), cells) for row in flowed(((text, style),), cells - len(indent)) or [()]]
