"""Colours on a plain terminal: what `specchat run` writes with, outside the Textual app."""

from __future__ import annotations

import os
import re
from typing import Literal

Depth = Literal[0, 16, 256, 16_777_216]
"""Number of colours that a terminal shows; 0 for plain text."""

RESET = "\x1b[0m"
BOLD, DIM = "\x1b[1m", "\x1b[2m"

# Ink → (truecolor, the xterm palette's nearest, the 16 colours'). The terminal's background is not known here, so each has a
# relative luminance of about 0.2: contrast 4.8 on black and 4.3 on white. Plain blue and red are left out of the 16: unreadable
# on black.
_INKS: dict[str, tuple[str, str, str]] = {
    "heat-1": ("131;113;17", "100", "36"),
    "heat-2": ("156;102;8", "130", "32"),
    "heat-3": ("189;79;15", "166", "33"),
    "heat-4": ("216;44;38", "160", "35"),
    "heat-5": ("210;37;124", "162", "91"),
}


def colour_depth(is_terminal: bool) -> Depth:
    """Colours to write with: none in a pipe, nor if NO_COLOR or TERM=dumb forbids them. FORCE_COLOR overrules all three."""
    environ = os.environ
    term = environ.get("TERM", "")
    plain = not is_terminal or environ.get("NO_COLOR") or term in ("", "dumb", "unknown")
    if plain and not environ.get("FORCE_COLOR"):
        return 0
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return 16_777_216
    # Without a TERM (in a file, on demand) 256 colours are what every viewer understands.
    legacy = re.fullmatch(r"linux|ansi|cygwin|vt\d+|screen|xterm|xterm-color|xterm-16color|rxvt", term)
    return 16 if legacy else 256


def run_colour(ink: str, depth: Depth) -> str:
    """The escape sequence for a run's ink (`ink_name`). Empty without colours, and for plain text."""
    if not depth or ink.startswith("plain"):
        return ""
    if ink.startswith("line"):
        return "\x1b[4m" if ink == "line" else "\x1b[1m"
    true, xterm, basic = _INKS[ink.removesuffix("-bold")]
    weight = "1;" if ink.endswith("-bold") else ""
    match depth:
        case 16:
            return f"\x1b[{weight}{basic}m"
        case 256:
            return f"\x1b[{weight}38;5;{xterm}m"
        case _:
            return f"\x1b[{weight}38;2;{true}m"
