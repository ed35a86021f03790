"""The colours that the app is drawn in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from ..theming.colours import contrast
from ..theming.themes import Palette, load_themes


class Themes:
    """Every theme there is, and the one in force."""

    def __init__(self, app: App[Any], folder: Path, first: str) -> None:
        self._app = app
        self.palettes: Mapping[str, Palette]
        self.palettes, self.problems = load_themes(folder)
        self._shown: dict[str, Palette] = {}
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
        shown = self.shown(name)
        if shown is not self.palettes[name]:
            self._app.register_theme(textual_theme(shown))
        self._app.theme = name

    def shown(self, name: str) -> Palette:
        """A theme in the colours that this terminal has."""
        if name not in self._shown:
            palette = self.palettes[name]
            match self._app.console.color_system:
                case "256":
                    from ..theming.few_colours import reduced

                    palette = reduced(palette)
                case "standard" | "windows":
                    from ..theming.sixteen_colours import sixteen

                    palette = sixteen(palette)
            self._shown[name] = palette
        return self._shown[name]


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
        colours = self._app.theme_variables
        page, most = colours["background"], contrast(colours["background"], colours["panel"])
        return [Segment(text, _colourless(style, page, most) if style else style, control) for text, style, control in segments]


@lru_cache(4096)
def _colourless(style: Style, page: str, most: float) -> Style:
    behind = style.color if style.reverse else style.bgcolor
    if behind is None or behind.is_default:
        marked = bool(style.reverse)
    else:
        marked = contrast(page, behind.get_truecolor().hex) > most
    return style.without_color + Style(reverse=marked)
