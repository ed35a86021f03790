"""The results of a race as a chart: the lanes by their own clocks, with bars for their speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content
from textual.widget import Widget

from ....errors import counted
from ...race.clock import SHORT, bars
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
    winner = finished[0]
    clauses, first = list[str](), next(row for row in rows if row.number == 1)
    if ties := [row.name for row in finished[1:] if row.place == winner.place]:
        if winner.number != 1 and winner.speedup and not any(row.number == 1 for row in finished[: 1 + len(ties)]):
            clauses.append(against(winner.speedup, first.name)[0])
        return f"{winner.name} and {' and '.join(ties)}", ": too close to call", clauses
    if winner.slowed:
        return winner.name, f" wins: {winner.tokens_per_step:.2f} tokens a pass", []
    result = f"{clock_of(winner.seconds)} of decoding"
    if winner.line:
        # With texts of different lengths the first at a common length wins, not the first at its end.
        result = f"{counted(winner.line, SHORT[winner.unit].removesuffix('s'))} in {clock_of(winner.arrival)}"
    if winner.number != 1 and winner.speedup:
        clauses.append(against(winner.speedup, first.name)[0])
    if len(finished) > 1:
        second = finished[1]
        ahead = second.arrival - winner.arrival if winner.line else second.seconds - winner.seconds
        clauses.append(f"{clock_of(ahead) if ahead >= 0.0005 else 'a hair'} ahead of {second.name}")
    sooner = [row for row in finished if row.seconds < winner.seconds and row.amount < winner.amount]
    if winner.line and sooner:
        shorter = min(sooner, key=lambda row: row.seconds)
        clauses.insert(0, f"{shorter.name} was done sooner but wrote {shorter.amount:,} of {winner.amount:,}")
    return winner.name, f" wins: {result}", clauses


class Column(NamedTuple):
    """A column of the chart, right-aligned."""

    caption: str
    texts: list[str]
    style: str = "$quiet"


def too_close(rows: Sequence[LaneFigures]) -> bool:
    """Whether several panes share the first place."""
    return sum(row.place == 1 for row in rows) > 1


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
        return Content("\n").join([self._headline(room), *self._table(room)])

    def _headline(self, room: int) -> Content:
        name, result, clauses = headline(self.rows)
        line = Content.assemble((fit(name, room // 2), "bold $primary"), (result, "bold $foreground"))
        line = line.truncate(room, ellipsis=True)
        for clause in clauses:
            if line.cell_length + 3 + width(clause) <= room:
                line = Content.assemble(line, (" · ", "$faint"), (clause, "$foreground"))
        rounds = max((row.rounds for row in self.rows), default=1)
        caption = f"{rounds} rounds" if rounds > 1 else ""
        if any(row.slowed for row in self.rows):
            caption = "in slow motion"
        if caption and line.cell_length + len(caption) + 3 <= room:
            line = Content.assemble(line, " " * (room - line.cell_length - len(caption)), (caption, "$quiet"))
        return line

    def _table(self, room: int) -> list[Content]:
        rows = self.rows
        slowed = any(row.slowed for row in rows)
        steps = [row.tokens_per_step for row in rows]
        lengths = bars(steps) if slowed else bars([row.speedup for row in rows], [row.speed for row in rows])
        limits = ((110, 34), (76, 26), (0, 18)) if any(" · " in row.name for row in rows) else ((110, 28), (76, 16), (0, 11))
        limit = next(limit for least, limit in limits if room >= least)
        name = min(max((width(row.name) for row in rows), default=4), limit)
        columns = self._columns()
        marks = [(row.doing, "$warning") if row.doing else (f"{row.sign} {row.mark}", row.mark_style) for row in rows]
        longest = max((width(text) for text, _ in marks), default=0)
        left = 4 + 4 + name + 1
        sizes = [max(len(column.caption), *map(width, column.texts)) if column.texts else 0 for column in columns]
        # Drop columns, the last first, for the words about the tokens; with few left the words become a sign.
        choices = [(n, longest, FAIR_BAR) for n in range(len(columns), 2, -1)] + [(n, 1, LEAST_BAR) for n in (4, 3, 2, 1)]
        for count, words, bar in choices:
            spare = room - (left + 1 + sum(size + 2 for size in sizes[:count]) + 2 + words + bar)
            if spare >= 0:
                break
        bar = min(FULL_BAR, bar + max(0, spare))
        sized = list(zip(columns[:count], sizes, strict=False))
        captions = " " * (left + bar + 1) + "".join(f"  {column.caption:>{size}}" for column, size in sized)
        lines = [Content.styled(fit(captions, room), "$quiet")]
        for i, row in enumerate(rows):
            place = PLACES[row.place - 1] if row.place is not None else "–"
            label = fit(row.name, name)
            parts = [
                (f"{place:<4}", "bold $success" if row.place == 1 else "$quiet"),
                (f" {row.number} ", BADGE),
                (f" {label}{' ' * (name - width(label))} ", "bold $foreground"),
                (f"{eighths(lengths[i], bar):<{bar}}", f"${bar_name(row.tokens_per_step)}"),
                (" ", ""),
            ]
            parts += [(" " * (2 + size - width(column.texts[i])) + column.texts[i], column.style) for column, size in sized]
            mark, style = marks[i]
            parts.append(("  " + (fit(mark, words) if words > 1 else mark[:1]), style))
            lines.append(Content.assemble(*parts).truncate(room))
        return lines

    def _columns(self) -> list[Column]:
        """List the columns of figures, the least important last. In slow motion clocks are left out: a single pass takes longer
        than one of many, so that they would rank the lanes differently."""
        rows = self.rows
        line, unit = (rows[0].line, SHORT[rows[0].unit]) if rows else (0, "tokens")
        slowed = any(row.slowed for row in rows)
        amounts = [f"{row.amount:,}" for row in rows]
        decoding = [clock_of(row.seconds) for row in rows]
        arrivals = [clock_of(row.arrival) if row.arrival else "–" for row in rows]
        steps = [f"{row.tokens_per_step:.2f}" if row.tokens_per_step else "–" for row in rows]
        acceptance = ["–" if row.acceptance is None else percent(row.acceptance) for row in rows]
        columns = (
            (slowed, Column("passes", [f"{row.passes:,}" for row in rows], "bold $foreground")),
            (not slowed, Column("speed", [times(row.speedup) if row.speedup else "–" for row in rows], "bold $foreground")),
            (line and not slowed, Column(f"at {line:,}", arrivals, "$foreground")),
            (not slowed, Column("decoding", decoding, "$quiet" if line else "$foreground")),
            (line, Column(unit, amounts, "$foreground")),
            (not slowed, Column(f"{unit}/s", [rate(row.speed) for row in rows], "$foreground")),
            (True, Column("a pass", steps, "$foreground")),
            (unit != "tokens" and not slowed, Column("tokens/s", [rate(row.tokens_per_second) for row in rows])),
            (not line, Column(unit, amounts)),
            (True, Column("accepted", acceptance)),
            (not slowed, Column("prompt", [clock_of(row.prompt_seconds) for row in rows])),
            (not slowed, Column("total", [clock_of(row.prompt_seconds + row.seconds) for row in rows])),
        )
        return [column for present, column in columns if present]
