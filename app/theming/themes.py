"""Colour themes: TOML files that ship in `themes/`, and the user's own in the config folder (docs/settings.md). A file has
every tone; none is computed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import UserError, did_you_mean
from ..settings.toml import parse, read_text
from ..text.cells import fit, one_line

SHIPPED = Path(__file__).resolve().parents[2] / "themes"

COLOURS = tuple("primary secondary accent foreground background surface panel success warning error".split())
"""Textual's own colours; each `#rrggbb`."""

TONES = ("quiet", "faint", "line", "border", "rest", "hover", "cursor", "cursor-rest", "selection")
"""Secondary text, placeholders, rules, frames of what has the focus, frames and scrollbars of the rest, a scrollbar below the
mouse, the line that a menu's cursor is on, that line where the menu has no focus, selected text."""

LENGTHS = ("1", "2", "3", "4–5", "6–7", "8+")
"""The scale of tokens per pass, for legends: lengths on one step look alike. A single token is plain text."""

LONGEST = 8
"""Fewest tokens of a run on the last step."""

_MOST = (1, 2, 3, 5, LONGEST - 1)
"""Most tokens on each step of the scale but the last."""

STEPS = range(1, len(LENGTHS))
"""Steps of the scale that have a colour."""

LISTS = {name: len(STEPS) for name in ("heat", "tint", "dim")} | {"bars": len(LENGTHS)}
"""Text of runs by length; what lies behind it; the text in a thought; bars that stand for tokens per pass. Each with the number
of its colours."""

FORMS = {
    "summary": '"a few words"',
    "dark": "true or false",
    **dict.fromkeys((*COLOURS, *TONES), '"#rrggbb"'),
    **{key: f'["#rrggbb", …] with {count} colours' for key, count in LISTS.items()},
}
"""Everything that a theme gives, and its form."""

VARIABLES = {
    **{tone: tone for tone in ("quiet", "faint", "line", "border")},
    "plain": "foreground",
    "plain-dim": "quiet",
    "border-blurred": "rest",
    "scrollbar": "rest",
    "scrollbar-hover": "hover",
    "scrollbar-active": "primary",
    **dict.fromkeys(("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active"), "background"),
    "scrollbar-corner-color": "background",
    "input-cursor-background": "primary",
    "input-cursor-foreground": "background",
    "input-selection-background": "selection",
    "screen-selection-background": "selection",
    "block-cursor-background": "cursor",
    "block-cursor-foreground": "foreground",
    "block-cursor-blurred-background": "cursor-rest",
    "block-cursor-blurred-foreground": "foreground",
}
"""Variable of the style sheet → the colour or tone that it has."""

FEWER = {"256": ("light-256", "dark-256"), "standard": ("sixteen", "sixteen"), "windows": ("sixteen", "sixteen")}
"""Rich's name for a terminal with fewer colours → the themes that replace light and dark ones."""

_FIRST = ("dark", "light")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Palette:
    """A theme read from its file."""

    name: str
    summary: str
    dark: bool
    colours: Mapping[str, str]
    """Name of COLOURS → colour."""
    tones: Mapping[str, str]
    """Name of TONES → colour."""
    lists: Mapping[str, tuple[str, ...]]
    """Name of LISTS → colours."""

    def tone(self, step: int) -> tuple[str, str]:
        """Return text colour and background of a run by its length (one of STEPS)."""
        return self.lists["heat"][step - 1], self.lists["tint"][step - 1]

    def variables(self) -> dict[str, str]:
        """Return the variables of the style sheet. Runs by length are $heat-1, $heat-1-tint, …; their text in a thought
        $heat-1-dim, …; bars $bar-0, $bar-1, …"""
        tones = {**self.colours, **self.tones}
        variables = {variable: tones[tone] for variable, tone in VARIABLES.items()}
        variables |= {"input-cursor-text-style": "none", "block-cursor-text-style": "bold"}
        variables |= {f"bar-{step}": colour for step, colour in enumerate(self.lists["bars"])}
        for step in STEPS:
            name = f"heat-{step}"
            variables[name], variables[f"{name}-tint"] = self.tone(step)
            variables[f"{name}-dim"] = self.lists["dim"][step - 1]
        return variables

    def sample(self) -> tuple[tuple[str, str], ...]:
        """Return the scale of lengths on the theme's page: pieces of text, each with its style."""
        heat = ((f" {LENGTHS[step][0]}", "{} on {}".format(*self.tone(step))) for step in STEPS)
        return (*heat, (" ", f"on {self.colours['background']}"))


def heat_step(tokens: int) -> int:
    """Return a run's step on the scale of lengths: 0 for a single token, else one of STEPS."""
    return bisect_left(_MOST, tokens)


def read_theme(path: Path) -> Palette:
    """Read a theme.

    Raises:
        UserError: the file cannot be read, lacks a key, or has an invalid one; names the file and what to do.
    """

    data = {"summary": "", **parse(read_text(path), str(path))}
    if unknown := next((key for key in data if key not in FORMS), None):
        choice = did_you_mean(unknown, FORMS)
        raise UserError(f"The theme {path} has {fit(unknown, 80)!r}, which is not part of a theme: {choice}")
    if wrong := next((key for key in FORMS if not _fits(key, data.get(key))), None):
        raise UserError(f"The theme {path} needs {wrong} = {FORMS[wrong]}.")
    return Palette(
        path.stem,
        one_line(data["summary"]),
        data["dark"],
        {key: data[key].lower() for key in COLOURS},
        {key: data[key].lower() for key in TONES},
        {key: tuple(colour.lower() for colour in data[key]) for key in LISTS},
    )


def _fits(key: str, value: object) -> bool:
    """Whether a value has the form of its key."""
    if key in ("summary", "dark"):
        return isinstance(value, str if key == "summary" else bool)
    colours = value if key in LISTS and isinstance(value, list) else [value]
    return len(colours) == LISTS.get(key, 1) and all(isinstance(text, str) and _HEX.fullmatch(text) for text in colours)


@cache
def load_themes(folder: Path | None = None) -> tuple[Mapping[str, Palette], tuple[str, ...]]:
    """Read every theme by name (its file's name without .toml); returns a sentence for each file with a problem too.

    Args:
        folder: the user's own themes; one with a shipped theme's name replaces it.
    """
    themes: dict[str, Palette] = {}
    problems: list[str] = []
    for place in (SHIPPED, folder):
        for path in sorted(place.glob("*.toml"), key=lambda p: (p.stem not in _FIRST, p.stem)) if place else ():
            try:
                themes[path.stem] = read_theme(path)
            except UserError as error:
                problems.append(str(error))
    return themes, tuple(problems)
