"""Plots as SVG, drawn here so that they need no package: speedups, run lengths, acceptance by position, scaling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ....errors import UserError

# Okabe and Ito's colours, which people with colour blindness tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a7500", "#555555")

WIDTH = 860
LEFT = 190
"""Pixels for the labels of rows."""
ROW = 16
FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"


class Drawing:
    """Elements of one SVG image."""

    def __init__(self, title: str, height: float) -> None:
        self.height = height
        self._parts: list[str] = []
        self.text(16, 26, title, size=15, weight="bold")

    def line(self, x0: float, y0: float, x1: float, y1: float, colour: str = "#bbbbbb", width: float = 1) -> None:
        self._parts.append(
            f"<line x1='{x0:.1f}' y1='{y0:.1f}' x2='{x1:.1f}' y2='{y1:.1f}' stroke='{colour}' stroke-width='{width}'/>"
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{height:.1f}' fill='{colour}'/>")

    def dot(self, x: float, y: float, colour: str) -> None:
        self._parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='{colour}'/>")

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'/>")

    def text(self, x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal") -> None:
        self._parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' font-weight='{weight}' text-anchor='{anchor}' "
            f"fill='#222222'>{escape(text)}</text>"
        )

    def svg(self) -> str:
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{self.height:.0f}' "
            f"viewBox='0 0 {WIDTH} {self.height:.0f}'>"
        )
        ground = f"<rect width='{WIDTH}' height='{self.height:.0f}' fill='#ffffff'/>"
        return "\n".join([head, ground, *self._parts, "</svg>"]) + "\n"


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers from `low` to `high`."""
    raw = (high - low) / max(count, 1) or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def speedups(results: Sequence[Mapping[str, Any]], title: str) -> str:
    """A bar for each method, grouped by category, with its interval; the line at 1 is plain decoding."""
    rows = [row for row in results if row["speedup"] is not None]
    categories = list(dict.fromkeys(row["category"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    high = max([1.0, *(min(row["speedup_high"], 2 * row["speedup"]) for row in rows)]) * 1.05
    height = 60 + sum(ROW * (1 + sum(row["category"] == c for row in rows)) + 12 for c in categories) + 30
    drawing = Drawing(title, height)
    span = WIDTH - LEFT - 70
    for tick in ticks(0, high):
        x = LEFT + tick / high * span
        drawing.line(x, 44, x, height - 32, "#888888" if tick == 1 else "#e4e4e4")
        drawing.text(x, height - 14, f"{tick:g}×", size=11, anchor="middle")
    one = LEFT + span / high
    drawing.line(one, 44, one, height - 32, "#888888", 1.5)
    y = 52.0
    for category in categories:
        drawing.text(16, y + 12, category, weight="bold")
        y += ROW
        for row in (row for row in rows if row["category"] == category):
            colour = COLOURS[methods.index(row["method"]) % len(COLOURS)]
            end = LEFT + row["speedup"] / high * span
            drawing.text(LEFT - 8, y + 11, row["method"], size=11, anchor="end")
            drawing.bar(LEFT, y + 2, end - LEFT, ROW - 5, colour)
            low, top = (LEFT + min(row[key], high) / high * span for key in ("speedup_low", "speedup_high"))
            drawing.line(low, y + ROW / 2, top, y + ROW / 2, "#222222", 1.5)
            drawing.text(max(end, top) + 6, y + 11, f"{row['speedup']:.2f}", size=11)
            y += ROW
        y += 12
    return drawing.svg()


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]], title: str, across: str, up: str, *, log: bool = False, top: float = 0
) -> str:
    """A line with dots for each method, its points by ascending x; `across` and `up` name the axes, and y ends at `top` or (0)
    with the data."""
    height = 400
    drawing = Drawing(title, height)
    left, right, high, low = 70, WIDTH - 200, 50, height - 60

    def place(x: float) -> float:
        return math.log2(x) if log else x

    xs = [place(x) for points in lines.values() for x, _ in points]
    most = top or max(y for points in lines.values() for _, y in points) * 1.05 or 1.0
    first = min(xs)
    last = max(*xs, first + 1e-6)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (place(x) - first) / (last - first) * (right - left), low - y / most * (low - high)

    for tick in ticks(0, most):
        _, y = at(2**first if log else first, tick)
        drawing.line(left, y, right, y, "#e4e4e4")
        drawing.text(left - 8, y + 4, f"{tick:g}", size=11, anchor="end")
    if log:
        marks = sorted({x for points in lines.values() for x, _ in points})
        marks = marks if len(marks) <= 8 else [2.0**i for i in range(math.ceil(first), math.floor(last) + 1)]
    else:
        marks = ticks(first, last)
    for mark in marks:
        x, _ = at(mark, 0)
        drawing.line(x, low, x, low + 4, "#888888")
        drawing.text(x, low + 18, f"{mark:.3g}", size=11, anchor="middle")
    drawing.line(left, low, right, low, "#888888")
    drawing.text((left + right) / 2, height - 16, across, anchor="middle")
    drawing.text(left - 54, high - 8, up, size=11)
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        drawing.path([at(x, y) for x, y in points], colour)
        for x, y in points:
            drawing.dot(*at(x, y), colour)
        drawing.bar(right + 16, high + i * 18 - 9, 12, 10, colour)
        drawing.text(right + 34, high + i * 18, name, size=11)
    return drawing.svg()


def write(path: Path, svg: str) -> None:
    """Write an image.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {path} ({error.strerror}). Choose another file.") from None
