"""What a terminal shows that is too small to draw the chat in."""

from __future__ import annotations

from textwrap import wrap

from rich.segment import Segment
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


def too_small(size: Size) -> list[Strip]:
    """The rows of a screen that says so, with the longest sentence that fits; none where the size will do."""
    width, height = size
    if width >= LEAST.width and height >= LEAST.height:
        return []
    tried = (wrap(sentence, max(1, width), break_long_words=False) for sentence in SENTENCES)
    lines = next((lines for lines in tried if len(lines) <= height and max(map(len, lines)) <= width), [])
    lines += [""] * (height - len(lines))
    return [Strip([Segment(line.ljust(width))]) for line in lines]
