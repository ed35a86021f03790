"""Who came in when, as a chart: the lanes by their own clocks, their speed as bars."""

from __future__ import annotations

from collections.abc import Sequence

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
"""Most cells of a bar: longer ones say no more."""

FAIR_BAR, LEAST_BAR = 14, 8


def headline(rows: Sequence[LaneFigures]) -> tuple[str, str, list[str]]:
    """Who wins, the verb phrase after the name, and what more there is to say, most telling first."""
    through = [row for row in rows if row.place is not None]
    if not through:
        return "", "No pane finished", []
    winner = through[0]
    more, first = list[str](), next(row for row in rows if row.number == 1)
    if level := [row.name for row in through[1:] if row.place == winner.place]:
        if winner.number != 1 and winner.speedup and not any(row.number == 1 for row in through[: 1 + len(level)]):
            more.append(against(winner.speedup, first.name)[0])
        return f"{winner.name} and {' and '.join(level)}", ": too close to call", more
    if winner.slowed:
        return winner.name, f" wins: {winner.tokens_per_step:.2f} tokens a pass", []
    what = f" wins: {clock_of(winner.seconds)} of decoding"
    if winner.line:
        # Being done is no merit where less was written: what counts is who was there first.
        what = f" wins: {counted(winner.line, SHORT[winner.unit].removesuffix('s'))} in {clock_of(winner.arrival)}"
    if winner.number != 1 and winner.speedup:
        more.append(against(winner.speedup, first.name)[0])
    if len(through) > 1:
        ahead = (through[1].arrival - winner.arrival) if winner.line else through[1].seconds - winner.seconds
        more.append(f"{clock_of(ahead) if ahead >= 0.0005 else 'a hair'} ahead of {through[1].name}")
    sooner = [row for row in through if row.seconds < winner.seconds and row.amount < winner.amount]
    if winner.line and sooner:
        short = min(sooner, key=lambda row: row.seconds)
        more.insert(0, f"{short.name} was done sooner but wrote {short.amount:,} of {winner.amount:,}")
    return winner.name, what, more


def too_close(rows: Sequence[LaneFigures]) -> bool:
    """Whether several panes share the first place."""
    return sum(row.place == 1 for row in rows) > 1


class PhotoFinish(Widget):
    """The chart of who came in when."""

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
        name, what, more = headline(self.rows)
        line = Content.assemble((fit(name, room // 2), "bold $primary"), (what, "bold $foreground"))
        line = line.truncate(room, ellipsis=True)
        for text in more:
            if line.cell_length + 3 + width(text) <= room:
                line = Content.assemble(line, (" · ", "$faint"), (text, "$foreground"))
        rounds = max((row.rounds for row in self.rows), default=1)
        caption = "in slow motion" if any(row.slowed for row in self.rows) else f"{rounds} rounds" if rounds > 1 else ""
        if caption and line.cell_length + len(caption) + 3 <= room:
            line = Content.assemble(line, " " * (room - line.cell_length - len(caption)), (caption, "$quiet"))
        return line

    def _table(self, room: int) -> list[Content]:
        rows = self.rows
        line, unit = (rows[0].line, SHORT[rows[0].unit]) if rows else (0, "tokens")
        slowed = any(row.slowed for row in rows)
        per_step = [row.tokens_per_step for row in rows]
        lengths = bars(per_step) if slowed else bars([row.speedup for row in rows], [row.speed for row in rows])
        limits = (34, 26, 18) if any(" · " in row.name for row in rows) else (28, 16, 11)
        limit = limits[0] if room >= 110 else limits[1] if room >= 76 else limits[2]
        name = min(max((width(row.name) for row in rows), default=4), limit)
        # Caption, cells of each row, right-aligned; the least telling last. The name and the bar take what is left.
        columns: list[tuple[str, list[tuple[str, str]]]] = [
            ("passes", [(f"{row.passes:,}", "bold $foreground") for row in rows])
            if slowed
            else ("speed", [(times(row.speedup) if row.speedup else "–", "bold $foreground") for row in rows]),
            *(
                [(f"at {line:,}", [(clock_of(row.arrival) if row.arrival else "–", "$foreground") for row in rows])]
                if line and not slowed
                else []
            ),
            # A pass on its own is slower than one of many, so that clocks would tell another order.
            *([] if slowed else [("decoding", [(clock_of(row.seconds), "$quiet" if line else "$foreground") for row in rows])]),
            *([(unit, [(f"{row.amount:,}", "$foreground") for row in rows])] if line else []),
            *([] if slowed else [(f"{unit}/s", [(rate(row.speed), "$foreground") for row in rows])]),
            ("a pass", [(f"{row.tokens_per_step:.2f}" if row.tokens_per_step else "–", "$foreground") for row in rows]),
            *(
                [("tokens/s", [(rate(row.tokens_per_second), "$quiet") for row in rows])]
                if unit != "tokens" and not slowed
                else []
            ),
            *([] if line else [(unit, [(f"{row.amount:,}", "$quiet") for row in rows])]),
            ("accepted", [("–" if row.acceptance is None else percent(row.acceptance), "$quiet") for row in rows]),
            *([] if slowed else [("prompt", [(clock_of(row.prompt_seconds), "$quiet") for row in rows])]),
            *([] if slowed else [("total", [(clock_of(row.prompt_seconds + row.seconds), "$quiet") for row in rows])]),
        ]
        marks = [(f"{row.sign} {row.mark}", row.mark_style) for row in rows]
        marks = [(row.doing, "$warning") if row.doing else mark for row, mark in zip(rows, marks, strict=True)]
        said = max((width(text) for text, _ in marks), default=0)
        left = 4 + 4 + name + 1
        sizes = [max(len(caption), *(width(text) for text, _ in cells)) if cells else 0 for caption, cells in columns]
        # Some figures give way to words on how the tokens compare; the most telling do not, then a sign says it.
        for kept, words, bar in (
            *((n, said, FAIR_BAR) for n in range(len(columns), 2, -1)),
            (4, 1, LEAST_BAR),
            (3, 1, LEAST_BAR),
            (2, 1, LEAST_BAR),
            (1, 1, LEAST_BAR),
        ):
            spare = room - (left + 1 + sum(size + 2 for size in sizes[:kept]) + 2 + words + bar)
            if spare >= 0:
                break
        bar = min(FULL_BAR, bar + max(0, spare))
        out: list[Content] = []
        captions = " " * (left + bar + 1) + "".join(
            f"  {caption:>{size}}" for (caption, _), size in zip(columns[:kept], sizes, strict=False)
        )
        out.append(Content.styled(fit(captions, room), "$quiet"))
        for i, row in enumerate(rows):
            place = PLACES[row.place - 1] if row.place is not None else "–"
            drawn = eighths(lengths[i], bar)
            parts = [
                (f"{place:<4}", "bold $success" if row.place == 1 else "$quiet"),
                (f" {row.number} ", BADGE),
                (f" {fit(row.name, name)}{' ' * (name - width(fit(row.name, name)))} ", "bold $foreground"),
                (drawn + " " * (bar - len(drawn)), f"${bar_name(row.tokens_per_step)}"),
                (" ", ""),
            ]
            for (_, cells), size in zip(columns[:kept], sizes, strict=False):
                text, style = cells[i]
                parts.append((" " * (2 + size - width(text)) + text, style))
            text, style = marks[i]
            parts.append(("  " + fit(text, words) if words > 1 else "  " + text[:1], style))
            out.append(Content.assemble(*parts).truncate(room))
        return out
