"""The results of a race as a chart: the lanes by their own clocks, with bars for their speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content
from textual.widget import Widget

from ....errors import counted
from ...race.lane import SHORT, bars
from ...render.verdict import against
from ...text.amounts import clock_of, rate, times
from ...text.cells import fit, width
from ...text.charts import eighths, percent
from ...theming.colouring import bar_name
from .pane import BADGE, PLACES
from .state import LaneFigures

FULL_BAR = 48
"""Most cells of a bar."""

FAIR_BAR, LEAST_BAR = 14, 8


def headline(rows: Sequence[LaneFigures]) -> tuple[str, str, list[str]]:
    """Name the winner.

    Returns:
        its name, the verb phrase after it, and further clauses, the most important first.
    """
    finished = [row for row in rows if row.place is not None]
    if not finished:
        return "", "No pane finished", []
    winner, first = finished[0], next(row for row in rows if row.number == 1)
    tied = [row for row in finished[1:] if row.place == winner.place]
    faster = [against(winner.speedup, first.name)[0]] if winner.speedup and first not in (winner, *tied) else []
    if tied:
        return f"{winner.name} and {' and '.join(row.name for row in tied)}", ": too close to call", faster
    if winner.slowed:
        return winner.name, f" wins: {winner.tokens_per_step:.2f} tokens a pass", []
    result = f"{clock_of(winner.seconds)} of decoding"
    clauses = faster
    if len(finished) > 1:
        second = finished[1]
        ahead = second.arrival - winner.arrival if winner.line else second.seconds - winner.seconds
        clauses = [*faster, f"{clock_of(ahead) if ahead >= 0.0005 else 'a hair'} ahead of {second.name}"]
    if winner.line:
        # With texts of different lengths the first at a common length wins, not the first at its end.
        result = f"{counted(winner.line, SHORT[winner.unit].removesuffix('s'))} in {clock_of(winner.arrival)}"
        sooner = [row for row in finished if row.seconds < winner.seconds and row.amount < winner.amount]
        for row in sorted(sooner, key=lambda row: row.seconds)[:1]:
            clauses = [f"{row.name} was done sooner but wrote {row.amount:,} of {winner.amount:,}", *clauses]
    return winner.name, f" wins: {result}", clauses


class Column(NamedTuple):
    """A column of the chart, right-aligned."""

    caption: str
    texts: list[str]
    style: str = "$foreground"

    @property
    def cells(self) -> int:
        return max(len(self.caption), *map(width, self.texts))


class PhotoFinish(Widget):
    """The chart of the results."""

    DEFAULT_CSS = """
    PhotoFinish { height: auto; background: $surface; padding: 0 1; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[LaneFigures] = []

    def show(self, rows: list[LaneFigures]) -> None:
        if rows != self.rows:
            grown = len(rows) != len(self.rows)
            self.rows = rows
            self.refresh(layout=grown)

    def render(self) -> Content:
        room = self.size.width
        return Content("\n").join([self._headline(room), *self._table(room)] if self.rows else [])

    def _headline(self, room: int) -> Content:
        name, result, clauses = headline(self.rows)
        line = Content.assemble((fit(name, room // 2), "bold $primary"), (result, "bold $foreground"))
        line = line.truncate(room, ellipsis=True)
        for clause in clauses:
            if line.cell_length + 3 + width(clause) <= room:
                line = Content.assemble(line, (" · ", "$faint"), (clause, "$foreground"))
        caption = f"{self.rows[0].rounds} rounds" if self.rows[0].rounds > 1 else ""
        if self.rows[0].slowed:
            caption = "in slow motion"
        if caption and line.cell_length + len(caption) + 3 <= room:
            line = Content.assemble(line, " " * (room - line.cell_length - len(caption)), (caption, "$quiet"))
        return line

    def _table(self, room: int) -> list[Content]:
        rows, columns = self.rows, self._columns()
        speeds = [] if rows[0].slowed else [[row.speedup for row in rows], [row.speed for row in rows]]
        lengths = bars(*speeds, [row.tokens_per_step for row in rows])
        name = min(max(width(row.name) for row in rows), max(11, room // (3 if rows[0].model else 4)))
        marks = [(row.doing, "$warning") if row.doing else (f"{row.sign} {row.mark}", row.mark_style) for row in rows]
        # Drop columns, the last first, for the words about the tokens; with few left the words become a sign.
        longest = max(width(text) for text, _ in marks)
        choices = [(n, longest, FAIR_BAR) for n in range(len(columns), 2, -1)] + [(n, 1, LEAST_BAR) for n in (4, 3, 2, 1)]
        for count, words, bar in choices:
            spare = room - (name + 12 + sum(column.cells + 2 for column in columns[:count]) + words + bar)
            if spare >= 0:
                break
        del columns[count:]
        bar = min(FULL_BAR, bar + max(0, spare))
        captions = " " * (name + 10 + bar) + "".join(f"  {column.caption:>{column.cells}}" for column in columns)
        lines = [Content.styled(fit(captions, room), "$quiet")]
        for i, row in enumerate(rows):
            label, (mark, style) = fit(row.name, name), marks[i]
            parts = [
                (f"{PLACES[row.place - 1] if row.place else '–':<4}", "bold $success" if row.place == 1 else "$quiet"),
                (f" {row.number} ", BADGE),
                (f" {label}{' ' * (name - width(label))} ", "bold $foreground"),
                (f"{eighths(lengths[i], bar):<{bar}} ", f"${bar_name(row.tokens_per_step)}"),
            ]
            parts += [(" " * (2 + column.cells - width(column.texts[i])) + column.texts[i], column.style) for column in columns]
            parts.append(("  " + (fit(mark, words) if words > 1 else mark[:1]), style))
            lines.append(Content.assemble(*parts).truncate(room))
        return lines

    def _columns(self) -> list[Column]:
        """List the columns of figures, the least important last. In slow motion clocks are left out: a single pass takes longer
        than one of many, so that they would rank the lanes differently."""
        rows = self.rows
        line, unit = rows[0].line, SHORT[rows[0].unit]
        amounts = Column(unit, [f"{row.amount:,}" for row in rows])
        steps = Column("a pass", [f"{row.tokens_per_step:.2f}" if row.tokens_per_step else "–" for row in rows])
        accepted = ["–" if row.acceptance is None else percent(row.acceptance) for row in rows]
        if rows[0].slowed:
            passes = Column("passes", [f"{row.passes:,}" for row in rows], "bold $foreground")
            return [passes, amounts, steps, Column("accepted", accepted, "$quiet")]
        arrivals = Column(f"at {line:,}", [clock_of(row.arrival) if row.arrival else "–" for row in rows])
        return [
            Column("speed", [times(row.speedup) if row.speedup else "–" for row in rows], "bold $foreground"),
            *([arrivals] if line else []),
            Column("decoding", [clock_of(row.seconds) for row in rows]),
            *([amounts] if line else []),
            Column(f"{unit}/s", [rate(row.speed) for row in rows]),
            steps,
            *([] if line else [amounts]),
            Column("accepted", accepted, "$quiet"),
        ]
