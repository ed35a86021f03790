"""The last look at what goes to the terminal: no text can steer it, whoever forgot to make it safe.

Everything that is shown goes through `cells.sanitise` where it comes in. This is for the day when something does not: each row
of the screen is looked through before it is written, and only a widget's style may become an escape sequence.
"""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from ..text.cells import HOSTILE

_STEERING = re.compile(f"[{HOSTILE}\t\n]")


def _blank(match: re.Match[str]) -> str:
    """A mark that is as wide as Textual took the character for; most take no cells."""
    return "�" * cell_len(match[0])


def harmless(text: str) -> str:
    """A part of a row without anything that a terminal might obey; as many cells as before."""
    return text if text.isprintable() else _STEERING.sub(_blank, text)


class Harmless(LineFilter):
    """A filter over each row that is drawn, the last one."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [Segment(harmless(text), style, control) for text, style, control in segments]
