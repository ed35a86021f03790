"""A chat as one picture: the transcript as the terminal shows it, from the first line to the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from ..chat.entries import Answer, ChatEntry, Notice
from ..render.blocks import MARK, EntryBlock, TextRow
from ..render.thoughts import Thoughts
from ..saved.capture import SavedChat
from ..text.cells import fit, one_line, width
from .canvas import Canvas
from .look import Look, headline, told

CELLS = 88
"""Cells of a line of text."""

LEFT = 2
"""Cells left of the text, for the bar beside a prompt."""


def chat_svg(chat: SavedChat, look: Look) -> Iterator[str]:
    system = chat.transcript.system
    entries = [Notice(f"System prompt: {system}")] if system else []
    chatted = (Notice(each.told, each.severity) if isinstance(each, Notice) else each for each in chat.transcript.entries)
    shown = (*entries, *chatted)
    thoughts: Thoughts = "open" if look.thoughts else "folded"
    blocks = [
        wrapped(entry, CELLS, chat.model_of(entry) if isinstance(entry, Answer) else "", thoughts=thoughts) for entry in shown
    ]
    canvas = Canvas(look)
    name = one_line(chat.model_name)
    legend = 1.5 if look.legend() else 0
    yield canvas.open(
        CELLS + LEFT + 1, sum(block.height for block in blocks) + 2 + legend, f"specchat: {name}" if name else "specchat"
    )
    yield draw_head(canvas, CELLS + LEFT + 1, chat.heading, chat.saved)
    top = 2
    for block in blocks:
        for index in range(block.height):
            yield draw_row(canvas, LEFT, CELLS, top + index, block, block.row(index))
        top += block.height
    if legend:
        yield draw_legend(canvas, CELLS + LEFT + 1, top + 0.5)
    yield canvas.close()


def wrapped(entry: ChatEntry, cells: int, model: str = "", *, speeds: bool = True, thoughts: Thoughts = "folded") -> EntryBlock:
    """An entry in rows of so many cells; `model`: the name of an answer's model, where its figures are to tell it. What the
    reader opened or folded on the screen is as `thoughts` has it."""
    if isinstance(entry, Answer) and entry.opened is not None:
        entry = replace(entry, opened=None)
    block = EntryBlock(entry, cells, model=model, speeds=speeds, thoughts=thoughts)
    block.update()
    return block


def draw_head(canvas: Canvas, cells: int, model: Mapping[str, Any], saved: str) -> str:
    """The line at the top: the model, where it ran, and when."""
    name, where, made = headline(model, saved)
    parts = [("specchat", "primary b")]
    for text, css in ((fit(name, 40), "foreground"), (fit(where, 24), "quiet")):
        if text:
            parts += [("  ·  ", "quiet"), (text, css)]
    made = fit(made, 20)
    right = canvas.text(cells - width(made), -0.35, made, "quiet")
    return canvas.words(0, -0.35, parts) + right + canvas.box(0, 0.95, cells, "line", 0.05)


def draw_row(canvas: Canvas, left: float, cells: int, y: float, block: EntryBlock, row: TextRow) -> str:
    """One row of an entry; bars and glyphs are left of its text."""
    match row.kind:
        case "blank":
            return ""
        case "answer":
            assert isinstance(block.entry, Answer)
            answer, column, out = block.entry, left, []
            for run, pieces in groupby(row.pieces, key=attrgetter("run")):
                text = "".join(piece.text for piece in pieces)
                if run == MARK:
                    out.append(canvas.text(column, y, text, "accent i"))
                else:
                    out.append(canvas.run(column, y, text, canvas.look.ink(answer.runs[run]), told(answer, run)))
                column += width(text)
            bar = canvas.box(left - LEFT + 0.4, y, 0.12, "quiet") if row.thought else ""
            return f'{bar}<g opacity=".7">{"".join(out)}</g>' if row.thought else "".join(out)
        case "thought" | "figures":
            sign = canvas.text(left - LEFT, y, row.sign, "quiet") if row.sign else ""
            return sign + canvas.words(
                left, y, [(piece.text, style) for piece, style in zip(row.pieces, row.styles, strict=True)]
            )
        case "prompt":
            behind = canvas.box(left - LEFT, y, cells + LEFT + 1, "surface") + canvas.box(left - LEFT, y, 0.35, "primary")
            return behind + canvas.text(left, y, row.text, "foreground b")
        case kind:
            glyph = {"information": "·", "warning": "!", "error": "×"}[kind] if row.first else ""
            css = "quiet i" if kind == "information" else kind
            return canvas.text(left - LEFT, y, glyph, css) + canvas.text(left, y, row.text, css)


def draw_legend(canvas: Canvas, cells: int, y: float) -> str:
    out = [canvas.box(0, y - 0.3, cells, "line", 0.05)]
    column = 0
    for words, ink in canvas.look.legend():
        out.append(canvas.run(column, y, words, ink, whole=True) if ink else canvas.text(column, y, words, "quiet"))
        column += width(words)
    return "".join(out)
