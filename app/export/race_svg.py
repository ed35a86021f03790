"""A race as one picture: the photo finish above, the lanes' texts side by side below."""

from __future__ import annotations

from collections.abc import Iterator

from ..chat.entries import Prompt
from ..race.record import RaceRecord
from ..text.cells import fit, one_line, width
from ..theming.colouring import bar_name
from .canvas import Canvas
from .look import Look
from .race import MARK_STYLES, Finish, model_of, photo_finish, remarks
from .svg import LEFT, draw_head, draw_legend, draw_row, wrapped

WIDTHS = {1: 88, 2: 56, 3: 46}
"""Lanes → cells of a line of each."""

NARROW = 40
"""Cells of a line where there are more."""

HEAD = 2.4
"""Rows of a lane above its text."""

GAP = 4
"""Cells between two lanes."""


def race_svg(record: RaceRecord, look: Look) -> Iterator[str]:
    cells = WIDTHS.get(len(record.lanes), NARROW)
    count = max(1, len(record.lanes))
    wide = max(88, count * cells + (count - 1) * GAP)
    prompt = wrapped(Prompt(record.prompt), wide - LEFT - 1)
    blocks = [wrapped(lane.answer, cells, speeds=False) for lane in record.lanes]
    finishes = photo_finish(record)
    notes = remarks(record)
    bars = len(finishes) * 1.5 + 1.5 + len(notes) * 1.2
    legend = 1.5 if look.legend() else 0
    texts = max((block.height for block in blocks), default=0)
    canvas = Canvas(look)
    yield canvas.open(wide, 2 + prompt.height + bars + HEAD + texts + legend, "specchat race")
    yield draw_head(canvas, wide, model_of(record), record.saved)
    y = 2.0
    for index in range(prompt.height):
        yield draw_row(canvas, LEFT, wide - LEFT - 1, y + index, prompt, prompt.row(index))
    y += prompt.height
    yield from _bars(canvas, wide, y, finishes)
    for number, note in enumerate(notes):
        yield canvas.text(0, y + len(finishes) * 1.5 + number * 1.2, fit(note, wide), "quiet")
    y += bars
    for number, (finish, block) in enumerate(zip(finishes, blocks, strict=True)):
        left = number * (cells + GAP)
        yield _pane(canvas, left, cells, y, finish)
        for index in range(block.height):
            yield draw_row(canvas, left, cells, y + HEAD + index, block, block.row(index))
        if number:
            yield canvas.box(left - GAP / 2, y, 0.1, "line", texts + HEAD - 1)
    if legend:
        yield draw_legend(canvas, wide, y + HEAD + texts + 0.5)
    yield canvas.close()


def _bars(canvas: Canvas, wide: int, y: float, finishes: list[Finish]) -> Iterator[str]:
    names = [fit(one_line(finish.name), 38) for finish in finishes]
    figures = [finish.figures for finish in finishes]
    columns = [max((width(row[i]) for row in figures), default=0) for i in range(4)]
    first = max(map(width, names), default=0) + 2
    room = max(8, wide - first - sum(columns) - 2 * 4 - 1)
    for name, finish in zip(names, finishes, strict=True):
        css = bar_name(finish.tokens_per_step)
        yield canvas.text(0, y, name, "foreground b" if finish.share >= 1 else "foreground")
        yield canvas.box(first, y + 0.16, room, "panel", 0.68, 3)
        if finish.share > 0:
            yield canvas.box(first, y + 0.16, max(0.4, room * finish.share), css, 0.68, 3)
        column = first + room + 2
        for size, words in zip(columns, finish.figures, strict=True):
            yield canvas.text(column + size - width(words), y, words, "primary b" if words.endswith("×") else "quiet")
            column += size + 2
        y += 1.5


def _pane(canvas: Canvas, left: float, cells: int, y: float, finish: Finish) -> str:
    mark = finish.mark
    name = fit(one_line(finish.name), cells - width(mark) - 4)
    return (
        canvas.box(left - 0.6, y - 0.1, cells + 1.2, "surface", 1.2, 4)
        + canvas.box(left, y + 0.28, 0.9, bar_name(finish.tokens_per_step), 0.44, 2)
        + canvas.text(left + 2, y, name, "foreground b")
        + canvas.text(left + cells - width(mark), y, mark, MARK_STYLES.get(finish.lane.mark, "quiet"))
        + canvas.text(left + cells - width(finish.where), y + 1.15, finish.where, "quiet")
    )
