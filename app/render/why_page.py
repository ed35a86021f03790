"""The page on speed: the causes that held an answer back, each with the speed without it, and the most promising change."""

from __future__ import annotations

from ..chat.entries import Answer
from ..chat.methods import hits, right_or_accepted
from ..chat.why import Change, Diagnosis
from ..text.amounts import times
from ..text.cells import one_line
from ..text.charts import bar
from ..text.lines import StyledLine, cut, flowed, line, paragraph, track
from .numbers_page import positions
from .verdict import against

MOST = 4
"""Most causes that are shown."""
SCALE = 4.0
"""Speedup of a full bar."""
BAR = 12
"""Cells of a bar."""
SHELL_CELLS = 100
"""Width of the lines of `specchat why`."""


def why_lines(
    answer: Answer | None, diagnosis: Diagnosis | None, cells: int, key: str = "", *, in_force: bool = False
) -> list[StyledLine]:
    """Lay out the page.

    Args:
        answer: the answer; None if there is none.
        diagnosis: its diagnosis; None while it is being written.
        key: the key that makes the change.
        in_force: whether the change has been made.
    """
    if answer is None or diagnosis is None:
        return paragraph("When an answer is complete, this page says what held it back.", cells, "$quiet")
    out = _causes(diagnosis, cells)
    if diagnosis.change is not None and in_force:
        out.append(line(("in force from now on", "$quiet")))
    elif diagnosis.change is not None and diagnosis.change.method and key:
        out += flowed(line((key, "bold $primary"), (" does it, also in the middle of an answer", "$quiet")), cells)
    totals = answer.by_method.get(diagnosis.part, answer.totals)
    if any(rates := totals.position_acceptance):
        right = right_or_accepted(answer.label)
        out += [(), line((f"{right.capitalize()} at position n", "bold $primary"))]
        if totals.depth < totals.drafted:
            held, _ = hits(totals, answer.label)
            out += paragraph(f"The tree held the {right} token in {held} passes.", cells, "$foreground")
        out += positions(rates[:8], cells - 1)
    return [cut(row, cells) for row in out]


def why_text(diagnosis: Diagnosis) -> str:
    """Format a diagnosis as lines of plain text, for `specchat why`."""
    return "\n".join("".join(text for text, _ in row) for row in _causes(diagnosis, SHELL_CELLS)).rstrip()


def _causes(diagnosis: Diagnosis, cells: int) -> list[StyledLine]:
    """Lay out the speedup, the causes, each with the speed without it, and the most promising change."""
    out: list[StyledLine] = []
    if diagnosis.speedup:
        words, style = against(diagnosis.speedup)
        words = f"{one_line(diagnosis.part)}’s part: {words}" if diagnosis.part else words[:1].upper() + words[1:]
        out += flowed(line((words, f"bold ${style}")), cells)
        if diagnosis.cost:
            quotient = f"{diagnosis.tokens:.2f} tokens ÷ {diagnosis.cost:.2f} plain passes = {times(diagnosis.speedup)}"
            out += paragraph(quotient, cells, "$quiet")
        out.append(())
    for cause in diagnosis.causes[:MOST]:
        out += paragraph(cause.sentence, cells, "$foreground")
        if cause.gain and diagnosis.speedup:
            without = diagnosis.speedup * cause.gain
            bar_line = track(bar(min(1.0, without / SCALE), BAR), BAR, "$quiet")
            out.append(line(("without it ", "$quiet"), *bar_line, (f" {without:.1f}×", "bold $foreground")))
        out.append(())
    if not diagnosis.causes:
        out += [*paragraph(_without_cause(diagnosis), cells, "$foreground"), ()]
    if (change := diagnosis.change) is not None:
        out.append(line(("What would help most", "bold $primary")))
        out += paragraph(change.sentence, cells, "$foreground")
        if change.speedup:
            out.append(line(("expected ", "$quiet"), (f"{change.speedup:.1f}× plain", "bold $accent")))
    return out


def change_notice(change: Change) -> str:
    """Report a change that was made."""
    settings = "".join(f", {key}={value}" for key, value in change.settings.items())
    return f"Now decoding with {change.method}{settings}."


def no_change_notice(diagnosis: Diagnosis | None) -> str:
    """Explain why the key changes nothing: there is nothing to change, it takes more than a key, or it has been done."""
    if diagnosis is None:
        return "Nothing to change: no answer is complete yet."
    if diagnosis.change is None:
        return f"Nothing to change. {diagnosis.causes[0].sentence if diagnosis.causes else _without_cause(diagnosis)}"
    return "The change is in force already." if diagnosis.change.method else diagnosis.change.sentence


def _without_cause(diagnosis: Diagnosis) -> str:
    if diagnosis.speedup:
        return "Nothing held it back: this is what the method gives on this text."
    return "Nothing seems to have held it back; what a plain pass takes here is not known."
