"""SVG in terminal cells: text stands where the terminal has it, whatever font draws it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..text.cells import cluster_width, graphemes, width
from ..theming.colouring import bared
from ..theming.themes import STEPS
from .look import Look, visible

CELL = 8.4
"""Width of a cell: 0.6 em, that of most monospace fonts."""

FONT = 14
ROW = 21
"""Height of a row."""

_BASE = 15
"""Baseline below the top of a row."""

_FACES = "ui-monospace,'SF Mono','Cascadia Mono','JetBrains Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"

_LATIN_END = "\u0590"


def markup(raw: str) -> str:
    """`raw` as text of an SVG: nothing in it is markup, nothing is what XML 1.0 forbids."""
    return escape(visible(raw), quote=True)


def chunks(text: str) -> Iterator[tuple[int, str, int]]:
    """Parts of a line that can be drawn in one go: first cell, text, cells. A wide character is a part of its own, and so is
    what a monospace font is likely to lack, so that a fallback font moves nothing else."""
    if text.isascii():
        yield 0, text, len(text)
        return
    start, column, kind, part, cells = 0, 0, "", "", 0
    for begin, end in graphemes(text):
        cluster = text[begin:end]
        size = cluster_width(cluster)
        this = "wide" if size > 1 else kind if not size else "latin" if cluster < _LATIN_END else "other"
        if part and (this != kind or (this == "wide" and size)):
            yield start, part, cells
            start, part, cells = column, "", 0
        kind, part, cells, column = this, part + cluster, cells + size, column + size
    if part:
        yield start, part, cells


PAD = 24
"""Blank space around the cells, in pixels."""


class Canvas:
    """Makes the elements of a picture."""

    def __init__(self, look: Look) -> None:
        self.look = look

    def open(self, cells: int, rows: float, title: str) -> str:
        """The beginning of a picture of so many cells and rows, with its page."""
        wide, high = round(cells * CELL + 2 * PAD), round(rows * ROW + 2 * PAD)
        page, line = self.look.colour("background"), self.look.colour("line")
        rules = [f"text{{font:{FONT}px {_FACES};white-space:pre;pointer-events:none}}"]
        rules += [f".{name}{{fill:{self.look.colour(name)}}}" for name in _NAMES]
        for name, ink in self.look.inks.items():
            rules.append(f".{name}{{fill:{ink.colour}{';font-weight:bold' if ink.bold else ''}}}")
            rules += [f".{name}-tint{{fill:{ink.behind}}}"] if ink.behind else []
        rules += [f".bar-{step}{{fill:{self.look.colour(f'bar-{step}')}}}" for step in (0, *STEPS)]
        rules += [".b{font-weight:bold}", ".i{font-style:italic}"]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
            f'xml:space="preserve">\n<title>{markup(title)}</title>\n<style>{"".join(rules)}</style>\n'
            f'<rect x=".5" y=".5" width="{wide - 1}" height="{high - 1}" rx="10" fill="{page}" stroke="{line}"/>\n'
        )

    def close(self) -> str:
        return "</svg>\n"

    def x(self, column: float) -> float:
        return PAD + column * CELL

    def y(self, row: float) -> float:
        return PAD + row * ROW

    def box(self, column: float, row: float, cells: float, css: str, rows: float = 1, radius: float = 0, tip: str = "") -> str:
        """A rectangle, in cells."""
        corners = f' rx="{radius:g}"' if radius else ""
        place = f'x="{self.x(column):.1f}" y="{self.y(row):.1f}" width="{cells * CELL:.1f}" height="{rows * ROW:.1f}"'
        inside = f"><title>{markup(tip)}</title></rect>" if tip else "/>"
        return f'<rect class="{css}" {place}{corners}{inside}\n'

    def text(self, column: float, row: float, text: str, css: str) -> str:
        """Text of one row, each part stretched to its cells."""
        out = []
        for first, part, cells in chunks(text):
            shown = part.strip(" ")
            if not shown:
                continue
            skip = len(part) - len(part.lstrip(" "))
            cells -= len(part) - len(shown)
            left, base = self.x(column + first + skip), self.y(row) + _BASE
            if cells == 2 and not shown.isascii() and cluster_width(shown) == 2 and len(list(graphemes(shown))) == 1:
                left, fitted = left + CELL, ' text-anchor="middle"'
            else:
                fitted = f' textLength="{cells * CELL:.1f}" lengthAdjust="spacingAndGlyphs"' if cells > 1 else ""
            out.append(f'<text class="{css}" x="{left:.1f}" y="{base:.1f}"{fitted}>{markup(shown)}</text>\n')
        return "".join(out)

    def run(self, column: float, row: float, text: str, ink: str, tip: str = "", *, whole: bool = False) -> str:
        """Text of a run in an ink, with what lies behind it; `whole`: behind the blanks around it too."""
        before, text, _ = ("", text, "") if whole else bared(text)
        column, cells = column + len(before), width(text)
        if not text:
            return ""
        out = ""
        if self.look.inks[ink].behind:
            out = self.box(column, row + 0.04, cells, f"{ink}-tint", 0.92, 3, tip)
        if self.look.inks[ink].underline:
            out += self.box(column, row + 0.86, cells, ink, 0.06)
        return out + self.text(column, row, text, ink)

    def words(self, column: float, row: float, parts: list[tuple[str, str]]) -> str:
        """Texts one after the other, each with its classes."""
        out = []
        for text, css in parts:
            out.append(self.text(column, row, text, css))
            column += width(text)
        return "".join(out)


_NAMES = ("foreground", "quiet", "line", "primary", "accent", "surface", "panel", "success", "warning", "error", "background")
