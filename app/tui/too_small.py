"""A terminal too small to draw the chat in: the screens are laid out for the least size, and a sentence is shown instead."""

from __future__ import annotations

from textwrap import wrap

from rich.segment import Segment
from textual._compositor import LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

LEAST = Size(20, 6)
"""Header, two lines of text, the input box and the keys."""

SENTENCES = (
    f"This terminal is too small: specchat needs {LEAST.width} columns and {LEAST.height} lines.",
    f"Too small: {LEAST.width}×{LEAST.height} at least.",
    "Too small",
    "…",
)


def fits(terminal: Size) -> bool:
    return terminal.width >= LEAST.width and terminal.height >= LEAST.height


def laid_out(terminal: Size) -> Size:
    return Size(max(terminal.width, LEAST.width), max(terminal.height, LEAST.height))


def refusal(terminal: Size) -> LayoutUpdate:
    """A screen with the longest sentence that fits."""
    width, height = terminal
    tried = (wrap(sentence, max(1, width), break_long_words=False) for sentence in SENTENCES)
    lines = next((lines for lines in tried if len(lines) <= height and max(map(len, lines)) <= width), [])
    lines += [""] * (height - len(lines))
    return LayoutUpdate([[Strip([Segment(line.ljust(width))])] for line in lines], terminal.region)
