"""Colour themes: TOML files that ship in `themes/`, and the user's own in the config folder."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.base import UserError

if TYPE_CHECKING:
    from textual.theme import Theme

SHIPPED = Path(__file__).resolve().parent.parent / "themes"

COLOURS = (
    *("primary", "secondary", "accent", "foreground", "background", "surface", "panel"),
    *("success", "warning", "error"),
)
"""What a theme must give; each `#rrggbb`."""

_HEX = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Palette:
    """One theme as its file has it."""

    name: str
    dark: bool
    colours: Mapping[str, str]
    runs: tuple[str, ...]
    """Text colours of runs, in turn."""
    tint: float
    """Share of a run's colour in the background behind it, 0 to 1."""

    def behind(self, run: int) -> str:
        """Background of a run."""
        return blend(self.colours["background"], self.runs[run % len(self.runs)], self.tint)

    def theme(self) -> Theme:
        """The theme as Textual takes it. Run colours become the variables $run-0, $run-0-tint, and so on."""
        from textual.theme import Theme

        page, ink = self.colours["background"], self.colours["foreground"]
        variables = {
            "quiet": blend(page, ink, 0.70),
            "faint": blend(page, ink, 0.48),
            "line": blend(page, ink, 0.14),
            "plain": ink,
            "plain-alt": blend(page, ink, 0.80),
            "border": blend(page, self.colours["primary"], 0.55),
            "border-blurred": blend(page, ink, 0.20),
            "scrollbar": blend(page, ink, 0.20),
            "scrollbar-hover": blend(page, ink, 0.32),
            "scrollbar-active": self.colours["primary"],
            "scrollbar-background": page,
            "scrollbar-background-hover": page,
            "scrollbar-background-active": page,
            "scrollbar-corner-color": page,
            "input-cursor-background": self.colours["primary"],
            "input-cursor-foreground": page,
            "input-cursor-text-style": "none",
            "input-selection-background": blend(page, self.colours["primary"], 0.35),
            "screen-selection-background": blend(page, self.colours["primary"], 0.35),
            "block-cursor-background": blend(page, self.colours["primary"], 0.22),
            "block-cursor-foreground": ink,
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": blend(page, ink, 0.10),
            "block-cursor-blurred-foreground": ink,
        }
        for i, colour in enumerate(self.runs):
            variables[f"run-{i}"] = colour
            variables[f"run-{i}-tint"] = self.behind(i)
        colours: dict[str, Any] = dict(self.colours)
        return Theme(name=self.name, dark=self.dark, variables=variables, **colours)


def blend(base: str, over: str, share: float) -> str:
    """The colour between two, `share` of the way from `base` to `over`."""
    pairs = zip(_rgb(base), _rgb(over), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, 1 to 21 (WCAG 2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    channels = (value / 255 for value in _rgb(colour))
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def read_theme(path: Path) -> Palette:
    """The theme in a file.

    Raises:
        UserError: the file cannot be read or lacks something; names it and what to do.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The theme {path} cannot be read ({error.strerror}): make it a readable file.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"The theme {path} is not TOML ({error}): mend it or delete it.") from None
    return _checked(path, data)


def _checked(path: Path, data: dict[str, Any]) -> Palette:
    def refuse(what: str) -> UserError:
        return UserError(f"The theme {path} {what}.")

    for key in COLOURS:
        if not isinstance(data.get(key), str) or not _HEX.fullmatch(data[key]):
            raise refuse(f'needs {key} = "#rrggbb"' + (f", not {data[key]!r}" if key in data else ""))
    runs = data.get("runs")
    if not isinstance(runs, list) or len(runs) < 2 or not all(isinstance(r, str) and _HEX.fullmatch(r) for r in runs):
        raise refuse('needs runs = ["#rrggbb", …] with at least two colours')
    tint = data.get("tint", 0.14)
    if isinstance(tint, bool) or not isinstance(tint, int | float) or not 0 <= tint <= 1:
        raise refuse(f"has tint = {tint!r}: it must be between 0 and 1")
    colours = {key: data[key].lower() for key in COLOURS}
    return Palette(path.stem, bool(data.get("dark", True)), colours, tuple(runs), float(tint))


@cache
def load_themes(folder: Path | None = None) -> tuple[Mapping[str, Palette], tuple[str, ...]]:
    """Every theme by name (its file's name without .toml), and a sentence for each file that could not be used.

    Args:
        folder: the user's own themes; one with a shipped theme's name replaces it.
    """
    found: dict[str, Palette] = {}
    wrong: list[str] = []
    for place in (SHIPPED, folder):
        for path in sorted(place.glob("*.toml")) if place else ():
            try:
                found[path.stem] = read_theme(path)
            except UserError as error:
                wrong.append(str(error))
    return found, tuple(wrong)
