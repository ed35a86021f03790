"""The tree page: one step's token tree with the accepted path highlighted, and the step's costs."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.messages import StepRecord
from ..chat.entries import Answer
from ..chat.runs import Pieces
from ..text.cells import fit, one_line
from ..text.charts import bar, percent
from ..text.lines import StyledLine, ends, length, line, paragraph, track
from ..theming.colouring import INKS, Colouring, ink_name
from .inspection import beam_sentence, costs, counts, dotted, heading, shares
from .runs import RUNS_READ, best_example
from .tree_rows import SIGNS, Role, StepTree, TreeRow, tree_rows, visible

BAR_CELLS = 8
"""Cells of a probability's bar."""

LEAST_SHOWN = 0.01
"""Smallest probability with a bar."""

BAR_FROM = 42
"""Least width of a page with bars."""

ROLES: dict[Role, str] = {
    "guide": "$faint",
    "cross": "bold $error",
    "pending": "$foreground",
    "open": "$foreground",
    "branch": "$quiet",
    "fold": "italic $quiet",
}
"""Styles outside of the accepted path, which has the colour of its run."""

LEAST_FOR_NOTE = 8
"""Least height of a page with the drafter's note."""

PROMPT = "⟨prompt⟩"
"""Placeholder for the prompt's last token, which no step has."""

LEGEND: tuple[tuple[str, Role, str], ...] = (
    ("●", "trunk", "last token"),
    ("┃", "trunk", "accepted"),
    ("×", "cross", "rejected"),
    ("┗", "trunk", "chosen"),
)
BEAM_LEGEND: tuple[tuple[str, Role, str], ...] = (
    LEGEND[0],
    ("┃", "trunk", "certain"),
    ("×", "cross", "given up"),
    ("─", "guide", "open"),
)
"""Signs, their places in the tree, and their meanings."""


def tree_lines(
    answer: Answer | None,
    index: int | None,
    pieces: Pieces,
    cells: int,
    height: int,
    *,
    colouring: Colouring = "length",
    paused: bool = False,
    keys: str = "",
    scoring: bool = False,
) -> list[StyledLine]:
    """Lay out the page.

    Args:
        answer: the answer; None if there is none.
        index: the selected run of the answer; the last step if None.
        pieces: token texts of the model.
        height: rows of the page, all of which the tree may take.
        colouring: the transcript's colouring in effect: the path looks like its run there.
        paused: whether the answer is paused between two steps.
        keys: keys that continue a paused answer, such as "F9 one pass".
        scoring: whether the step's probabilities are being computed.
    """
    if answer is None or not len(answer.log):
        return _nothing(answer, cells, paused=paused, keys=keys)
    step = choose_step(answer, index)
    record = answer.log.record(step)
    pending = answer.log.record(step - 1).tokens[-1:] if step else []
    tree = StepTree.of(record, pending[0] if pending else -1)
    run = answer.runs[step]
    path_style, trunk = _path_styles(ink_name(colouring, run.shade, run.together))

    out = _head(answer, step, cells, selected=index is not None, paused=paused, keys=keys)
    if answer.figures.certainty:
        out += [(), *paragraph("A server sends text, not what it drafted: there is no tree to show.", cells, "$quiet")]
        return out[:height]
    if scoring:
        out[-1] = ends(out[-1], line(("… %", "$accent")), cells)
    if record.note:
        note = paragraph(one_line(record.note), cells, "italic $accent")
        out += note[: 2 if height >= LEAST_FOR_NOTE else 0]
    if height - len(out) >= 12:
        out.append(())
    if tree.beams is None and (record.earlier or not record.tokens):
        out += paragraph(beam_sentence(record), cells, "$foreground")
        out += [(), *paragraph(" ".join(visible(pieces.text(token)) for token in record.tokens), cells, path_style)]
        return out[:height]
    path_style = f"bold {path_style}"
    styles: dict[Role, str] = {**ROLES, "trunk": f"bold {trunk}", "path": path_style, "choice": path_style}
    foot = _foot(tree, record, cells, styles)
    room = height - len(out)
    tight = room < 10 + len(foot)
    side = (5 + (BAR_CELLS + 1 if cells >= BAR_FROM else 0)) if tree.probs else 0  # for probabilities, on the right

    def piece(token: int) -> str:
        return PROMPT if token < 0 else pieces.text(token)

    rows = tree_rows(tree, piece, cells - side, max(3, room if tight else room - len(foot)))
    out += [_row(row, cells, side, styles, trunk) for row in rows]
    if not record.tree_tokens and (hidden := record.nodes - len(tree.tokens)) > 0:
        out.append(line((fit(f"   … {hidden} more nodes that are not guesses", cells), "italic $quiet")))
    if not tight:
        out += foot
    return out


def choose_step(answer: Answer, index: int | None) -> int:
    """Return the step of run number `index`; without one the last step, of a finished answer the best example."""
    last = len(answer.log) - 1
    if index is None and answer.done:
        index = best_example(answer, range(max(0, last + 1 - RUNS_READ), last + 1))
    return last if index is None else min(index, last)


def _path_styles(name: str) -> tuple[str, str]:
    """Return the styles of the path's tokens and of its line, from the name of their run's ink."""
    ink = INKS[name]
    return ink.style, f"${ink.colour}" if ink.behind else "$primary"


def _nothing(answer: Answer | None, cells: int, *, paused: bool, keys: str) -> list[StyledLine]:
    if paused and answer is not None and not answer.done:
        return paragraph(f"Paused before the first pass: {keys}.", cells, "$accent")
    if answer is not None and answer.done:
        return paragraph("No pass of this answer is known.", cells, "$quiet")
    return [
        *paragraph(
            "Each pass of an answer appears here as a tree: what was drafted, and what the model accepted.", cells, "$quiet"
        ),
        (),
        *paragraph(f"To follow a method pass by pass: {keys}." if keys else "", cells, "$quiet"),
    ]


def _head(answer: Answer, step: int, cells: int, *, selected: bool, paused: bool, keys: str) -> list[StyledLine]:
    record = answer.log.record(step)
    name = heading(answer, step)
    state: StyledLine = ()
    if selected:
        state = (("selected", "$accent"),)
    elif paused:
        state = (("‖ ", "bold $accent"), (keys if length(name) + len(keys) + 3 <= cells else "paused", "$accent"))
    figures = dotted(*counts(record), *costs(answer, record), sign="  ")
    return [ends(name, state, cells), ends(figures, shares(record) if length(figures) else (), cells)]


def _row(row: TreeRow, cells: int, side: int, styles: Mapping[Role, str], trunk: str) -> StyledLine:
    """Lay out a row of the tree, with its probability at the right."""
    left = tuple((span.text, styles[span.role]) for span in row.spans)
    if not side or row.prob is None:
        return left
    accepted = any(span.role in ("path", "choice", "open") for span in row.spans)
    gap = cells - side - length(left)
    filled = bar(row.prob, BAR_CELLS) if row.prob >= LEAST_SHOWN else ""
    bar_line = track(filled, BAR_CELLS, trunk if accepted else "$quiet") if side > 5 else ()
    number = (f"{percent(row.prob):>5}", "$foreground" if accepted else "$quiet")
    return (*left, (" " * (gap + (side > 5)), ""), *bar_line, number)


def _foot(tree: StepTree, record: StepRecord, cells: int, styles: Mapping[Role, str]) -> list[StyledLine]:
    """Lay out the legend in the styles of the tree."""
    out: list[StyledLine] = [()]
    shares = [*(f" {percent(share)}" for share in record.shares), *[""] * len(record.drafters)]
    grown_by = zip(SIGNS, record.drafters, shares, strict=False) if tree.sources else ()
    drafters = ((sign, "$foreground", one_line(name) + share) for sign, name, share in grown_by)
    signs = ((sign, styles[role], meaning) for sign, role, meaning in (LEGEND if tree.beams is None else BEAM_LEGEND))
    for sign, style, meaning in (*signs, *drafters):
        entry = ((sign, style), (f" {meaning}", "$quiet"))
        if out[-1] and length(out[-1]) + 2 + length(entry) <= cells:
            out[-1] = (*out[-1], ("  ", ""), *entry)
        else:
            out.append(entry)
    if tree.probs and len(tree.tokens) > 1:
        plain = "%: how probable the model finds the token; for a rejected branch, its first."
        out += paragraph(plain if tree.beams is None else "%: how probable a text is among the open ones.", cells, "$quiet")
    return out
