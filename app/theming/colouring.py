"""The colouring of runs, in the chat, in files and in the shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ..chat.runs import SHADES, WRITTEN
from .themes import LENGTHS, LONGEST, STEPS, heat_step

LABEL_STYLES = {
    "identical": "$success",
    "identical but for near ties": "$warning",
    "same distribution": "$warning",
    "lossy": "$error",
}
"""Label of a method → its colour."""

Colouring = Literal["length", "off", "underline"]
"""length: by tokens a pass; off: plain; underline: lines and weight, for terminals without colours."""

COLOURINGS: tuple[Colouring, ...] = ("length", "off")
"""Colourings that can be chosen."""


class Ink(NamedTuple):
    """The look of a run. Colours are variables of a theme, or their values in it."""

    colour: str
    behind: str = ""
    """Background; empty for the page's."""
    underline: bool = False
    bold: bool = False

    def of(self, variables: Mapping[str, str]) -> Ink:
        """Return the ink in a theme's colours."""
        return self._replace(colour=variables[self.colour], behind=variables[self.behind] if self.behind else "")

    @property
    def dim(self) -> Ink:
        """The ink for a thought."""
        runs = self.colour.startswith(("heat-", "plain"))
        return self._replace(colour=f"{self.colour}-dim" if runs else "quiet")

    @property
    def style(self) -> str:
        """The ink as a style of Textual's content."""
        weight = "bold " * self.bold + "underline " * self.underline
        return f"{weight}${self.colour}" + (f" on ${self.behind}" if self.behind else "")


INKS: Mapping[str, Ink] = {
    "plain": Ink("plain"),
    "plain-written": Ink("quiet"),
    **{f"heat-{step}": Ink(f"heat-{step}", f"heat-{step}-tint") for step in STEPS},
    **{f"heat-{step}-bold": Ink(f"heat-{step}", f"heat-{step}-tint", bold=True) for step in STEPS},
    "line": Ink("foreground", underline=True),
    "line-alt": Ink("foreground", bold=True),
}
"""Every ink by its name, as `ink_name` returns it."""


def parse_colouring(name: str) -> Colouring:
    """Return the colouring that a checked setting names."""
    return next(colouring for colouring in COLOURINGS if colouring == name)


def next_colouring(colouring: Colouring) -> Colouring:
    """Return the colouring after this one; the first follows the last."""
    return COLOURINGS[(COLOURINGS.index(colouring) + 1) % len(COLOURINGS)]


def effective(colouring: Colouring, colourless: bool) -> Colouring:
    """Return the visible colouring: a terminal without colours has only lines and weight."""
    return "underline" if colourless and colouring == "length" else colouring


def ink_name(colouring: Colouring, shade: int, tokens: int) -> str:
    """Return the name of a run's ink.

    Args:
        colouring: the effective colouring.
        shade: the run's shade (`Run.shade`).
        tokens: number of tokens that its pass produced.
    """
    step = heat_step(tokens)
    if shade == WRITTEN:
        return "plain-written" if colouring == "length" else "plain"
    match colouring:
        case "length" if step and shade >= 0:
            return f"heat-{step}-bold" if shade % 2 else f"heat-{step}"
        case "underline" if shade >= 0:
            return "line-alt" if shade % 2 else "line"
        case _:
            return "plain"


def run_inks(colouring: Colouring) -> list[str]:
    """Return the names of the inks that runs can have."""
    names = {ink_name(colouring, shade, tokens) for shade in range(WRITTEN, SHADES) for tokens in range(1, LONGEST + 1)}
    return [name for name in INKS if name in names]


def bar_name(tokens: float) -> str:
    """Return the theme's variable with the colour of a bar for so many tokens a pass."""
    return f"bar-{heat_step(round(tokens))}"


def split_blanks(text: str) -> tuple[str, str, str]:
    """Split a run's text into blanks, text and blanks, which are drawn on the page, so that a gap shows where a run begins."""
    rest = text.lstrip(" ")
    core = rest.rstrip(" ")
    return text[: len(text) - len(rest)], core, rest[len(core) :]


def legend(colouring: Colouring) -> list[tuple[str, str]]:
    """Return the legend: samples with the names of their inks, then words without one (an empty name)."""
    match colouring:
        case "length":
            names = ("plain", *(f"heat-{step}" for step in STEPS))
            return [*((f" {length} ", name) for length, name in zip(LENGTHS, names, strict=True)), (" tokens a pass", "")]
        case "underline":
            return [("tokens of a pass", "line"), (" ", ""), ("of the next", "line-alt")]
        case "off":
            return []


def legend_line(colouring: Colouring) -> list[tuple[str, str]]:
    """Return the legend in the styles of Textual's content."""
    return [(text, INKS[name].style if name else "$quiet") for text, name in legend(colouring)]
