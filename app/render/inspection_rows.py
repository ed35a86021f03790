"""What is said about a run, laid out in the rows of a strip."""

from __future__ import annotations

from collections.abc import Sequence

from ..text.lines import StyledLine, cut, ends, flowed, length
from .inspection import LABEL, NOTE, Inspection, costs, figures, shares, tokens, verdict

JOINED = "\N{NO-BREAK SPACE}"
"""Stands for the blanks of a quotation while its sentence is broken into rows."""


def strip_rows(height: int) -> int:
    """Rows of the strip over a transcript of that many."""
    return max(2, min(4, height // 4))


def inspection_rows(run: Inspection, cells: int, rows: int, keys: str = "") -> list[StyledLine]:
    """Everything in at most `rows` rows of `cells` cells: figures, tokens, and why the run ended where it did."""
    full, short = figures(run), figures(run, brief=True)
    cost, total = costs(run), costs(run, brief=True)
    head, right = full, cost
    for left, beside in ((full, cost), (full, total), (short, total), (full, ()), (short, ())):
        head, right = left, beside
        if length(left) + length(beside) + 3 * bool(beside) <= cells:
            break
    out = [spread(head, right, cells)]
    # Whatever did not fit beside the figures goes beside the tokens.
    listed = tokens(run, cells)
    missing: Sequence[StyledLine] = ()
    if right != cost:
        each: StyledLine = ((f"{shares(run)} ms", LABEL),) if run.nodes and any(run.seconds) else ()
        missing = (each,) if right else (cost, total)
    chosen = next((parts for parts in missing if length(listed) + length(parts) + 3 <= cells), ())
    if not chosen and missing and not right:  # the milliseconds are worth more than the last tokens
        chosen = total
        listed = tokens(run, cells - length(chosen) - 3)
    if rows > 2 and (listed or chosen):
        out.append(spread(listed, chosen, cells))
    out += _sentences(run, cells, rows - len(out))
    if keys and len(out) <= rows:
        out += [()] * (rows - len(out))
        if length(out[-1]) + length(((keys, LABEL),)) + 3 <= cells:
            out[-1] = spread(out[-1], ((keys, LABEL),), cells)
    return out[:rows]


def _sentences(run: Inspection, cells: int, room: int) -> list[StyledLine]:
    """The verdict and the note in the rows that are left."""
    said = [list(ways) for ways in zip(verdict(run), verdict(run, brief=True), strict=True)]
    if run.note:
        said.append([((run.note, NOTE),)])
    out: list[StyledLine] = []
    for ways in said:
        left = room - len(out)
        if left < 1:
            break
        tries = [wrapped(parts, cells, left + 1) for parts in ways]
        out += next((rows for rows in tries if len(rows) <= left), wrapped(ways[-1], cells, left))
    return out


def spread(left: StyledLine, right: StyledLine, cells: int) -> StyledLine:
    """A row with something at each end; the left alone, cut, where there is no right, or no room for both."""
    return ends(left, right, cells) if right else cut(left, cells)


def wrapped(parts: StyledLine, cells: int, most: int) -> list[StyledLine]:
    """A sentence on at most `most` rows, broken at blanks but inside of quotations; what does not fit is cut."""
    kept = tuple((text if style in (LABEL, NOTE) else text.replace(" ", JOINED), style) for text, style in parts)
    rows = flowed(kept, cells)
    if len(rows) > most:
        rows[most - 1 :] = [cut(sum(((*row, (" ", LABEL)) for row in rows[most - 1 :]), ()), cells)] if most > 0 else []
    return [tuple((text.replace(JOINED, " "), style) for text, style in row) for row in rows]
