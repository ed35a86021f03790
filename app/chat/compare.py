"""Comparison of the answers to one message: their methods, their speeds, and whether the text is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

WHO, ALIKE = 24, 14
"""Cells that the first and the last column want before figures are left out."""


class StyledPart(NamedTuple):
    """Text of a line, and the name of its style: quiet, badge, chosen, good or doubt."""

    text: str
    style: str


@dataclass(frozen=True, slots=True)
class Likeness:
    """Result of comparing an answer's text with the first answer's."""

    mark: Mark
    words: str
    """The result in words: `identical`, or the place of the first difference."""


def name_of(answer: Answer, among: Sequence[Answer] = ()) -> str:
    """Name an answer by its methods and their settings; its temperature, seed and model only if `among` differ in them."""
    settings = " ".join(f"{key}={value}" for key, value in answer.asked.get("settings", {}).items())
    parts = [" → ".join(answer.methods) or answer.method, settings]
    compared = [other for other in among if other.asked]
    if answer.asked:
        temperature = _sampling(answer, "temperature")
        if len({_sampling(other, "temperature") for other in compared}) > 1:
            parts.append(f"temp {temperature:g}")
        # Without a temperature a seed has no effect.
        if temperature and len({_sampling(other, "seed") for other in compared}) > 1:
            parts.append(f"seed {_sampling(answer, 'seed'):.0f}")
        if len({other.asked.get("model") for other in compared}) > 1:
            parts.append(f"on {answer.asked.get('model')}")
    return one_line(" ".join(part for part in parts if part))


def _sampling(answer: Answer, name: str) -> float:
    value = answer.asked.get("sampling", {}).get(name)
    return value if isinstance(value, int | float) else 0


def likeness(answer: Answer, first: Answer) -> Likeness:
    """Compare an answer's text with the first one's."""
    if answer is first:
        return Likeness("reference", "")
    texts = first.all_text, answer.all_text
    one, other = texts
    if one == other and first.through == answer.through:
        return Likeness("identical", "identical")
    if not answer.done or not first.done or not one or not other:
        return Likeness("unknown", "not finished" if not answer.done or not first.done else "no text to compare")
    shorter = min(len(one), len(other))
    at = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    cut = (at == len(one) and not first.through) or (at == len(other) and not answer.through)
    if cut:  # it was stopped before its end
        return Likeness("identical", "as far as it goes")
    where = f"from token {token + 1:,}" if (token := _token(answer, first)) is not None else f"from character {at + 1:,}"
    excerpts = (fit(one_line(text[at : at + 60]), EXCERPT) or "the end" for text in texts)
    return Likeness("lossy", f"{where}: {' / '.join(excerpts)}")


def _token(answer: Answer, first: Answer) -> int | None:
    """Return the index of the first token that differs; None if none does, or the models differ."""
    if answer.asked.get("model") != first.asked.get("model"):
        return None
    one, other = first.log.tokens, answer.log.tokens
    common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return common if common < max(len(one), len(other)) else None


def table(answers: Sequence[Answer], current: Answer, cells: int) -> list[list[StyledPart]]:
    """Return the lines of a comparison: a heading, then a line for each answer.

    Args:
        answers: all answers, the reference first.
        current: the one on the screen.
        cells: width of a line. Narrow ones lose columns: tokens first, then tokens a pass, then tokens per second.
    """
    at = next(i for i, answer in enumerate(answers) if answer is current)
    first = answers[0]
    rows = [[badge(at, len(answers)), "tokens", "a pass", "tokens/s", "× 1st", ""]]
    alike = [likeness(answer, first) for answer in answers]
    reference = first.figures
    for number, (answer, like) in enumerate(zip(answers, alike, strict=True)):
        figures = answer.figures
        comparable = reference.tokens_per_second and not (figures.contended or reference.contended)
        speedup = figures.tokens_per_second / reference.tokens_per_second if comparable else 0.0
        rows.append(
            [
                f"{'●' if number == at else ' '} {number + 1}  {name_of(answer, answers)}",
                f"{figures.tokens:,}" if figures.steps else "–",
                f"{figures.tokens_per_step:.2f}" if figures.tokens_per_step else "–",
                rate(figures.tokens_per_second) if figures.tokens_per_second else "–",
                times(speedup) if speedup else "–",
                f"{SIGNS[like.mark]} {like.words or like.mark}",
            ]
        )
    wide = [max(width(row[column]) for row in rows) for column in range(6)]
    columns = [0, 1, 2, 3, 4, 5]
    for spare in (1, 2, 3):
        fixed = sum(wide[column] + GAP for column in columns[1:-1])
        if min(wide[0], WHO) + fixed + GAP + min(wide[5], ALIKE) <= cells:
            break
        columns.remove(spare)
    room = cells - sum(wide[column] + GAP for column in columns[1:-1]) - GAP
    wide[5] = min(wide[5], max(ALIKE, room - wide[0]))
    wide[0] = max(1, min(wide[0], room - wide[5]))
    out = []
    for number, row in enumerate(rows):
        style = "chosen" if number - 1 == at else "quiet"
        who = fit(row[0], wide[0])
        figures_of = "".join(" " * GAP + row[column].rjust(wide[column]) for column in columns[1:-1])
        parts = [StyledPart(who, style if number else "badge"), StyledPart(" " * (wide[0] - width(who)) + figures_of, style)]
        if number:
            like_style = {"identical": "good", "lossy": "doubt"}.get(alike[number - 1].mark, style)
            parts.append(StyledPart(" " * GAP + fit(row[5], wide[5]), like_style))
        out.append(parts)
    return out


def badge(at: int, count: int) -> str:
    """Format the number of the variant on the screen: `‹ 2/3 ›` for `at` 1 of 3."""
    return f"‹ {at + 1}/{count} ›"
