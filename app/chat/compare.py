"""Comparison of the answers to one message: their methods, their speeds, and whether the text is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..text.amounts import rate, times
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

EXCERPT = 12
"""Cells of each text that are shown where two differ."""

GAP = 2
"""Cells between two columns."""

NAME, ALIKE = 24, 14
"""Cells that the first and the last column want before figures are left out."""


class StyledPart(NamedTuple):
    """Text of a line, and the name of its style: quiet, badge, chosen, good or doubt."""

    text: str
    style: str


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
        return "unknown", "not finished" if not answer.done or not first.done else "no text to compare"
    shorter = min(len(one), len(other))
    at = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    if (at == len(one) and not first.through) or (at == len(other) and not answer.through):  # stopped before its end
        return "identical", "as far as it goes"
    where = f"from character {at + 1:,}"
    if answer.asked.get("model") == first.asked.get("model"):
        pairs = enumerate(zip(first.log.tokens, answer.log.tokens, strict=False))
        ends = min(len(first.log.tokens), len(answer.log.tokens))
        where = f"from token {next((i for i, (a, b) in pairs if a != b), ends) + 1:,}"
    excerpts = (fit(one_line(text[at : at + 60]), EXCERPT) or "the end" for text in texts)
    return "lossy", f"{where}: {' / '.join(excerpts)}"


def table(answers: Sequence[Answer], current: Answer, cells: int) -> list[list[StyledPart]]:
    """Return the lines of a comparison: a heading, then a line for each answer.

    Args:
        answers: all answers, the reference first.
        current: the one on the screen.
        cells: width of a line. Narrow ones lose columns: tokens first, then tokens a pass, then tokens per second.
    """
    first = answers[0]
    rows = [[badge(answers.index(current), len(answers)), "tokens", "a pass", "tokens/s", "× 1st", ""]]
    marks: list[Mark] = ["reference"]
    for number, answer in enumerate(answers, 1):
        figures = answer.figures
        reference = first.figures
        mark, words = likeness(answer, first)
        comparable = reference.tokens_per_second and not (figures.contended or reference.contended)
        speedup = figures.tokens_per_second / reference.tokens_per_second if comparable else 0.0
        marks.append(mark)
        rows.append(
            [
                f"{'●' if answer is current else ' '} {number}  {name_of(answer)}",
                f"{figures.tokens:,}" if figures.steps else "–",
                f"{figures.tokens_per_step:.2f}" if figures.tokens_per_step else "–",
                rate(figures.tokens_per_second) if figures.tokens_per_second else "–",
                times(speedup) if speedup else "–",
                f"{SIGNS[mark]} {words}",
            ]
        )
    widths = [max(width(row[column]) for row in rows) for column in range(6)]
    columns = [1, 2, 3, 4]
    room = cells - GAP - sum(widths[column] + GAP for column in columns)
    while len(columns) > 1 and room < min(widths[0], NAME) + min(widths[5], ALIKE):
        room += widths[columns.pop(0)] + GAP
    alike = min(widths[5], max(ALIKE, room - widths[0]))
    name = max(1, min(widths[0], room - alike))
    lines = []
    for row, shown, mark in zip(rows, (None, *answers), marks, strict=True):
        style = "chosen" if shown is current else "quiet"
        title = fit(row[0], name)
        figures_text = "".join(" " * GAP + row[column].rjust(widths[column]) for column in columns)
        line = [
            StyledPart(title, style if shown else "badge"),
            StyledPart(" " * (name - width(title)) + figures_text, style),
        ]
        if shown:
            line.append(StyledPart(" " * GAP + fit(row[5], alike), {"identical": "good", "lossy": "doubt"}.get(mark, style)))
        lines.append(line)
    return lines


def badge(at: int, count: int) -> str:
    """Format the number of the variant on the screen: `‹ 2/3 ›` for `at` 1 of 3."""
    return f"‹ {at + 1}/{count} ›"
