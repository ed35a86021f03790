"""The colours that the app is drawn in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App
from textual.theme import Theme

from ..theming.themes import Palette, load_themes


class Themes:
    """Every theme there is, and the one in force.

    Args:
        app: what they are for.
        folder: of the user's own themes.
        first: name of the one to begin with; dark if there is none of that name.
    """

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
        """Draw everything in a theme's colours."""
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
