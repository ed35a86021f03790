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
    count = 0 if block.rendered is not None else block.text_rows
    if not count:
        return None
    runs = _FirstRuns(block, count)
    # The row before the first that begins with the run or a later one may end with it.
    first = max(0, bisect_left(runs, run) - 1)
    rows: list[int] = []
    cell = 0
    for index in range(first, count):
        owners = [(start, owner) for start, _, owner in spans(block.row(index))]
        starts = [start for start, owner in owners if owner == run]
        if starts:
            if not rows:
                cell = starts[0]
            rows.append(index)
        elif owners and (rows or owners[0][1] > run):
            break
    if rows:
        return Place(rows[0], rows[-1], cell)
    row = min(count - 1, max(first, bisect_left(runs, run + 1) - 1))
    while row > first and not block.row(row).pieces:
        row -= 1
    return Place(row, row, width(block.row(row).text), False)


class _FirstRuns(Sequence[int]):
    """The first run of each row of text, a sequence to bisect; rows without one count as those below."""

    def __init__(self, block: EntryBlock, count: int) -> None:
        self._block = block
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        for row in range(index, self._count):
            for _, _, run in spans(self._block.row(row)):
                return run
        assert isinstance(self._block.entry, Answer)
        return len(self._block.entry.runs)


def has_text(block: EntryBlock, run: int) -> bool:
    """Whether a run has visible text."""
    return isinstance(block.entry, Answer) and bool(block.entry.own_text(run)) and not block.hides(run)


def adjacent_run(blocks: Sequence[EntryBlock], spot: RunSpot, step: int) -> RunSpot | None:
    """Return the next (1) or previous (−1) run with text, in the same answer or another; None at the end."""
    index, run = spot.block, spot.run + step
    while 0 <= index < len(blocks):
        entry = blocks[index].entry
        if isinstance(entry, Answer):
            while 0 <= run < len(entry.runs):
                if has_text(blocks[index], run):
                    return RunSpot(index, run)
                run += step
        index += step
        if step < 0 and index >= 0:
            entry = blocks[index].entry
            run = len(entry.runs) - 1 if isinstance(entry, Answer) else 0
        else:
            run = 0
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


def outermost(blocks: Sequence[EntryBlock], step: int) -> RunSpot | None:
    """Return the first (−1) or last (1) run of all."""
    if not blocks:
        return None
    if step < 0:
        return adjacent_run(blocks, RunSpot(0, -1), 1)
    entry = blocks[-1].entry
    return adjacent_run(blocks, RunSpot(len(blocks) - 1, len(entry.runs) if isinstance(entry, Answer) else 0), -1)


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
