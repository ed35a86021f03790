"""Themes for terminals with the 16 ANSI colours: TERM=xterm, the Linux console.

What they look like is the terminal's own affair; they are taken for those of VGA, as Rich does. The Linux console has the first
eight behind text only, so nothing depends on a bright background.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import hypot

from ..chat.entries import SHADES
from .colours import blend, lab
from .few_colours import FewColours, nearest
from .themes import Palette

BLACK, RED, GREEN, BLUE, MAGENTA, CYAN, GREY = "#000000", "#aa0000", "#00aa00", "#0000aa", "#aa00aa", "#00aaaa", "#aaaaaa"
DARK, BRIGHT_GREEN, YELLOW, BRIGHT_CYAN, WHITE = "#555555", "#55ff55", "#ffff55", "#55ffff", "#ffffff"

GREYS = (BLACK, DARK, GREY, WHITE)

ANSI = {
    colour: lab(colour)
    for colour in (
        *(*GREYS, RED, GREEN, "#aa5500", BLUE, MAGENTA, CYAN),
        *("#ff5555", BRIGHT_GREEN, YELLOW, "#5555ff", "#ff55ff", BRIGHT_CYAN),
    )
}

# From cold to hot. Each step: background, text, and the text of every second run.
HOT = ((BLUE, WHITE, YELLOW), (MAGENTA, WHITE, YELLOW), (RED, WHITE, YELLOW))
ON_BLACK = ((BLACK, CYAN, BRIGHT_CYAN), (BLACK, GREEN, BRIGHT_GREEN), *HOT)
ON_WHITE = ((WHITE, BLUE, MAGENTA), (CYAN, BLACK, BLUE), *HOT)

COLOURED = 12
"""Chroma in Lab from which on a colour must stay one."""


@dataclass(frozen=True, slots=True)
class SixteenColours(FewColours):
    """A theme in 16 colours: see `sixteen`."""

    @property
    def quiet(self) -> str:
        """Secondary text."""
        return GREY if self.dark else DARK

    @property
    def faint(self) -> str:
        """Placeholders: no darker grey can be told from the page everywhere."""
        return self.quiet

    @property
    def cursor(self) -> str:
        """Background of the line that a menu's cursor is on."""
        return BLUE if self.dark else GREY

    @property
    def selection(self) -> str:
        """Background of selected text."""
        return BLUE if self.dark else CYAN

    def mix(self, over: str, share: float) -> str:
        """The page with a share of a colour, among those that there are; never the page alone."""
        page = self.colours["background"]
        return nearest(blend(page, over, share), among=ANSI, other=(page,))


def sixteen(palette: Palette) -> SixteenColours:
    """A theme in the 16 colours: black or white, with the hues of the theme."""
    page, ink, panel = (BLACK, WHITE, DARK) if palette.dark else (WHITE, BLACK, GREY)
    colours = {
        name: nearest(colour, among=ANSI, on=(page,), other=GREYS if hypot(*lab(colour)[1:]) >= COLOURED else ())
        for name, colour in palette.colours.items()
    }
    colours |= {"background": page, "surface": page, "panel": panel, "foreground": ink}
    runs: list[str] = []
    for i in range(SHADES):
        beside = (*runs[-1:], *(runs[:1] if i == SHADES - 1 else ()))
        runs.append(nearest(palette.run(i), among=ANSI, on=(page,), other=(*GREYS, *beside)))
    tones = {
        (step, half): (other if half else text, behind)
        for step, (behind, text, other) in enumerate(ON_BLACK if palette.dark else ON_WHITE, 1)
        for half in (False, True)
    }
    given = {part.name: getattr(palette, part.name) for part in fields(Palette)}
    given |= {"colours": colours, "runs": tuple(runs), "heat": tuple(tones[step, False][0] for step, half in tones if not half)}
    return SixteenColours(**given, tints=(page,) * SHADES, tones=tones)
