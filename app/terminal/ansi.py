"""Colours on a plain terminal: what `specchat run` writes with, outside the Textual app."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

Depth = Literal[0, 16, 256, 16_777_216]
"""How many colours a terminal shows; 0 for plain text."""

RESET = "\x1b[0m"
DIM = "\x1b[2m"

# (truecolor, the xterm palette's nearest, the 16 colours'). The terminal's background is not known here, so each has a relative
# luminance of 0.19: contrast 4.8 on black and 4.3 on white. Plain blue and red are left out of the 16: unreadable on black.
_RUNS: tuple[tuple[str, int, int], ...] = (
    ("37;118;231", 32, 36),
    ("191;94;10", 130, 33),
    ("20;140;60", 29, 32),
    ("211;49;171", 169, 35),
    ("8;133;145", 30, 96),
    ("220;63;57", 167, 93),
)


def colour_depth(mode: str, is_terminal: bool, environ: Mapping[str, str] | None = None) -> Depth:
    """Colours to write with.

    Args:
        mode: auto, always or never. NO_COLOR and TERM=dumb speak for auto; always overrules them.
        is_terminal: whether the output goes to a terminal.
        environ: the environment; the process's own if None.
    """
    environ = os.environ if environ is None else environ
    term = environ.get("TERM", "")
    if mode == "never":
        return 0
    if mode == "auto" and (not is_terminal or environ.get("NO_COLOR") or term in ("", "dumb", "unknown")):
        return 0
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return 16_777_216
    # Written to a file on demand (always, without a TERM) 256 colours are what every viewer understands.
    legacy = re.fullmatch(r"linux|ansi|cygwin|vt\d+|screen|xterm|xterm-color|xterm-16color|rxvt", term)
    return 16 if legacy else 256


def run_colour(shade: int, depth: Depth) -> str:
    """The escape sequence that colours a run of this shade (`Run.shade`). Empty without colours, and for one that has none."""
    if shade < 0:
        return ""
    true, xterm, basic = _RUNS[shade % len(_RUNS)]
    match depth:
        case 0:
            return ""
        case 16:
            return f"\x1b[{basic}m"
        case 256:
            return f"\x1b[38;5;{xterm}m"
        case _:
            return f"\x1b[38;2;{true}m"
