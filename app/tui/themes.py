"""Colour themes for Textual, and a filter that leaves colours out."""

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
    """All themes, and the one in force."""

    def __init__(self, app: App[Any], folder: Path, first: str) -> None:
        self._app = app
        palettes, problems = load_themes(folder)
        self.palettes: Mapping[str, Palette] = palettes
        self.problems = problems
        for palette in palettes.values():
            app.register_theme(textual_theme(palette))
        self.use(first if first in palettes else "dark")

    @property
    def name(self) -> str:
        return self._app.theme

    @property
    def palette(self) -> Palette:
        return self.palettes[self.name]

    def use(self, name: str) -> None:
        self._app.register_theme(textual_theme(replace(self.palette_for(name), name=name)))
        self._app.theme = name

    def palette_for(self, name: str) -> Palette:
        """Find a theme's palette for the number of colours of this terminal."""
        palette = self.palettes[name]
        fewer = FEWER.get(self._app.console.color_system or "")
        return palette if fewer is None else self.palettes[fewer[palette.dark]]


def textual_theme(palette: Palette) -> Theme:
    """Convert a palette: colours under Textual's names, and the variables of our style sheets."""
    colours: Any = palette.colours  # by the names of Textual's parameters
    return Theme(name=palette.name, dark=palette.dark, variables=palette.variables(), **colours)


class NoColours(LineFilter):
    """A filter of drawn rows for NO_COLOR: bold, underline and the like stay; a colour behind text becomes reverse video."""

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
        reverse = bool(style.reverse)
    else:
        reverse = behind.get_truecolor().hex not in pages
    return style.without_color + Style(reverse=reverse)
