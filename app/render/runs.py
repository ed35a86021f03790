"""From a run of an answer to the rows that show it, and back; and which run lies beside or above another. Works on the view's
blocks by bisection: a move costs the same in a long chat as in a short one."""

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
    """Rows of a block that show a run, and the cell where it begins in the first of them. `seen` is False for a run of blanks
    and line breaks alone, which would come after the text of the row."""

    first: int
    last: int
    cell: int
    seen: bool = True


def spans(row: TextRow) -> Iterator[tuple[int, int, int]]:
    """Begin, end and run of each of an answer row's pieces, in cells; marks left out."""
    cell = 0
    for text, run in row.pieces:
        end = cell + width(text)
        if run >= 0:
            yield cell, end, run
        cell = end


def run_at(block: EntryBlock, row: int, cell: int) -> int | None:
    """The run that a cell of a row shows."""
    shown = block.row(row)
    if shown.kind != "answer":
        return None
    return next((run for start, end, run in spans(shown) if start <= cell < end), None)


def place_of(block: EntryBlock, run: int) -> Place | None:
    """Where a block shows a run; None if the block has no rows of text."""
    count = 0 if block.rendered is not None else block.text_rows
    if not count:
        return None
    runs = _FirstRuns(block, count)
    # The row before the first that begins with the run or a later one may end with it.
    first = max(0, bisect_left(runs, run) - 1)
    found: list[int] = []
    cell = 0
    for index in range(first, count):
        here = [(start, owner) for start, _, owner in spans(block.row(index))]
        own = [start for start, owner in here if owner == run]
        if own:
            if not found:
                cell = own[0]
            found.append(index)
        elif here and (found or here[0][1] > run):
            break
    if found:
        return Place(found[0], found[-1], cell)
    row = min(count - 1, max(first, bisect_left(runs, run + 1) - 1))
    while row > first and not block.row(row).pieces:
        row -= 1
    return Place(row, row, width(block.row(row).text), False)


class _FirstRuns(Sequence[int]):
    """The first run of each row of text, as a sequence to bisect; rows without one count as those below."""

    def __init__(self, block: EntryBlock, count: int) -> None:
        self._block, self._count = block, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        for row in range(index, self._count):
            for _, _, run in spans(self._block.row(row)):
                return run
        assert isinstance(self._block.entry, Answer)
        return len(self._block.entry.runs)


def has_text(block: EntryBlock, run: int) -> bool:
    """Whether there is text of this run that can be seen."""
    return isinstance(block.entry, Answer) and bool(block.entry.own_text(run)) and not block.hides(run)


def beside(blocks: Sequence[EntryBlock], spot: RunSpot, step: int) -> RunSpot | None:
    """The next (1) or previous (−1) run with text, in the same answer or another; None at the end."""
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
"""Runs at an answer's end among which the most telling one is looked for: a millisecond or two."""


def most_telling(answer: Answer, runs: Iterable[int]) -> int | None:
    """The one of some runs that shows most of how a method works: guesses of which some were right and one was not, then many
    tokens; the last of equals. None where there are none."""

    def tells(index: int) -> tuple[bool, int, int]:
        run = answer.runs[index]
        return 0 < run.accepted < run.drafted, run.together, index

    return max((index for index in runs if index < len(answer.log)), key=tells, default=None)


def outermost(blocks: Sequence[EntryBlock], step: int) -> RunSpot | None:
    """The first (−1) or last (1) run of all."""
    if not blocks:
        return None
    if step < 0:
        return beside(blocks, RunSpot(0, -1), 1)
    entry = blocks[-1].entry
    return beside(blocks, RunSpot(len(blocks) - 1, len(entry.runs) if isinstance(entry, Answer) else 0), -1)


def above(blocks: Sequence[EntryBlock], spot: RunSpot, step: int, cell: int) -> RunSpot | None:
    """The run above (−1) or below (1) one, at a cell or the nearest to it; None at the end."""
    place = place_of(blocks[spot.block], spot.run)
    if place is None:
        return None
    index, row = spot.block, (place.last if step > 0 else place.first) + step
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
