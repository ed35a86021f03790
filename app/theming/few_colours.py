"""Themes for terminals with 256 colours: macOS's Terminal, tmux and screen unless told otherwise.

Left to itself the nearest of 256 turns a slate page navy and two neighbouring runs into one colour. Here every colour is chosen
among those that there are, so that text stays readable and runs stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from math import atan2, degrees, dist

from ..chat.runs import SHADES
from .colours import Channels, blend, contrast, lab
from .themes import APART, READABLE, STEPS, Palette

HUES = 25
"""Most degrees that a glow's hue is moved; greys are always near."""

STRIDE = 4.0
"""Least distance in Lab by which a longer run's background is further from the page."""

UNREADABLE = 200.0
"""What each 1 : 1 of contrast that text lacks on a background counts, where the distance from the wanted one counts 1."""

_STEPS = (0, 95, 135, 175, 215, 255)


@cache
def _there() -> dict[str, str]:
    """What to write → what is seen, for every one of the 240 colours that do not depend on the terminal's settings.

    Rich makes the grey 8 + 10 i of what rounds to i + 1 in 25ths of white, so a grey is not written as it is seen.
    """
    cube = [f"#{r:02x}{g:02x}{b:02x}" for r in _STEPS for g in _STEPS for b in _STEPS if not r == g == b]
    greys = {_grey(round((i + 1) * 255 / 25)): _grey(8 + 10 * i) for i in range(24)}
    return {colour: colour for colour in (*cube, "#000000", "#ffffff")} | greys


def _grey(level: int) -> str:
    return f"#{level:02x}{level:02x}{level:02x}"


@cache
def _labs() -> dict[str, Channels]:
    return {written: lab(shown) for written, shown in _there().items()}


def shown(colour: str) -> str:
    """What a terminal with 256 colours makes of one that `nearest` gave."""
    return _there().get(colour, colour)


def nearest(
    colour: str,
    *,
    among: Mapping[str, Channels] | None = None,
    on: Sequence[str] = (),
    least: float = READABLE,
    apart: Sequence[str] = (),
    other: Sequence[str] = (),
) -> str:
    """The colour that looks most like this one; what is asked of it goes before if it can be had.

    Args:
        among: colours in Lab; those of the 256 if None.
        on: what it should be readable on.
        least: contrast that makes it so.
        apart: what it should be easy to tell from.
        other: what it should not be.
    """
    wanted, labs = lab(colour), among or _labs()
    order = sorted(labs, key=lambda candidate: dist(labs[candidate], wanted))
    for candidate in order:
        if (
            candidate not in other
            and all(contrast(shown(candidate), shown(behind)) >= least for behind in on)
            and all(dist(labs[candidate], labs[neighbour]) >= APART for neighbour in apart)
        ):
            return candidate
    return order[0]


@dataclass(frozen=True, slots=True)
class FewColours(Palette):
    """A theme in 256 colours: see `reduced`."""

    tints: tuple[str, ...] = ()
    tones: Mapping[tuple[int, bool], tuple[str, str]] = field(default_factory=dict)

    def behind(self, shade: int) -> str:
        return self.tints[shade]

    def tone(self, step: int, half: bool = False) -> tuple[str, str]:
        """Text colour and background of a run by its length."""
        return self.tones[step, half]

    def dimmed(self, colour: str, behind: str) -> str:
        """A text colour in a thought: there are none between this one and the page."""
        return self.quiet if colour == self.colours["foreground"] else colour

    def mix(self, over: str, share: float) -> str:
        """The page with a share of a colour, among those that there are."""
        return _mixed(self.colours["background"], over, share)


@cache
def _mixed(page: str, over: str, share: float) -> str:
    return nearest(blend(page, over, share))


def _is_grey(colour: str) -> bool:
    return colour[1:3] == colour[3:5] == colour[5:]


def _hues_apart(one: str, other: str) -> float:
    """Degrees between two hues in Lab."""
    angles = [degrees(atan2(b, a)) for _, a, b in (lab(one), lab(other))]
    return abs((angles[0] - angles[1] + 180) % 360 - 180)


def _ramp(palette: Palette, page: str) -> list[str]:
    """Backgrounds of runs by length: together as like the theme's as there are, each further from the page than the one before,
    and greys before colours."""
    labs = _labs()
    far = {colour: dist(place, labs[page]) for colour, place in labs.items()}
    lightness = {colour: abs(place[0] - labs[page][0]) for colour, place in labs.items()}
    near = [colour for colour in labs if colour != page and (_is_grey(colour) or _hues_apart(colour, palette.glow) <= HUES)]

    def follows(colour: str, before: str) -> bool:
        stronger = far[colour] >= far[before] + STRIDE and lightness[colour] >= lightness[before]
        return stronger and (_is_grey(before) or not _is_grey(colour))

    paths: list[tuple[float, list[str]]] = [(0.0, [])]
    for step in STEPS:
        text, tint = palette.tone(step)
        wanted, longer = lab(tint), []
        for colour in near:
            cost = dist(labs[colour], wanted) + UNREADABLE * max(0.0, READABLE - contrast(text, shown(colour)))
            if before := [(spent, path) for spent, path in paths if not path or follows(colour, path[-1])]:
                spent, path = min(before)
                longer.append((spent + cost, [*path, colour]))
        paths = longer
    return min(paths)[1] if paths else [near[0]] * len(STEPS)


def reduced(palette: Palette) -> Palette:
    """A theme in the 256 colours, as like it as can be read."""
    # The cube has nothing between a grey and a strong colour, and large faces of those would be loud.
    coloured = [colour for colour in _there() if not _is_grey(colour)]
    pages: dict[str, str] = {}
    for name in ("background", "surface", "panel"):
        pages[name] = nearest(palette.colours[name], other=(*coloured, *pages.values()))
    colours = {
        name: pages[name] if name in pages else nearest(colour, on=tuple(pages.values()))
        for name, colour in palette.colours.items()
    }
    page = pages["background"]
    # Backgrounds first, on which the text as it is would nearly be readable; then the text, which can be moved more freely.
    nearly = READABLE * 0.9
    tints = [nearest(palette.behind(i), on=(palette.run(i),), least=nearly, other=(page,)) for i in range(SHADES)]
    runs: list[str] = []
    for i in range(SHADES):
        beside = [*runs[-1:], *(runs[:1] if i == SHADES - 1 else ())]
        runs.append(nearest(palette.run(i), on=(page, tints[i]), apart=beside))
    tones: dict[tuple[int, bool], tuple[str, str]] = {}
    for step, behind in zip(STEPS, _ramp(palette, page), strict=True):
        text = nearest(palette.heat[step - 1], on=(page, behind))
        # There are no two tints so near to each other: neighbours of one length differ by their text.
        tones[step, False], tones[step, True] = (text, behind), (nearest(text, on=(page, behind), apart=(text,)), behind)
    given = {part.name: getattr(palette, part.name) for part in fields(Palette)}
    heat = tuple(tones[step, False][0] for step in STEPS)
    given |= {"colours": colours, "runs": tuple(runs), "heat": heat, "glow": tones[STEPS[-1], False][1]}
    return FewColours(**given, tints=tuple(tints), tones=tones)
