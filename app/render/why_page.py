"""The page on speed: why an answer was no faster, each cause with the speed that it would have had without it, and the change
that promises the most."""

from __future__ import annotations

from ..chat.entries import Answer
from ..chat.methods import get_method, hits, right_or_accepted
from ..chat.why import Change, Diagnosis
from ..text.amounts import times
from ..text.cells import one_line
from ..text.charts import bar, percent
from ..text.lines import StyledLine, cut, flowed, line, paragraph, track
from .verdict import against

MOST = 4
"""Causes that are named."""
SCALE = 4.0
"""Times plain's speed at which a bar is full."""
BAR = 12
"""Cells of a bar."""


def why_lines(
    answer: Answer | None, found: Diagnosis | None, cells: int, key: str = "", *, in_force: bool = False
) -> list[StyledLine]:
    """The page.

    Args:
        answer: whose; None if there is none.
        found: what is known of it; None while it is being written.
        key: makes the change.
        in_force: whether the change has been made.
    """
    if answer is None:
        return paragraph("No answer yet. After one, this page says what held it back.", cells, "$quiet")
    if found is None:
        return paragraph("When the answer is complete, this page says what held it back.", cells, "$quiet")
    out: list[StyledLine] = []
    if found.speedup:
        said, style = _compared(found)
        out += flowed(line((said, f"bold ${style}")), cells)
        out += [*(paragraph(_sum(found), cells, "$quiet") if found.cost else []), ()]
    for cause in found.causes[:MOST]:
        out += paragraph(cause.sentence, cells, "$foreground")
        if cause.gain and found.speedup:
            without = found.speedup * cause.gain
            drawn = track(bar(min(1.0, without / SCALE), BAR), BAR, "$quiet")
            out.append(line(("without it ", "$quiet"), *drawn, (f" {without:.1f}×", "bold $foreground")))
        out.append(())
    if not found.causes:
        out += [*paragraph(_without_cause(found), cells, "$foreground"), ()]
    if (change := found.change) is not None:
        out.append(line(("What would help most", "bold $primary")))
        out += paragraph(change.sentence, cells, "$foreground")
        if change.speedup:
            out.append(line(("expected ", "$quiet"), (f"{change.speedup:.1f}× plain", "bold $accent")))
        if in_force:
            out.append(line(("in force from now on", "$quiet")))
        elif change.method and key:
            out += flowed(line((key, "bold $primary"), (" does it, also in the middle of an answer", "$quiet")), cells)
    totals = answer.by_method.get(found.part, answer.totals)
    if any(rates := totals.position_acceptance):
        right = right_or_accepted(answer.label)
        out += [(), line((f"{right.capitalize()} at position n", "bold $primary"))]
        if totals.depth < totals.drafted:
            held, _ = hits(totals, answer.label)
            out += paragraph(f"The tree held the {right} token in {held} passes.", cells, "$foreground")
        room = max(1, cells - 9)
        for at, rate in enumerate(rates[:8], 1):
            out.append(line((f"{at:>2} ", "$quiet"), *track(bar(rate, room), room, "$quiet"), (f"{percent(rate):>5}", "")))
    return [cut(row, cells) for row in out]


def why_text(found: Diagnosis) -> str:
    """A diagnosis as lines of plain text, as `specchat why` prints it."""
    said = [f"{_compared(found)[0]}.", *filter(None, (_sum(found),))] if found.speedup else []
    for cause in found.causes[:MOST]:
        without = f" Without it: {found.speedup * cause.gain:.1f}× plain." if cause.gain and found.speedup else ""
        said.append(f"- {cause.sentence}{without}")
    if found.change is not None:
        expected = f" Expected: {found.change.speedup:.1f}× plain." if found.change.speedup else ""
        said.append(f"What would help most: {found.change.sentence}{expected}")
    return "\n".join(said) or _without_cause(found)


def made(change: Change) -> str:
    """What has been done, once a change is made."""
    if get_method(change.method).plain:
        return f"Now decoding plainly ({change.method})."
    settings = "".join(f", {key}={value}" for key, value in change.settings.items())
    return f"Now decoding with {change.method}{settings}."


def unchanged(found: Diagnosis | None) -> str:
    """Why the key has nothing to change: there is nothing, it takes more than a key, or it has been done."""
    if found is None:
        return "Nothing to change: no answer is complete yet."
    if found.change is None:
        return f"Nothing to change. {found.causes[0].sentence if found.causes else _without_cause(found)}"
    return f"No key can change this: {found.change.sentence}" if not found.change.method else "The change is in force already."


def _compared(found: Diagnosis) -> tuple[str, str]:
    """How fast the answer came, or the part of it that is looked into, and its style."""
    said, style = against(found.speedup)
    return f"{one_line(found.part)}’s part: {said}" if found.part else said[:1].upper() + said[1:], style


def _sum(found: Diagnosis) -> str:
    """Write the sum behind the speedup: tokens of a pass ÷ its cost in plain passes."""
    if not found.cost:
        return ""
    return f"{found.tokens:.2f} tokens ÷ {found.cost:.2f} plain passes = {times(found.speedup)}"


def _without_cause(found: Diagnosis) -> str:
    if found.speedup:
        return "Nothing held it back: this is what the method gives on this text."
    return "Nothing seems to have held it back; what a plain pass takes here is not known."
