"""Comparison of the answers to one message: their methods, their speeds, and whether the text is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..text.amounts import times
from ..text.cells import fit, one_line, width
from .entries import Answer

Mark = Literal["reference", "identical", "near tie", "lossy", "another model", "unknown"]
"""Result of comparing a lane's tokens with those of the first lane of its model. `unknown`: one of the two is not far enough.
`another model`: the first lane of a model that is not the first lane's, which is compared with none."""
SIGNS: dict[Mark, str] = {
    "reference": "·",
    "identical": "≡",
    "near tie": "≈",
    "lossy": "≠",
    "another model": "○",
    "unknown": "?",
}
"""Mark → its sign."""

GAP = "   "


def name_of(answer: Answer) -> str:
    """Name an answer by its methods, the settings of the first, and its temperature and seed if it has one."""
    settings = [f"{key}={value}" for key, value in answer.asked.get("settings", {}).items()]
    sampling = answer.asked.get("sampling", {})
    if temperature := sampling.get("temperature"):
        settings.append(f"temp {temperature:g} seed {sampling.get('seed', 0)}")
    return one_line(" ".join((" → ".join(answer.methods) or answer.method, *settings)))


def likeness(answer: Answer, first: Answer) -> tuple[Mark, str]:
    """Compare an answer's text with the first one's; returns the result and its words, such as the first difference."""
    if answer is first:
        return "reference", "reference"
    texts = first.all_text, answer.all_text
    one, other = texts
    if one == other and first.through == answer.through:
        return "identical", "identical"
    if not answer.done or not first.done or not one or not other:
        return "unknown", "not finished"
    shorter = min(len(one), len(other))
    at = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    if (at == len(one) and not first.through) or (at == len(other) and not answer.through):  # stopped before its end
        return "identical", "as far as it goes"
    excerpts = (fit(one_line(text[at : at + 60]), 12) or "the end" for text in texts)
    return "lossy", f"from character {at + 1:,}: {' / '.join(excerpts)}"


def comparison(answers: Sequence[Answer], current: Answer, cells: int) -> list[tuple[str, str]]:
    """Return the line that compares an answer with the first one of its variants: its number, its name, how many times as fast
    it was, and whether its text is the same; each with its style: badge, chosen, good, doubt or quiet."""
    first = answers[0]
    number = badge(answers.index(current), len(answers))
    mark, words = likeness(current, first)
    parts = [f"{SIGNS[mark]} {words}"]
    reference = first.figures.tokens_per_second
    if current is not first and reference and not (current.figures.contended or first.figures.contended):
        parts.insert(0, f"{times(current.figures.tokens_per_second / reference)} the first")
    result = fit(GAP.join(parts), max(0, cells - width(number) - 2 * len(GAP)))
    name = fit(name_of(current), max(0, cells - width(number) - width(result) - 2 * len(GAP)))
    style = {"identical": "good", "lossy": "doubt"}.get(mark, "quiet")
    return [(number, "badge"), (f"{GAP}{name}{GAP}", "chosen"), (result, style)]


def badge(at: int, count: int) -> str:
    """Format the number of the variant on the screen: `‹ 2/3 ›` for `at` 1 of 3."""
    return f"‹ {at + 1}/{count} ›"
