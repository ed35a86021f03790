"""Charts out of block characters, as plain text: what the page of figures is drawn with. No styles, no screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

EIGHTHS_UP = " ▁▂▃▄▅▆▇█"
"""Columns by eighths of a cell's height."""

EIGHTHS = " ▏▎▍▌▋▊▉"

WHOLE, HALF = "━", "╸"
"""Bars by halves of a cell's width: lines, not blocks, so that bars below each other stay apart."""


def resampled(values: Sequence[float], cells: int) -> list[float]:
    """Reduce to at most `cells` values: means of neighbours where there are more."""
    count = len(values)
    if count <= cells:
        return list(values)
    edges = [round(i * count / cells) for i in range(cells + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def columns(values: Sequence[float], top: float, rows: int = 1) -> list[str]:
    """A column for each value, as `rows` lines of text, the upper one first.

    Args:
        values: 0 and above; a small one above 0 shows as at least an eighth of a cell.
        top: the value of a full column.
        rows: cells of a full column.
    """
    heights = [min(8 * rows, max(value > 0, round(value / top * 8 * rows))) if top > 0 else 0 for value in values]
    return ["".join(EIGHTHS_UP[max(0, min(8, height - 8 * row))] for height in heights) for row in reversed(range(rows))]


def bar(share: float, cells: int) -> str:
    """A bar of `share` (0 to 1) of some cells, without blanks behind it; a share above 0 is at least half a cell."""
    halves = max(int(share > 0), round(min(1.0, share) * cells * 2))
    return WHOLE * (halves // 2) + HALF * (halves % 2)


def eighths(share: float, cells: int) -> str:
    """A solid bar of `share` (0 to 1) of some cells, without blanks behind; a share above 0 is at least an eighth of a cell."""
    full, part = divmod(max(int(share > 0), round(min(1.0, share) * cells * 8)), 8)
    return "█" * full + (EIGHTHS[part] if part else "")


def portions(shares: Sequence[float], cells: int) -> list[int]:
    """Some cells shared out in proportion, without a cell lost: the largest remainders get those left over."""
    total = sum(shares)
    if total <= 0 or cells <= 0:
        return [0] * len(shares)
    exact = [share / total * cells for share in shares]
    out = [int(value) for value in exact]
    for i in sorted(range(len(shares)), key=lambda i: out[i] - exact[i])[: cells - sum(out)]:
        out[i] += 1
    return out


def percent(share: float) -> str:
    """A share in whole per cent that is never 0% or 100% by rounding alone; at most four characters."""
    if 0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1:
        return "99%"
    return f"{share:.0%}"
