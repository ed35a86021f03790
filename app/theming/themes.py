"""Colour themes: TOML files that ship in `themes/`, and the user's own in the config folder (docs/settings.md)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import UserError, did_you_mean
from ..chat.runs import SHADES
from ..settings.toml import parse, read_text
from ..text.cells import fit, one_line
from .colours import blend, contrast, distance, turned, with_contrast

SHIPPED = Path(__file__).resolve().parents[2] / "themes"

COLOURS = (
    *("primary", "secondary", "accent", "foreground", "background", "surface", "panel"),
    *("success", "warning", "error"),
)
"""What a theme must give; each `#rrggbb`."""

KEYS = ("summary", "inherits", "dark", *COLOURS, "runs", "tint", "heat", "glow", "turn")
"""Everything that a theme may give."""

MOST_PARENTS = 20
"""Themes that one inherits from, each by way of the one before."""

READABLE = 4.5
"""Least contrast of text: WCAG 2, level AA."""

VISIBLE = 3.0
"""Least contrast of what need not be read: placeholders, what cannot be chosen."""

ROOM = READABLE * 1.6
"""Contrast of derived run colours on the page, so that a tint can lie between them."""

APART = 12.0
"""Least distance of neighbouring run colours."""

LENGTHS = ("1", "2", "3", "4–5", "6–7", "8+")
"""The scale of tokens per pass, for legends: lengths on one step look alike. A single token is plain text."""

LONGEST = 8
"""Runs of so many tokens and more are on the last step."""

_MOST = (1, 2, 3, 5, LONGEST - 1)
"""Most tokens on each step of the scale but the last."""

STEPS = range(1, len(LENGTHS))
"""Steps of the scale that have a colour."""

SHARES = (0.32, 0.45, 0.6, 0.8, 1.0)
"""Share of the glow behind each step's text: even to the eye, and the first clearly off the page."""

TURNS = (1.0, 0.7, 0.42, 0.18, 0.0)
"""Share of a theme's `turn` by which each step's glow is turned in hue: steps in one hue can be told apart only where they lie
side by side, and the half tone of one is nearly the full tone of another."""

HALF = 0.7
"""What every second run has of its tint: neighbours of one length stay apart, 5 in CIE Lab on most themes."""

PALEST = 5.0
"""Least distance of the palest tint from the page: twice what can just be noticed."""

PLAIN_BAR, BARS = 0.45, (0.5, 0.6, 0.7, 0.85, 1.0)
"""Share of the ink in a bar for one token a pass, and of the hue in bars for more: bars are no text, but must be seen."""

BLOCK = "■"
"""How a theme's run colours are shown."""

_FIRST = ("dark", "light")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")


class Pair(NamedTuple):
    """A colour on another."""

    what: str
    colour: str
    where: str
    behind: str
    least: float
    """Contrast that makes it readable."""

    @property
    def contrast(self) -> float:
        return contrast(self.colour, self.behind)


@dataclass(frozen=True, slots=True)
class Palette:
    """A theme as its file has it."""

    name: str
    summary: str
    dark: bool
    colours: Mapping[str, str]
    runs: tuple[str, ...]
    """Text colours of runs, in turn; two or more."""
    tint: float
    """Share of a run's colour in the background behind it, 0 to 1."""
    heat: tuple[str, ...]
    """Text colours of runs by length, one for each of STEPS."""
    glow: str
    """Background of the longest runs; shorter ones have less of it, a single token none."""
    turn: float = 0.0
    """Degrees by which the hue of the shortest runs' background is turned from that."""

    def run(self, shade: int) -> str:
        """Text colour of a run that cycles, by its shade (0 to SHADES − 1). Neighbours differ with any number of colours."""
        # With five colours the sixth shade would be the first again, next to itself in the next round.
        again = shade == SHADES - 1 and shade % len(self.runs) == 0
        return self.runs[1 if again else shade % len(self.runs)]

    def behind(self, shade: int) -> str:
        """Background of a run that cycles."""
        return self.mix(self.run(shade), self.tint)

    def tone(self, step: int, half: bool = False) -> tuple[str, str]:
        """Text colour and background of a run by its length (one of STEPS), in full or in the half tone of its neighbours."""
        return self.heat[step - 1], self.mix(
            turned(self.glow, self.turn * TURNS[step - 1]), SHARES[step - 1] * (HALF if half else 1)
        )

    def bar(self, step: int) -> str:
        """Colour of a bar that stands for so many tokens a pass, as a step of the scale; 0 for one."""
        if not step:
            return self.mix(self.colours["foreground"], PLAIN_BAR)
        hue = blend(self.glow, self.heat[-2], 0.55)  # between the longest runs' background and their text
        return self.mix(turned(hue, self.turn * TURNS[step - 1]), BARS[step - 1])

    def mix(self, over: str, share: float) -> str:
        """The page with a share of a colour."""
        return blend(self.colours["background"], over, share)

    def dimmed(self, colour: str, behind: str) -> str:
        """A text colour in a thought: paler, as far as it stays readable."""
        if colour == self.colours["foreground"]:
            return self.quiet
        paler = (blend(colour, behind, share) for share in (0.35, 0.25, 0.15))
        return next((found for found in paler if contrast(found, behind) >= READABLE), colour)

    @property
    def quiet(self) -> str:
        """Secondary text."""
        return self._muted(0.70, READABLE, self.colours["background"], self.colours["surface"], self.cursor)

    @property
    def faint(self) -> str:
        """Placeholders, and what cannot be chosen."""
        return self._muted(0.50, VISIBLE, self.colours["background"], self.colours["surface"])

    @property
    def cursor(self) -> str:
        """Background of the line that a menu's cursor is on."""
        return self.mix(self.colours["primary"], 0.16)

    @property
    def selection(self) -> str:
        """Background of selected text: as strong as leaves what may be selected visible."""
        primary = self.colours["primary"]
        texts = (self.colours["foreground"], *self.runs, *self.heat)
        for percent in range(35, 10, -3):
            found = self.mix(primary, percent / 100)
            if all(contrast(text, found) >= VISIBLE for text in texts):
                break
        return found

    def _muted(self, share: float, least: float, *behind: str) -> str:
        """Ink with a share of the page: more ink where it would be hard to see."""
        ink = self.colours["foreground"]
        while share < 1 and any(contrast(self.mix(ink, share), other) < least for other in behind):
            share += 0.02
        return self.mix(ink, min(share, 1.0))

    def variables(self) -> dict[str, str]:
        """Variables of the style sheet. Run colours become $run-0, $run-0-tint, …; by length, $heat-1, $heat-1-tint, …, in half
        tone $heat-1-half, $heat-1-half-tint, …; their text in a thought $run-0-dim, …; bars by length $bar-0, $bar-1, …"""
        page, ink = self.colours["background"], self.colours["foreground"]
        variables = {
            "quiet": self.quiet,
            "faint": self.faint,
            "line": self.mix(ink, 0.14),
            "plain": ink,
            "plain-alt": self.mix(ink, 0.80),
            "border": self.mix(self.colours["primary"], 0.55),
            "border-blurred": self.mix(ink, 0.20),
            "scrollbar": self.mix(ink, 0.20),
            "scrollbar-hover": self.mix(ink, 0.32),
            "scrollbar-active": self.colours["primary"],
            "scrollbar-background": page,
            "scrollbar-background-hover": page,
            "scrollbar-background-active": page,
            "scrollbar-corner-color": page,
            "input-cursor-background": self.colours["primary"],
            "input-cursor-foreground": page,
            "input-cursor-text-style": "none",
            "input-selection-background": self.selection,
            "screen-selection-background": self.selection,
            "block-cursor-background": self.cursor,
            "block-cursor-foreground": ink,
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": self.mix(ink, 0.10),
            "block-cursor-blurred-foreground": ink,
        }
        for i in range(SHADES):
            variables[f"run-{i}"], variables[f"run-{i}-tint"] = self.run(i), self.behind(i)
        variables |= {f"bar-{step}": self.bar(step) for step in (0, *STEPS)}
        for step in STEPS:
            for name, half in ((f"heat-{step}", False), (f"heat-{step}-half", True)):
                variables[name], variables[f"{name}-tint"] = self.tone(step, half)
        runs = [name for name in variables if re.match(r"(run|heat|plain)\b(?!.*tint)", name)]
        return variables | {f"{name}-dim": self.dimmed(variables[name], variables.get(f"{name}-tint", page)) for name in runs}

    def pairs(self) -> Iterator[Pair]:
        """Every colour that is read, on everything that it is read on."""
        colours = self.colours
        for where in ("background", "surface", "panel"):
            for what in ("foreground", "primary", "accent", "success", "warning", "error"):
                yield Pair(what, colours[what], where, colours[where], READABLE)
            yield Pair("quiet text", self.quiet, where, colours[where], READABLE)
        for where in ("background", "surface"):
            yield Pair("secondary", colours["secondary"], where, colours[where], READABLE)
            yield Pair("faint text", self.faint, where, colours[where], VISIBLE)
        for i, colour in enumerate(self.runs):
            yield Pair(f"run colour {i + 1}", colour, "background", colours["background"], READABLE)
            tint = self.mix(colour, self.tint)
            yield Pair(f"run colour {i + 1}", colour, "its tint", tint, READABLE)
        for step in STEPS:
            colour, behind = self.tone(step)
            yield Pair(f"heat colour {step}", colour, "background", colours["background"], READABLE)
            yield Pair(f"heat colour {step}", colour, "its glow", behind, READABLE)

    def doubts(self) -> list[str]:
        """What makes the theme hard to use, in words, the worst first."""
        weak = sorted((pair for pair in self.pairs() if pair.contrast < pair.least), key=lambda p: p.contrast / p.least)
        found = [f"{p.what} on {p.where} has a contrast of {p.contrast:.1f}, less than {p.least:g}" for p in weak]
        for i in range(SHADES):
            one, other = self.run(i), self.run((i + 1) % SHADES)
            if (apart := distance(one, other)) < APART:
                found.append(f"the neighbouring runs {one} and {other} are {apart:.0f} apart, less than {APART:g}")
        if (apart := distance(self.tone(STEPS[0], half=True)[1], self.colours["background"])) < PALEST:
            found.append(f"the palest tint of the glow {self.glow} is {apart:.0f} from the page, less than {PALEST:g}")
        return list(dict.fromkeys(found))

    def sample(self) -> tuple[tuple[str, str], ...]:
        """The scale of lengths, then run colours in turn, on the theme's own page: pieces of text, each with its style."""
        page = self.colours["background"]
        heat = ((f" {LENGTHS[step][0]}", "{} on {}".format(*self.tone(step))) for step in STEPS)
        runs = ((BLOCK, f"{self.run(i)} on {page}") for i in range(SHADES))
        return (*heat, (" ", f"on {page}"), *runs, (" ", f"on {page}"))

    @property
    def warning(self) -> str | None:
        """A sentence on what makes the theme hard to use; None if nothing does."""
        if not (doubts := self.doubts()):
            return None
        more = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
        return (
            f"The theme {self.name} works but is hard to read: {doubts[0]}{more}. `specchat themes {self.name}` shows the "
            "details."
        )


def heat_step(tokens: int) -> int:
    """Where a run of that length is on the scale: 0 for a single token, else one of STEPS."""
    return bisect_left(_MOST, tokens)


def read_theme(path: Path) -> Palette:
    """The theme in a file.

    Raises:
        UserError: the file, or one that it inherits from, cannot be read, lacks something, or says what no theme can;
            names the file and what to do.
    """
    data = _merged(path, ())
    refuse = _refuser(path)
    for key in COLOURS:
        if key not in data:
            raise refuse(f'needs {key} = "#rrggbb", or inherits = "dark" for what it does not give')
    for key in ("runs", "dark"):
        if key not in data:
            needed = 'runs = ["#rrggbb", …] with at least two colours' if key == "runs" else "dark = true or false"
            raise refuse(f"needs {needed}")
    colours = {key: data[key].lower() for key in COLOURS}
    runs = tuple(colour.lower() for colour in data["runs"])
    tint = float(data.get("tint", 0.14))
    heat = tuple(colour.lower() for colour in data["heat"]) if "heat" in data else _derived_heat(colours)
    glow = data["glow"].lower() if "glow" in data else _derived_glow(colours["background"], heat)
    turn = float(data.get("turn", 0.0))
    return Palette(path.stem, one_line(data.get("summary", "")), data["dark"], colours, runs, tint, heat, glow, turn)


def _refuser(path: Path) -> Any:
    return lambda what: UserError(f"The theme {path} {fit(what, 300)}.")


def _merged(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    data = _parsed(path)
    if "inherits" not in data:
        return data
    parent = _find(path, data.pop("inherits"))
    if parent in (path, *below) or len(below) > MOST_PARENTS:
        raise _refuser(path)("inherits from itself. Choose another theme")
    inherited = _merged(parent, (path, *below))
    data.setdefault("summary", f"{parent.stem}, with colours of its own")
    if "glow" not in data and "heat" in data:
        inherited.pop("glow", None)  # it belongs to the heat that is replaced
    if {"glow", "heat", "background"} & data.keys():
        inherited.pop("turn", None)
    return inherited | data


def _find(path: Path, name: str) -> Path:
    """The file of the theme that another one names: its neighbour, or one that ships."""
    near = path.parent / f"{name}.toml"
    # `dark` in a dark.toml of one's own is the one that ships.
    for found in (near, SHIPPED / f"{name}.toml") if near.absolute() != path.absolute() else (SHIPPED / f"{name}.toml",):
        if "/" not in name and found.is_file():
            return found
    names = sorted({file.stem for folder in (SHIPPED, path.parent) for file in folder.glob("*.toml")} - {path.stem})
    raise UserError(f"The theme {path} inherits from {fit(name, 80)!r}, which is not a theme: {did_you_mean(name, names)}")


def _parsed(path: Path) -> dict[str, Any]:
    """What a file itself says, each value of its type."""
    refuse = _refuser(path)
    text = read_text(path)
    if text is None:
        raise UserError(f"The theme {path} does not exist. Choose another.")
    data = parse(text, str(path))
    for key, value in data.items():
        match key:
            case "summary" | "inherits":
                if not isinstance(value, str):
                    raise refuse(f"has {key} = {value!r}: it takes a text in quotes")
            case "dark":
                if not isinstance(value, bool):
                    raise refuse(f"has dark = {value!r}: it takes true or false")
            case "runs":
                if not _colour_list(value) or len(value) < 2:
                    raise refuse('needs runs = ["#rrggbb", …] with at least two colours')
            case "heat":
                if not _colour_list(value) or len(value) != len(STEPS):
                    has = f", not {len(value)}" if isinstance(value, list) else ""
                    raise refuse(f'needs heat = ["#rrggbb", …] with {len(STEPS)} colours, from two tokens to many{has}')
            case "tint":
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                    raise refuse(f"has tint = {value!r}: it must be between 0 and 1")
            case "turn":
                if isinstance(value, bool) or not isinstance(value, int | float) or not -90 <= value <= 90:
                    raise refuse(f"has turn = {value!r}: it must be between -90 and 90")
            case _ if key in COLOURS or key == "glow":
                if not isinstance(value, str) or not _HEX.fullmatch(value):
                    raise refuse(f'needs {key} = "#rrggbb", not {value!r}')
            case _:
                raise UserError(
                    f"The theme {path} has {fit(key, 80)!r}, which is not part of a theme: {did_you_mean(key, KEYS)}"
                )
    return data


def _colour_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and _HEX.fullmatch(item) for item in value)


def _derived_heat(colours: Mapping[str, str]) -> tuple[str, ...]:
    page, ink, accent = (colours[name] for name in ("background", "foreground", "accent"))
    steps = (blend(ink, accent, step / len(STEPS)) for step in STEPS)
    return tuple(colour if contrast(colour, page) >= ROOM else with_contrast(colour, page, ROOM) for colour in steps)


def _derived_glow(page: str, heat: tuple[str, ...]) -> str:
    """Take as much of the last heat colour as leaves every step readable."""
    for percent in range(50, 4, -2):
        glow = blend(page, heat[-1], percent / 100)
        if all(contrast(colour, blend(page, glow, share)) >= READABLE for colour, share in zip(heat, SHARES, strict=True)):
            return glow
    return page


@cache
def load_themes(folder: Path | None = None) -> tuple[Mapping[str, Palette], tuple[str, ...]]:
    """Every theme by name (its file's name without .toml), and a sentence for each file that could not be used.

    Args:
        folder: the user's own themes; one with a shipped theme's name replaces it.
    """
    found: dict[str, Palette] = {}
    wrong: list[str] = []
    for place in (SHIPPED, folder):
        for path in sorted(place.glob("*.toml"), key=lambda p: (p.stem not in _FIRST, p.stem)) if place else ():
            try:
                found[path.stem] = read_theme(path)
            except UserError as error:
                wrong.append(str(error))
    return found, tuple(wrong)
