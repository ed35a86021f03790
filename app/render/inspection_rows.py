"""The inspection of a run in the rows of a strip."""

from __future__ import annotations

from collections.abc import Sequence

from ..text.lines import StyledLine, cut, ends, flowed, length
from .inspection import LABEL, NOTE, Inspection, costs, figures, shares, tokens, verdict

JOINED = "\N{NO-BREAK SPACE}"
"""Placeholder for the blanks of a quotation while its sentence is broken into rows."""


def strip_rows(height: int) -> int:
    """Return the rows of the strip over a transcript of that height."""
    return max(2, min(4, height // 4))


def inspection_rows(run: Inspection, cells: int, rows: int, keys: str = "") -> list[StyledLine]:
    """Lay out an inspection in at most `rows` rows of `cells` cells: figures, tokens, and the reason for the run's end."""
    full = figures(run)
    short = figures(run, brief=True)
    cost = costs(run)
    total = costs(run, brief=True)
    options = ((full, cost), (full, total), (short, total), (full, ()), (short, ()))
    fitting = (pair for pair in options if length(pair[0]) + length(pair[1]) + 3 * bool(pair[1]) <= cells)
    left, right = next(fitting, options[-1])
    out = [spread(left, right, cells)]
    # The costs that do not fit next to the figures go next to the tokens.
    token_list = tokens(run, cells)
    missing: Sequence[StyledLine] = ()
    if right != cost:
        parts: StyledLine = ((f"{shares(run)} ms", LABEL),) if run.nodes and any(run.seconds) else ()
        missing = (parts,) if right else (cost, total)
    addition = next((option for option in missing if length(token_list) + length(option) + 3 <= cells), ())
    if not addition and missing and not right:  # the milliseconds matter more than the last tokens
        addition = total
        token_list = tokens(run, cells - length(addition) - 3)
    if rows > 2 and (token_list or addition):
        out.append(spread(token_list, addition, cells))
    out += _sentences(run, cells, rows - len(out))
    if keys and len(out) <= rows:
        out += [()] * (rows - len(out))
        if length(out[-1]) + length(((keys, LABEL),)) + 3 <= cells:
            out[-1] = spread(out[-1], ((keys, LABEL),), cells)
    return out[:rows]


def _sentences(run: Inspection, cells: int, room: int) -> list[StyledLine]:
    """Wrap the verdict and the note to the remaining rows; a sentence is brief if its full form does not fit."""
    sentences = list(zip(verdict(run), verdict(run, brief=True), strict=True))
    if run.note:
        note: StyledLine = ((run.note, NOTE),)
        sentences.append((note, note))
    out: list[StyledLine] = []
    for full, brief in sentences:
        remaining = room - len(out)
        if remaining < 1:
            break
        rows = wrapped(full, cells, remaining + 1)
        out += rows if len(rows) <= remaining else wrapped(brief, cells, remaining)
    return out


def spread(left: StyledLine, right: StyledLine, cells: int) -> StyledLine:
    """Join two texts at the ends of a row; the left one alone, cut, if there is no right one."""
    return ends(left, right, cells) if right else cut(left, cells)


def wrapped(parts: StyledLine, cells: int, most: int) -> list[StyledLine]:
    """Wrap a sentence to at most `most` rows at blanks outside of quotations; the last row is cut."""
    joined = tuple((text if style in (LABEL, NOTE) else text.replace(" ", JOINED), style) for text, style in parts)
    rows = flowed(joined, cells)
    if len(rows) > most:
        rows[most - 1 :] = [cut(sum(((*row, (" ", LABEL)) for row in rows[most - 1 :]), ()), cells)] if most > 0 else []
    return [tuple((text.replace(JOINED, " "), style) for text, style in row) for row in rows]
