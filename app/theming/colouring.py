"""The ways of colouring runs, and how a run looks in each: in the chat, in files and in the shell."""

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
"""Colour of a method's label: how far its text may be from the plain method's."""

Colouring = Literal["length", "off", "underline"]
"""length: by tokens per pass; off: plain; underline: lines and weight, where there are no colours."""

WAYS: tuple[Colouring, ...] = ("length", "off")
"""The ways that can be chosen."""


class Ink(NamedTuple):
    """How a run is drawn. Colours are variables of the theme, or what they stand for in it."""

    colour: str
    behind: str = ""
    """Empty for the page."""
    underline: bool = False
    bold: bool = False

    def of(self, variables: Mapping[str, str]) -> Ink:
        """The ink in a theme's colours."""
        return self._replace(colour=variables[self.colour], behind=variables[self.behind] if self.behind else "")

    @property
    def dim(self) -> Ink:
        """The ink in a thought."""
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
"""Every ink by its name, as `ink_name` gives it."""


def way_named(colours: str) -> Colouring:
    """The way that a setting names, which is checked already."""
    return next(way for way in WAYS if way == colours)


def following(way: Colouring) -> Colouring:
    """The way after this one."""
    return WAYS[(WAYS.index(way) + 1) % len(WAYS)]


def effective(way: Colouring, colourless: bool) -> Colouring:
    """The way that can be seen: without colours there are only lines and weight."""
    return "underline" if colourless and way == "length" else way


def ink_name(way: Colouring, shade: int, tokens: int) -> str:
    """Name of a run's ink.

    Args:
        way: as `effective` has it.
        shade: of the run, which a neighbour that it touches does not have; negative where the pass produced a single token,
            WRITTEN where a constraint wrote it without one.
        tokens: how many it produced.
    """
    step = heat_step(tokens)
    if shade == WRITTEN:
        return "plain-written" if way == "length" else "plain"
    match way:
        case "length" if step and shade >= 0:
            return f"heat-{step}-bold" if shade % 2 else f"heat-{step}"
        case "underline" if shade >= 0:
            return "line-alt" if shade % 2 else "line"
        case _:
            return "plain"


def inks_of(way: Colouring) -> list[str]:
    """Names of the inks that runs can have."""
    found = {ink_name(way, shade, tokens) for shade in range(WRITTEN, SHADES) for tokens in range(1, LONGEST + 1)}
    return [name for name in INKS if name in found]


def bar_name(tokens: float) -> str:
    """The colour of a bar that stands for so many tokens a pass, as a variable of the theme."""
    return f"bar-{heat_step(round(tokens))}"


def bared(text: str) -> tuple[str, str, str]:
    """Blanks, the text of a run, blanks. Blanks are drawn on the page, so that a gap shows where a run begins."""
    rest = text.lstrip(" ")
    core = rest.rstrip(" ")
    return text[: len(text) - len(rest)], core, rest[len(core) :]


def legend(way: Colouring) -> list[tuple[str, str]]:
    """What the colours mean: samples, each with the name of its ink, then words in no ink (an empty name)."""
    match way:
        case "length":
            names = ("plain", *(f"heat-{step}" for step in STEPS))
            return [*((f" {length} ", name) for length, name in zip(LENGTHS, names, strict=True)), (" tokens a pass", "")]
        case "underline":
            return [("tokens of a pass", "line"), (" ", ""), ("of the next", "line-alt")]
        case "off":
            return []


def legend_line(way: Colouring) -> list[tuple[str, str]]:
    """The legend in the styles of Textual's content."""
    return [(text, INKS[name].style if name else "$quiet") for text, name in legend(way)]
