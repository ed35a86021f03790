"""A terminal too small to draw the chat in: the screens are laid out for the least size, and a sentence is shown instead."""

from __future__ import annotations

from textwrap import wrap

from rich.segment import Segment
from textual._compositor import LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

LEAST = Size(20, 6)
"""Header, two lines of text, the input box and the keys."""

SENTENCE = f"Too small: specchat needs {LEAST.width}×{LEAST.height}."


def fits(terminal: Size) -> bool:
    return terminal.width >= LEAST.width and terminal.height >= LEAST.height


def laid_out(terminal: Size) -> Size:
    return Size(max(terminal.width, LEAST.width), max(terminal.height, LEAST.height))


def refusal(terminal: Size) -> LayoutUpdate:
    """A screen with as much of the sentence as fits."""
    lines = [*wrap(SENTENCE, max(1, terminal.width)), *[""] * terminal.height][: terminal.height]
    return LayoutUpdate([[Strip([Segment(line.ljust(terminal.width))])] for line in lines], terminal.region)
