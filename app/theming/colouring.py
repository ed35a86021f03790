"""The ways in which runs are told apart in the transcript."""

from __future__ import annotations

from typing import Literal, get_args

from .themes import LENGTHS, heat_step

LABEL_STYLES = {
    "identical": "$success",
    "identical, near ties checked": "$success",
    "identical but for near ties": "$warning",
    "same distribution": "$warning",
    "lossy": "$error",
}
"""Colour of a method's label: how far its text may be from the plain method's."""


Way = Literal["cycle", "heat", "underline", "off"]
"""cycle: neighbouring runs differ; heat: by number of tokens; underline: lines and weight instead of colours; off: plain."""

WAYS: tuple[Way, ...] = get_args(Way)


def following(way: Way) -> Way:
    """The way after this one."""
    return WAYS[(WAYS.index(way) + 1) % len(WAYS)]


def effective(way: Way, colourless: bool) -> Way:
    """The way that can be seen: without colours there are only lines and weight."""
    return "underline" if colourless and way in ("cycle", "heat") else way


def style_name(way: Way, shade: int, tokens: int) -> str:
    """Name of the style of a run.

    Args:
        way: as `effective` has it.
        shade: of the run's colour; negative where the pass produced a single token.
        tokens: how many it produced.
    """
    if way == "off":
        return "plain"
    if way == "heat":
        return f"heat-{heat_step(tokens)}"
    if shade < 0:
        return "plain" if shade == -1 else "plain-alt"
    return f"{'line' if way == 'underline' else 'run'}-{shade}"


def legend(way: Way) -> list[tuple[str, str]]:
    """The legend as (text, style) with theme variables."""
    match way:
        case "cycle":
            words = ("one ", "colour ", "one ", "pass")
            return [(word, f"$run-{i} on $run-{i}-tint") for i, word in enumerate(words)]
        case "heat":
            parts = [(f" {length} ", f"$heat-{i} on $heat-{i}-tint") for i, length in enumerate(LENGTHS)]
            return [*parts, (" tokens a pass", "$quiet")]
        case "underline":
            return [("one ", "underline $foreground"), ("line ", "bold $foreground"), ("one pass", "underline $foreground")]
        case "off":
            return []
