"""Who came in when, as a chart: the lanes by their own clocks, their speed as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widget import Widget

from ....errors import counted
from ...chat.compare import SIGNS
from ...race.clock import SHORT, Unit, bars, in_words
from ...race.lane import Racer
from ...race.race import Race
from ...render.verdict import against
from ...text.amounts import times
from ...text.cells import fit, width
from ...text.charts import percent
from ...theming.colouring import bar_name
from .pane import BADGE, PLACES, eighths

FULL_BAR = 48
"""Most cells of a bar: longer ones say no more."""

FAIR_BAR, LEAST_BAR = 14, 8


@dataclass(frozen=True, slots=True)
class Standing:
    """A lane's row of the results. Texts are as shown; empty ones have nothing to say."""

    number: int
    name: str
    place: int | None
    seconds: float
    """Its whole clock."""
    amount: int
    """Length of its text, in tokens or characters."""
    speed: float
    """Amount per second of the clock."""
    tokens_per_step: float
    acceptance: float | None
    speedup: float
    sign: str
    mark: str
    mark_style: str
    reason: str = ""
    """Why it did not get through, in a word or two."""
    unit: Unit = "tokens"
    tokens_per_second: float = 0.0
    """Speed by the clock; shown beside characters."""
    line: int = 0
    """Where the lanes wrote texts of different lengths: that of the shortest, at which places are given."""
    arrival: float = 0.0
    """Its clock there."""
    passes: int = 0
    slowed: bool = False
    """In slow motion no speed is told."""
    rounds: int = 1
    """How many there were; the figures are those of the lane's median one."""


def mark_words(race: Race, racer: Racer, *, live: bool = False) -> tuple[str, str, str]:
    """Sign, words and style that say how a lane's tokens compare with those of the first lane of its model."""
    mark = race.mark(racer)
    where = f"from token {racer.position + 1:,}" if racer.position is not None else ""
    sign = SIGNS[mark]
    match mark:
        case "reference":
            return sign, "reference for the others", "$quiet"
        case "another model":
            return sign, "another model", "$quiet"
        case "identical":
            first = race.racers.index(race.reference(racer))
            word = f"identical to {first + 1}" if first else "identical"
            return sign, f"{word} so far" if live else word, "$success"
        case "near tie":
            return sign, f"near tie {where}, gap {racer.gap or 0:.2g}", "$warning"
        case "lossy":
            gap = f", gap {racer.gap:.2g}" if racer.gap is not None and racer.gap < 1e6 else ""
            word = (
                "differs"
                if racer.label_is_exact or racer.served
                else "lossy"
                if racer.answer.label == "lossy"
                else "other draws"
            )
            return sign, f"{word} {where}{gap}", "$error"
        case _:
            return sign, f"differs {where}: how near a tie?" if racer.position is not None else "", "$quiet"


def standings(race: Race) -> list[Standing]:
    """The lanes by rank."""
    numbers = {racer.lane: n for n, racer in enumerate(race.racers, 1)}
    names = dict(zip((racer.lane for racer in race.racers), called(race), strict=True))
    unit, line = race.unit, race.finish_line
    lengths = {racer.track.amount(unit) for racer in race.racers if racer.through} - {0}
    out = []
    for racer in race.ranking():
        figures = racer.answer.figures
        sign, words, style = mark_words(race, racer)
        out.append(
            Standing(
                numbers[racer.lane],
                names[racer.lane],
                race.place(racer),
                racer.seconds,
                racer.track.amount(unit),
                racer.speed(unit),
                figures.tokens_per_step,
                figures.acceptance,
                race.speedup(racer),
                sign,
                "reference" if racer is race.racers[0] else words,
                style,
                "" if racer.through else racer.answer.ending,
                unit,
                racer.speed("tokens"),
                line if len(lengths) > 1 else 0,
                racer.time(line, unit) if racer.through else 0.0,
                figures.steps,
                race.slowed,
                race.round,
            )
        )
    return out


def called(race: Race) -> list[str]:
    """What tells the lanes apart: methods, models, or both."""
    names, models = [racer.entry.name for racer in race.racers], race.model_names
    if not any(models):
        return names
    if len(set(names)) == 1 and len(set(models)) == len(models):
        return models
    return [f"{name} · {model}" for name, model in zip(names, models, strict=True)]


def headline(rows: Sequence[Standing]) -> tuple[str, str, list[str]]:
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
    what = f" wins in {in_words(winner.seconds)}"
    if winner.line:
        # Being done is no merit where less was written: what counts is who was there first.
        what = f" wins: {counted(winner.line, SHORT[winner.unit].removesuffix('s'))} in {in_words(winner.arrival)}"
    if winner.number != 1 and winner.speedup:
        more.append(against(winner.speedup, first.name)[0])
    if len(through) > 1:
        ahead = (through[1].arrival - winner.arrival) if winner.line else through[1].seconds - winner.seconds
        more.append(f"{in_words(ahead) if ahead >= 0.0005 else 'a hair'} ahead of {through[1].name}")
    sooner = [row for row in through if row.seconds < winner.seconds and row.amount < winner.amount]
    if winner.line and sooner:
        short = min(sooner, key=lambda row: row.seconds)
        more.insert(0, f"{short.name} was done sooner but wrote {short.amount:,} of {winner.amount:,}")
    return winner.name, what, more


def too_close(rows: Sequence[Standing]) -> bool:
    """Whether several panes share the first place."""
    return sum(row.place == 1 for row in rows) > 1


class PhotoFinish(Widget):
    """The chart of who came in when."""

    DEFAULT_CSS = """
    PhotoFinish { height: auto; background: $surface; padding: 0 1; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[Standing] = []

    def show(self, rows: list[Standing]) -> None:
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
                [(f"at {line:,}", [(in_words(row.arrival) if row.arrival else "–", "$foreground") for row in rows])]
                if line and not slowed
                else []
            ),
            # A pass on its own is slower than one of many, so that clocks would tell another order.
            *([] if slowed else [("clock", [(in_words(row.seconds), "$quiet" if line else "$foreground") for row in rows])]),
            *([(unit, [(f"{row.amount:,}", "$foreground") for row in rows])] if line else []),
            *([] if slowed else [(f"{unit}/s", [(f"{row.speed:,.0f}", "$foreground") for row in rows])]),
            ("a pass", [(f"{row.tokens_per_step:.2f}" if row.tokens_per_step else "–", "$foreground") for row in rows]),
            *(
                [("tokens/s", [(f"{row.tokens_per_second:,.0f}", "$quiet") for row in rows])]
                if unit != "tokens" and not slowed
                else []
            ),
            *([] if line else [(unit, [(f"{row.amount:,}", "$quiet") for row in rows])]),
            ("accepted", [("–" if row.acceptance is None else percent(row.acceptance), "$quiet") for row in rows]),
        ]
        marks = [(f"{row.sign} {row.mark}", row.mark_style) for row in rows]
        marks = [(row.reason, "$warning") if row.reason else mark for row, mark in zip(rows, marks, strict=True)]
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
