"""The rows of each run, the run at a row, and a run's neighbours. All work on the view's blocks by bisection: a move costs the
same in a long chat as in a short one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..chat.entries import Answer
from ..text.cells import width
from .blocks import EntryBlock, TextRow


class RunSpot(NamedTuple):
    """A run: the number of its block, and its index in the answer's runs."""

    block: int
    run: int


class Place(NamedTuple):
    """Rows of a block that show a run, and the cell where it begins in the first of them."""

    first: int
    last: int
    cell: int
    visible: bool = True
    """False for a run of blanks and line breaks alone, which would come after the text of the row."""


def spans(row: TextRow) -> Iterator[tuple[int, int, int]]:
    """Yield begin and end (in cells) and the run of each piece in an answer's row, without marks."""
    cell = 0
    for text, run in row.pieces:
        end = cell + width(text)
        if run >= 0:
            yield cell, end, run
        cell = end


def run_at(block: EntryBlock, row: int, cell: int) -> int | None:
    """Return the run at a cell of a row; None if there is none."""
    text_row = block.row(row)
    if text_row.kind != "answer":
        return None
    return next((run for start, end, run in spans(text_row) if start <= cell < end), None)


def find_place(block: EntryBlock, run: int) -> Place | None:
    """Find the rows of a run; None if the block has no rows of text."""
    answer = block.entry
    count = 0 if block.rendered is not None else block.text_rows
    if not count or not isinstance(answer, Answer):
        return None

    def first_run(index: int) -> int:
        """Return the first run from a row on."""
        owners = (owner for row in range(index, count) for _, _, owner in spans(block.row(row)))
        return next(owners, len(answer.runs))

    # The row before the first that begins with the run or a later one may end with it.
    first = max(0, bisect_left(range(count), run, key=first_run) - 1)
    places: list[tuple[int, int]] = []  # row and cell of each part
    for index in range(first, count):
        owners = [(start, owner) for start, _, owner in spans(block.row(index))]
        starts = [start for start, owner in owners if owner == run]
        if starts:
            places.append((index, starts[0]))
        elif owners and (places or owners[0][1] > run):
            break
    if places:
        return Place(places[0][0], places[-1][0], places[0][1])
    row = min(count - 1, max(first, bisect_left(range(count), run + 1, key=first_run) - 1))
    while row > first and not block.row(row).pieces:
        row -= 1
    return Place(row, row, width(block.row(row).text), False)


def adjacent_run(blocks: Sequence[EntryBlock], spot: RunSpot, step: int) -> RunSpot | None:
    """Return the next (1) or previous (−1) run with visible text, in the same answer or another; None at the end."""
    return _run_from(blocks, spot.block, spot.run + step, step)


def outermost(blocks: Sequence[EntryBlock], step: int) -> RunSpot | None:
    """Return the first (−1) or last (1) run of all."""
    return _run_from(blocks, 0 if step < 0 else len(blocks) - 1, None, -step)


def _run_from(blocks: Sequence[EntryBlock], index: int, run: int | None, step: int) -> RunSpot | None:
    """Find a run with visible text from a place on; from the block's first or last run if `run` is None."""
    while 0 <= index < len(blocks):
        block = blocks[index]
        if isinstance(block.entry, Answer):
            count = len(block.entry.runs)
            if run is None:
                run = 0 if step > 0 else count - 1
            for number in range(run, count if step > 0 else -1, step):
                if block.entry.own_text(number) and not block.hides(number):
                    return RunSpot(index, number)
        index += step
        run = None
    return None


RUNS_READ = 2000
"""Runs at an answer's end that are searched for the best example, in a millisecond or two."""


def best_example(answer: Answer, runs: Iterable[int]) -> int | None:
    """Choose the run that best shows how a method works: guesses of which some were right and one was not, then many tokens,
    then the last one. None if there are none."""

    def rank(index: int) -> tuple[bool, int, int]:
        run = answer.runs[index]
        return 0 < run.accepted < run.drafted, run.together, index

    return max((index for index in runs if index < len(answer.log)), key=rank, default=None)


def run_above(blocks: Sequence[EntryBlock], spot: RunSpot, step: int, cell: int) -> RunSpot | None:
    """Return the run above (−1) or below (1) one, at a cell or the nearest to it; None at the end."""
    place = find_place(blocks[spot.block], spot.run)
    if place is None:
        return None
    index = spot.block
    row = (place.last if step > 0 else place.first) + step
    while 0 <= index < len(blocks):
        block = blocks[index]
        count = 0 if block.rendered is not None else block.text_rows
        if step < 0:
            row = min(row, count - 1)
        while 0 <= row < count:
            near = [(max(start - cell, cell - end + 1, 0), run) for start, end, run in spans(block.row(row))]
            near = [(far, run) for far, run in near if (index, run) != spot]
            if near:
                return RunSpot(index, min(near)[1])
            row += step
        index += step
        row = 0 if step > 0 else 1 << 40
    return None
