"""Drawing of the transcript's rows as strips, in the styles of a theme and a colouring."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ...chat.entries import Answer
from ...render.blocks import MARK, EntryBlock, TextRow
from ...text.cells import width
from ...theming.colouring import INKS, Colouring, ink_name, split_blanks

DIM = "dim "
"""Prefix of an ink's name in a thought."""

CHOSEN = Style(reverse=True, bold=True)
"""Style of the inspected run: as readable as the run, with colours and without."""


def run_styles(variables: Mapping[str, str]) -> dict[str, Style]:
    """Make the styles of runs in a theme's colours, by the names of their inks, with DIM before them in thoughts."""
    inks = {name: ink.of(variables) for name, ink in INKS.items()}
    inks |= {DIM + name: ink.dim.of(variables) for name, ink in INKS.items()}
    return {
        name: Style(color=ink.colour, bgcolor=ink.behind or None, underline=ink.underline, bold=ink.bold)
        for name, ink in inks.items()
    }


class RowPainter:
    """Draws rows of the transcript as strips."""

    def __init__(self, variables: Mapping[str, str], colouring: Colouring, base: Style) -> None:
        self._colouring = colouring
        self._base = base
        self._styles = {
            name: Style(color=variables[variable], bold=bold, italic=italic)
            for name, variable, bold, italic in (
                ("prompt", "foreground", True, None),
                ("information", "quiet", None, True),
                ("warning", "warning", None, None),
                ("error", "error", None, None),
                ("bar", "primary", True, None),
                ("cursor", "primary", None, None),
                ("mark", "accent", None, True),
                ("quiet", "quiet", None, None),
                ("beside", "faint", None, None),
                ("badge", "primary", True, None),
                ("chosen", "foreground", None, None),
                ("success", "success", None, None),
                ("good", "success", None, None),
                ("doubt", "warning", None, None),
            )
        }
        self._styles["prompt-row"] = Style(bgcolor=variables["surface"])
        self._styles["selected"] = Style(bgcolor=variables["screen-selection-background"])
        self._styles |= run_styles(variables)
        overlays = ("prompt-row", "selected")
        self._styles |= {name: base + style for name, style in self._styles.items() if name not in overlays}

    def draw(self, block: EntryBlock, row: TextRow, margin: int, chosen: int = -1) -> Strip:
        """Draw a row; `chosen` is the inspected run."""
        space = Segment(" " * margin, self._base)
        match row.kind:
            case "blank":
                return Strip([])
            case "answer":
                assert isinstance(block.entry, Answer)
                segments = self._beside("│", margin) if row.thought else [space]
                for piece, run in row.pieces:
                    gap, core, rest = split_blanks(piece) if run != chosen else ("", piece, "")
                    style = self._run(block.entry, run, chosen, dim=row.thought)
                    parts = ((gap, self._base), (core, style), (rest, self._base))
                    segments += [Segment(part, style) for part, style in parts if part]
                if row.last:
                    segments.append(Segment("▍", self._styles["cursor"]))
                return Strip(segments)
            case "markdown":
                under = self._base
                return Strip([space, *(Segment(text, under + style if style else under) for text, style, _ in row.segments)])
            case "prompt":
                behind = self._styles["prompt-row"]
                bar = Segment("▌ ", self._styles["bar"] + behind)
                fill = " " * (block.cells + 1 - width(row.text) - (len(row.badge) + 1 if row.badge else 0))
                edge = Segment(" " * (margin - 2), self._base)
                text = Segment(row.text + fill, self._styles["prompt"] + behind)
                mark = [Segment(f"{row.badge} ", self._styles["badge"] + behind)] if row.badge else []
                return Strip([edge, bar, text, *mark])
            case "thought" | "figures" | "variants":
                left = self._beside(row.sign, margin) if row.sign else [space]
                pieces = zip(row.pieces, row.styles, strict=True)
                return Strip([*left, *(Segment(piece.text, self._styles[style]) for piece, style in pieces)])
            case kind:
                glyph = {"information": "· ", "warning": "! ", "error": "× "}[kind] if row.first else "  "
                style = self._styles[kind]
                return Strip([Segment(" " * (margin - 2) + glyph, style), Segment(row.text, style)])

    def selected(self, strip: Strip, start: int, end: int, margin: int) -> Strip:
        """Select the characters from `start` to `end` (−1: to the last) of a row, except in the margin."""
        text = strip.text.rstrip()
        end = len(text) if end < 0 else min(end, len(text))
        start = max(start, min(margin, len(text)))
        if end <= start:
            return strip
        left, right = width(text[:start]), width(text[:end])
        before, middle, after = strip.divide([left, right, strip.cell_length])
        return Strip.join([before, middle.apply_style(self._styles["selected"]), after])

    def _beside(self, sign: str, margin: int) -> list[Segment]:
        return [Segment(" " * (margin - 2), self._base), Segment(f"{sign} ", self._styles["beside"])]

    def _run(self, answer: Answer, index: int, chosen: int, *, dim: bool = False) -> Style:
        if index == MARK:
            return self._styles["mark"]
        run = answer.runs[index]
        style = self._styles[DIM * dim + ink_name(self._colouring, run.shade, run.together)]
        return style + CHOSEN if index == chosen else style
