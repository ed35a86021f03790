"""A chat as one picture: the transcript as the terminal shows it, from the first line to the last."""

from __future__ import annotations

from collections.abc import Iterator

from ..cells import fit, one_line, width
from ..transcript import Answer
from ..widgets.blocks import MARK, Block, Row
from .canvas import Canvas
from .look import Look, told
from .record import SavedChat

CELLS = 88
"""Cells of a line of text."""

_REASONS = {"eos": "quiet", "died": "error", "error": "error"}
_LEFT = 2
"""Cells left of the text, for the bar beside a prompt."""


def chat_svg(chat: SavedChat, look: Look) -> Iterator[str]:
    """The file's text."""
    blocks = []
    for entry in chat.transcript.entries:
        block = Block(entry, CELLS)
        block.update()
        blocks.append(block)
    rows = sum(block.height for block in blocks) + 2
    legend = look.legend()
    bottom = 1.5 if legend else 0
    canvas = Canvas(look)
    name = fit(one_line(chat.model_name), 40)
    yield canvas.open(CELLS + _LEFT + 1, rows + bottom, f"specchat: {name}" if name else "specchat")
    yield _head(canvas, chat, name)
    top = 2
    for block in blocks:
        for index in range(block.height):
            yield _row(canvas, top + index, block, block.row(index))
        top += block.height
    if legend:
        yield _legend(canvas, top + 0.5, look)
    yield canvas.close()


def _head(canvas: Canvas, chat: SavedChat, name: str) -> str:
    where = fit(" ".join(one_line(str(chat.model[key])) for key in ("device", "dtype") if chat.model.get(key)), 24)
    parts = [("specchat", "primary b")]
    for text, css in ((name, "foreground"), (where, "quiet")):
        if text:
            parts += [("  ·  ", "quiet"), (text, css)]
    made = fit(one_line(chat.saved[:16].replace("T", " ")), 20)
    return (
        canvas.words(0, -0.35, parts)
        + canvas.text(CELLS + _LEFT + 1 - width(made), -0.35, made, "quiet")
        + canvas.box(0, 0.95, CELLS + _LEFT + 1, "line", 0.05)
    )


def _row(canvas: Canvas, y: int, block: Block, row: Row) -> str:
    match row.kind:
        case "blank":
            return ""
        case "answer":
            assert isinstance(block.entry, Answer)
            answer, column, out = block.entry, _LEFT, []
            for text, run in row.pieces:
                if run == MARK:
                    out.append(canvas.text(column, y, text, "accent i"))
                else:
                    out.append(canvas.run(column, y, text, canvas.look.ink(answer.runs[run]), told(answer, run)))
                column += width(text)
            return "".join(out)
        case "figures":
            assert isinstance(block.entry, Answer)
            reason, dot, rest = row.text.partition(" · ") if row.first else ("", "", row.text)
            return canvas.words(_LEFT, y, [(reason, _REASONS.get(block.entry.reason or "", "warning")), (dot + rest, "quiet")])
        case "prompt":
            behind = canvas.box(0, y, CELLS + _LEFT + 1, "surface") + canvas.box(0, y, 0.35, "primary")
            return behind + canvas.text(_LEFT, y, row.text, "foreground b")
        case kind:
            glyph = {"information": "·", "warning": "!", "error": "×"}[kind] if row.first else ""
            css = "quiet i" if kind == "information" else kind
            return canvas.text(0, y, glyph, css) + canvas.text(_LEFT, y, row.text, css)


def _legend(canvas: Canvas, y: float, look: Look) -> str:
    out = [canvas.box(0, y - 0.3, CELLS + _LEFT + 1, "line", 0.05)]
    column = 0
    for words, ink in look.legend():
        out.append(canvas.run(column, y, f" {words} ", ink))
        column += width(words) + 3
    return "".join(out)
