"""A theme as Textual takes it."""

from __future__ import annotations

from typing import Any

from textual.theme import Theme

from ..theming.themes import Palette


def textual_theme(palette: Palette) -> Theme:
    """The colours under Textual's names, and the variables of our style sheets."""
    colours: dict[str, Any] = dict(palette.colours)
    return Theme(name=palette.name, dark=palette.dark, variables=palette.variables(), **colours)
