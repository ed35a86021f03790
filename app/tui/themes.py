"""The colours that the app is drawn in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from ..theming.themes import FEWER, Palette, load_themes


class Themes:
    """Every theme there is, and the one in force."""

    def __init__(self, app: App[Any], folder: Path, first: str) -> None:
        self._app = app
        self.palettes: Mapping[str, Palette]
        self.palettes, self.problems = load_themes(folder)
        for palette in self.palettes.values():
            app.register_theme(textual_theme(palette))
        self.wear(first if first in self.palettes else "dark")

    @property
    def name(self) -> str:
        return self._app.theme

    @property
    def palette(self) -> Palette:
        return self.palettes[self.name]

    def wear(self, name: str) -> None:
        self._app.register_theme(textual_theme(replace(self.shown(name), name=name)))
        self._app.theme = name

    def shown(self, name: str) -> Palette:
        """The theme that stands for one in the colours that this terminal has."""
        palette = self.palettes[name]
        fewer = FEWER.get(self._app.console.color_system or "")
        return palette if fewer is None else self.palettes[fewer[palette.dark]]


def textual_theme(palette: Palette) -> Theme:
    """The colours under Textual's names, and the variables of our style sheets."""
    colours: dict[str, Any] = dict(palette.colours)
    return Theme(name=palette.name, dark=palette.dark, variables=palette.variables(), **colours)


class NoColours(LineFilter):
    """A filter over each row that is drawn, for NO_COLOR: bold, underlined and the like stay, and what stands out by the colour
    behind it is drawn in reverse."""

    def __init__(self, app: App[Any]) -> None:
        super().__init__()
        self._app = app

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        variables = self._app.theme_variables
        pages = tuple(variables[name].lower() for name in ("background", "surface", "panel"))
        return [Segment(text, _colourless(style, pages) if style else style, control) for text, style, control in segments]


@lru_cache(4096)
def _colourless(style: Style, pages: tuple[str, ...]) -> Style:
    behind = style.color if style.reverse else style.bgcolor
    if behind is None or behind.is_default:
        marked = bool(style.reverse)
    else:
        marked = behind.get_truecolor().hex not in pages
    return style.without_color + Style(reverse=marked)
