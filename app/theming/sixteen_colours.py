"""Themes for terminals with the 16 ANSI colours, such as TERM=xterm and the Linux console: one on black, one on white.

What the 16 look like is the terminal's own affair; contrast is that of VGA's, as Rich takes them. VGA's brown is left out:
others show it as a yellow that cannot be read on white. Behind text the Linux console has only the first eight;
runs need no more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .colours import blend, lab
from .few_colours import FewColours, nearest
from .themes import Palette

BLACK, RED, GREEN, BLUE, MAGENTA, CYAN, GREY = "#000000", "#aa0000", "#00aa00", "#0000aa", "#aa00aa", "#00aaaa", "#aaaaaa"
DARK, BRIGHT_RED, BRIGHT_GREEN, YELLOW, BRIGHT_MAGENTA, BRIGHT_CYAN, WHITE = (
    *("#555555", "#ff5555", "#55ff55", "#ffff55", "#ff55ff", "#55ffff", "#ffffff"),
)

GREYS = {colour: lab(colour) for colour in (BLACK, DARK, GREY, WHITE)}

# From cold to hot. Each step: background, text, and the text of every second run.
_HOT = ((BLUE, WHITE, YELLOW), (MAGENTA, WHITE, YELLOW), (RED, WHITE, YELLOW))
_STEPS_ON_BLACK = ((BLACK, CYAN, BRIGHT_CYAN), (BLACK, GREEN, BRIGHT_GREEN), *_HOT)
_STEPS_ON_WHITE = ((WHITE, BLUE, MAGENTA), (CYAN, BLACK, BLUE), *_HOT)

_ON_BLACK = {
    **{"background": BLACK, "surface": BLACK, "panel": BLACK, "foreground": WHITE},
    **{"primary": BRIGHT_CYAN, "secondary": CYAN, "accent": YELLOW},
    **{"success": BRIGHT_GREEN, "warning": YELLOW, "error": BRIGHT_RED},
}
_ON_WHITE = {
    **{"background": WHITE, "surface": WHITE, "panel": GREY, "foreground": BLACK},
    **{"primary": BLUE, "secondary": BLUE, "accent": MAGENTA},
    **{"success": BLUE, "warning": MAGENTA, "error": RED},  # no green can be read on white
}
_RUNS_ON_BLACK = (BRIGHT_CYAN, YELLOW, BRIGHT_GREEN, BRIGHT_MAGENTA, CYAN, BRIGHT_RED)
_RUNS_ON_WHITE = (BLUE, RED, MAGENTA)


@dataclass(frozen=True, slots=True)
class SixteenColours(FewColours):
    """A theme in 16 colours: see `sixteen`."""

    def behind(self, shade: int) -> str:
        """Background of a run that cycles: the page, as all colours serve its text."""
        return self.colours["background"]

    def bar(self, step: int) -> str:
        """Colour of a bar that stands for so many tokens a pass."""
        if not step:
            return self.quiet
        text, behind = self.tone(step)
        return text if behind == self.colours["background"] else behind

    @property
    def quiet(self) -> str:
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
        return BLUE if self.dark else CYAN

    def mix(self, over: str, share: float) -> str:
        """The nearest grey for a share of the ink, but not the page itself; other colours have no shades here."""
        page, ink = self.colours["background"], self.colours["foreground"]
        return nearest(blend(page, over, share), among=GREYS, other=(page,)) if over == ink else over


def sixteen(palette: Palette) -> SixteenColours:
    """A theme in the 16 colours, of which only the name and whether it is dark are left."""
    steps = _STEPS_ON_BLACK if palette.dark else _STEPS_ON_WHITE
    tones = {
        (step, half): (other if half else text, behind)
        for step, (behind, text, other) in enumerate(steps, 1)
        for half in (False, True)
    }
    runs = _RUNS_ON_BLACK if palette.dark else _RUNS_ON_WHITE
    given = {part.name: getattr(palette, part.name) for part in fields(Palette)}
    given |= {"colours": _ON_BLACK if palette.dark else _ON_WHITE, "runs": runs, "heat": tuple(text for _, text, _ in steps)}
    return SixteenColours(**given, tones=tones)
