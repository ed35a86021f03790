"""The result of an answer, in one line of a fixed form: `2.0× · 4.8 tokens a pass · 267 tokens/s · draft`."""

from __future__ import annotations

from ...errors import counted
from ..chat.entries import Answer, Severity
from ..chat.methods import get_method
from ..text.amounts import rate, times
from ..text.cells import one_line
from ..text.lines import StyledLine, flowed, length

ENDS: dict[Severity, str] = {"information": "quiet", "warning": "warning", "error": "error"}
"""Severity of an answer's end → its style."""

SIGN = " · "
"""Between two parts of the line."""


def verdict(answer: Answer, model: str = "", *, speeds: bool = True) -> StyledLine:
    """Format the line about a finished answer, with the names of its styles (quiet, success, warning, error): an early end, the
    speedup over plain decoding, tokens a pass and a second, methods, the reason if nothing was drafted.

    Args:
        model: name of the model, to be shown; empty to leave it out.
        speeds: whether to show the speeds.
    """
    parts = _parts(answer, model, speeds=speeds)
    return tuple(joined for part in parts for joined in ((SIGN, "quiet"), part))[1:]


def verdict_lines(answer: Answer, cells: int) -> list[StyledLine]:
    """Wrap the line between its parts; below it the reason if the answer was slower than plain decoding."""
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
    """Format the line as plain text."""
    return "".join(text for text, _ in verdict(answer, model))


def against(ratio: float, other: str = "plain") -> tuple[str, str]:
    """Put a ratio of two speeds into words; returns them and their style."""
    style = _style(ratio)
    if style == "success":
        return f"{times(ratio)} faster than {other}", style
    return (f"as fast as {other}", style) if style == "quiet" else (f"slower than {other} ({times(ratio)})", style)


def _style(ratio: float) -> str:
    """Return the style of a speedup. Equal to one decimal counts as equal: measurements repeat no better."""
    rounded = round(ratio, 1)
    if rounded == 1:
        return "quiet"
    return "success" if rounded > 1 else "warning"


def _parts(answer: Answer, model: str, *, speeds: bool) -> StyledLine:
    figures, served = answer.figures, one_line(answer.figures.certainty)
    parts: list[tuple[str, str]] = []
    if answer.reason != "eos" or answer.thinking or not figures.tokens:
        ended = f"{answer.ending.capitalize()}{' in the middle of the thought' * answer.thinking}"
        parts.append((ended, ENDS[answer.severity]))
    if not figures.tokens:
        return tuple(parts)
    if figures.valid is not None:
        parts.append(("✓ matches", "success") if figures.valid else ("✗ does not match the schema", "warning"))
    if speeds:
        if figures.speedup and any(get_method(name).name != "greedy" for name in answer.methods):
            parts.append((times(figures.speedup), _style(figures.speedup)))
        elif figures.contended:
            parts.append(("speedup unknown: the machine was busy", "warning"))
        parts.append((f"{figures.tokens_per_step:.1f} tokens a pass" if figures.steps else "", "quiet"))
        if figures.rested:
            parts.append(("slowed down", "quiet"))
        elif figures.tokens_per_second:
            parts.append((f"{rate(figures.tokens_per_second)} tokens/s", "quiet"))
    parts.append((" on ".join(filter(None, (_methods(answer), one_line(model)))), "quiet"))
    parts.append((f"passes {served}" if served else "", "quiet"))
    parts.append((_undrafted(answer), "quiet"))
    if grammar := answer.totals.grammar:
        parts.append((f"the grammar wrote {grammar:,} of {counted(figures.tokens, 'token')}", "quiet"))
    parts.append((one_line(figures.doubt), "warning"))
    return tuple(part for part in parts if part[0])


def _methods(answer: Answer) -> str:
    """Name the methods; if there are several, with the tokens a pass of each: `greedy 1.0 → draft 8.5`."""
    totals = answer.by_method
    if len(totals) < 2 or not all(part.tokens_per_step for part in totals.values()):
        return one_line(" → ".join(answer.methods)).strip()
    return one_line(" → ".join(f"{name} {part.tokens_per_step:.1f}" for name, part in totals.items()))


def _undrafted(answer: Answer) -> str:
    """Explain why nothing was drafted; empty if something was, and for greedy decoding, which never drafts."""
    figures, methods = answer.figures, [get_method(name) for name in answer.methods]
    if figures.drafted or all(method.name == "greedy" for method in methods):
        return ""
    if figures.certainty:
        return "the server guessed nothing" if figures.certainty == "exact" else "the server does not tell what it guessed"
    if all(method.undrafted for method in methods):
        return methods[0].undrafted
    return figures.why_declined or "nothing to guess from here"
