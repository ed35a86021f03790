"""The result of an answer, in one line of a fixed form: `2.0× · 4.8 tokens a pass · 267 tokens/s · draft`."""

from __future__ import annotations

from ...errors import counted
from ..chat.entries import Answer, Severity
from ..chat.methods import get_method
from ..text.amounts import speed_of, times
from ..text.cells import one_line
from ..text.lines import StyledLine, flowed, length

ENDS: dict[Severity, str] = {"information": "quiet", "warning": "warning", "error": "error"}
"""How bad an answer's end is → the style in which it is told."""

SIGN = " · "
"""Between two parts of the line."""


def verdict(answer: Answer, model: str = "", *, speeds: bool = True) -> StyledLine:
    """The line about a finished answer, with the names of its styles (quiet, success, warning, error): how it ended unless by
    itself, how many times as fast as plain decoding it was, tokens a pass and a second, methods, why nothing was drafted.

    Args:
        model: the model's name, where it is to be told.
        speeds: whether to tell how fast it came; not where that is told beside it.
    """
    parts = _parts(answer, model, speeds=speeds)
    return tuple(part for each in parts for part in ((SIGN, "quiet"), each))[1:]


def verdict_lines(answer: Answer, cells: int) -> list[StyledLine]:
    """The line on as many rows as it takes, broken between its parts; below it what made the answer slower than plain decoding,
    if it was."""
    rows: list[StyledLine] = []
    for part in _parts(answer, "", speeds=True):
        if rows and length(rows[-1]) + len(SIGN) + length((part,)) <= cells:
            rows[-1] = (*rows[-1], (SIGN, "quiet"), part)
        else:
            rows += flowed((part,), cells)
    if answer.held_back:
        rows += flowed(((f"{one_line(answer.held_back)} /why says what would help.", "quiet"),), cells)
    return rows


def verdict_text(answer: Answer, model: str = "") -> str:
    """The line as text."""
    return "".join(text for text, _ in verdict(answer, model))


def against(ratio: float, other: str = "plain") -> tuple[str, str]:
    """Put a ratio of two speeds into words; returns them and their style."""
    said, style = times(ratio), _style(ratio)
    if style == "success":
        return f"{said} faster than {other}", style
    return (f"as fast as {other}", style) if style == "quiet" else (f"slower than {other} ({said})", style)


def _style(ratio: float) -> str:
    """Style of a speed beside plain decoding's. What is the same to a decimal is as fast: it repeats no better."""
    near = round(ratio, 1)
    return "success" if near > 1 else "quiet" if near == 1 else "warning"


def _parts(answer: Answer, model: str, *, speeds: bool) -> StyledLine:
    figures, served = answer.figures, one_line(answer.figures.certainty)
    parts: list[tuple[str, str]] = []
    if answer.reason != "eos" or answer.thinking or not figures.tokens:
        ended = f"{answer.ending.capitalize()}{' in the middle of the thought' * answer.thinking}"
        parts.append((ended, ENDS[answer.severity]))
    if not figures.tokens:
        return tuple(parts)
    if answer.valid is not None:
        parts.append(("✓ matches", "success") if answer.valid else ("✗ does not match the schema", "warning"))
    if speeds:
        if figures.speedup and any(get_method(name).name != "greedy" for name in answer.methods):
            parts.append((times(figures.speedup), _style(figures.speedup)))
        elif figures.contended:
            parts.append(("speedup unknown: the machine was busy", "warning"))
        parts.append((f"{figures.tokens_per_step:.1f} tokens a pass" if figures.steps else "", "quiet"))
        speed = "slowed down" if figures.rested else speed_of(figures.tokens_per_second) if figures.tokens_per_second else ""
        parts.append((speed, "quiet"))
    parts.append((" on ".join(filter(None, (_methods(answer), one_line(model)))), "quiet"))
    parts.append((f"passes {served}" if served else "", "quiet"))
    parts.append((_undrafted(answer), "quiet"))
    if figures.grammar:
        parts.append((f"the grammar wrote {figures.grammar:,} of {counted(figures.tokens, 'token')}", "quiet"))
    parts.append((one_line(figures.doubt), "warning"))
    return tuple(part for part in parts if part[0])


def _methods(answer: Answer) -> str:
    """The methods; of several, with what a pass of each gave: `greedy 1.0 → draft 8.5`."""
    totals = answer.by_method
    if len(totals) < 2 or not all(part.tokens_per_step for part in totals.values()):
        return one_line(" → ".join(answer.methods)).strip()
    return one_line(" → ".join(f"{name} {part.tokens_per_step:.1f}" for name, part in totals.items()))


def _undrafted(answer: Answer) -> str:
    """Say why nothing was drafted; empty where something was, and for greedy decoding, which never drafts."""
    figures, methods = answer.figures, [get_method(name) for name in answer.methods]
    if figures.drafted or all(method.name == "greedy" for method in methods):
        return ""
    if figures.certainty:
        return "the server guessed nothing" if figures.certainty == "exact" else "the server does not tell what it guessed"
    if figures.why_declined:
        return figures.why_declined
    if all(method.undrafted for method in methods):
        return " or ".join(dict.fromkeys(method.undrafted for method in methods))
    return "nothing to guess from here" if any(method.group == "text" for method in methods) else "no guess would pay here"
