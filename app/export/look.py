"""How runs look outside the terminal: the theme's colours, in the way of colouring that is in force."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..chat.entries import SHADES, Answer, Run
from ..text.cells import sanitise
from ..theming.colouring import Way
from ..theming.colours import blend
from ..theming.themes import LENGTHS, Palette, heat_step

_NO_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""What neither XML 1.0 nor HTML has, beyond what no terminal may get."""


def visible(raw: str) -> str:
    """`raw` with everything that a page or a picture cannot hold as visible text; tabs and newlines stay."""
    return _NO_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", sanitise(raw))


class Ink(NamedTuple):
    """How a run is drawn."""

    name: str
    """Of the style, for classes."""
    colour: str
    behind: str | None = None
    underline: bool = False
    bold: bool = False


class Look:
    """A theme and a way of colouring."""

    def __init__(self, palette: Palette, way: Way = "cycle") -> None:
        self.palette = palette
        self.way = way
        self.inks = self._inks()
        """Every ink that a run can have."""

    def colour(self, name: str) -> str:
        """One of the theme's colours, or `quiet`, `line` or `plain-alt` made from them as the chat does."""
        page, ink = self.palette.colours["background"], self.palette.colours["foreground"]
        match name:
            case "quiet":
                return self.palette.quiet
            case "line":
                return blend(page, ink, 0.14)
            case "plain-alt":
                return blend(page, ink, 0.80)
            case _:
                return self.palette.colours[name]

    def _inks(self) -> list[Ink]:
        plain = [Ink("p0", self.colour("foreground")), Ink("p1", self.colour("plain-alt"))]
        match self.way:
            case "cycle":
                return plain + [Ink(f"r{i}", self.palette.run(i), self.palette.behind(i)) for i in range(SHADES)]
            case "heat":
                heat = [Ink(f"h{i}", self.palette.heat[i], self.palette.behind_heat(i)) for i in range(SHADES)]
                return [heat[0]._replace(behind=None), *heat[1:]]
            case "underline":
                ink = self.colour("foreground")
                return [*plain, Ink("u0", ink, underline=True), Ink("u1", ink, bold=True)]
            case "off":
                return plain[:1]

    def ink(self, run: Run) -> Ink:
        """How a run is drawn."""
        inks = self.inks
        match self.way:
            case "heat":
                return inks[heat_step(run.together)]
            case "off":
                return inks[0]
            case "underline" if run.shade >= 0:
                return inks[2 + run.shade % 2]
            case _:
                return inks[run.shade + 2 if run.shade >= 0 else -run.shade - 1]

    def legend(self) -> list[tuple[str, Ink]]:
        """What the colours mean, as samples with their inks; empty where there are none."""
        inks = self.inks
        match self.way:
            case "cycle":
                return [("one token at a time", inks[0]), ("tokens of one pass", inks[2]), ("of the next", inks[3])]
            case "heat":
                lengths = ("1 token", *LENGTHS[1:-1], f"{LENGTHS[-1]} in one pass")
                return list(zip(lengths, inks, strict=True))
            case "underline":
                return [("one token at a time", inks[0]), ("tokens of one pass", inks[2]), ("of the next", inks[3])]
            case "off":
                return []


def told(answer: Answer, index: int) -> str:
    """A run in words: who made it, in which step, how its draft fared, how long it took."""
    run = answer.runs[index]
    if not len(answer.log):
        return f"{run.method} · how it was decoded is not known"
    parts = [run.method, f"step {index + 1}", f"{run.tokens} token{'s' * (run.tokens != 1)}"]
    if run.earlier:
        parts.append("a pass for each")
    parts.append(f"{run.accepted} of {run.drafted} drafted accepted" if run.drafted else "nothing drafted")
    parts.append(f"{run.seconds * 1000:.1f} ms")
    return " · ".join(parts)
