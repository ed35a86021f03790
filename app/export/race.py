"""A race as Markdown and as JSON, and its photo finish: what all formats tell of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ...backends.base import UserError
from ..chat.entries import Answer
from ..race.clock import SHORT, Track, Unit, bars, in_words
from ..race.guests import short_name
from ..race.lane import THROUGH
from ..race.record import SIGNS, Mark, RaceLane, RaceRecord
from ..render.blocks import figures_lines
from ..saved.capture import frozen
from ..saved.chat_json import answer_json, dump, read_answer
from ..saved.reading import Table, Wrong, read
from ..text.cells import one_line, sanitise
from .markdown import closed, inert, plain, quoted

FORMAT = "specchat race"
VERSION = 2
"""The newest that can be read. 2 has lanes of several models; a race of one is still written as 1, which older readers know."""

CLOCK = "By each lane's own clock, the prompt's prefill included."

ENDLESS = 1e9
"""A gap from here on stands for a token that could not have been chosen at all."""

UNITS: tuple[Unit, ...] = get_args(Unit)

_WIDE = 1 << 20


class Finish(NamedTuple):
    """How a lane came out."""

    lane: RaceLane
    name: str
    """With its model, where the lanes' models differ."""
    share: float
    """Length of its bar: 0 to 1."""
    seconds: float
    amount: int
    """Of its whole text, in tokens or characters."""
    speed: float
    """Of that, per second of its own clock."""
    unit: Unit
    tokens_per_step: float
    speedup: float
    """How many times sooner than the first lane it had written what both have."""

    @property
    def figures(self) -> list[str]:
        """Clock, speed, tokens per step, speedup: as on the screen."""
        speedup = f"{self.speedup:.2f}×" if self.speedup else "–"
        return [
            in_words(self.seconds),
            f"{self.speed:,.0f} {SHORT[self.unit]}/s",
            f"{self.tokens_per_step:.2f} tokens/step",
            speedup,
        ]

    @property
    def mark(self) -> str:
        """How its tokens compare with the first lane's."""
        return f"{SIGNS[self.lane.mark]} {self.lane.mark}"

    @property
    def where(self) -> str:
        """Where they part and how near a tie it was; empty where they do not."""
        lane = self.lane
        if lane.position is None:
            return ""
        gap = "" if lane.gap is None else ", gap ∞" if lane.gap >= ENDLESS else f", gap {lane.gap:.2g}"
        return f"from token {lane.position + 1:,} on{gap}"


def photo_finish(record: RaceRecord) -> list[Finish]:
    """Each lane's result, in the lanes' order: the figures of the photo finish on the screen, and its bars."""
    speedups, speeds = ([find(lane) for lane in record.lanes] for find in (record.speedup, record.speed))
    return [
        Finish(
            *(lane, name, share, lane.seconds, Track.of(lane.answer).amount(record.unit), speed, record.unit),
            *(lane.answer.figures.tokens_per_step, speedup),
        )
        for lane, name, share, speed, speedup in zip(
            record.lanes, called(record), bars(speedups, speeds), speeds, speedups, strict=True
        )
    ]


def called(record: RaceRecord) -> list[str]:
    """What each lane is called; lanes on the race's own model have its name too where others have their own."""
    own = short_name(str(record.info.get("name") or record.model)) if record.several else ""
    return [f"{lane.name} on {own}" if own and not lane.model else lane.name for lane in record.lanes]


def remarks(record: RaceRecord) -> list[str]:
    """What must be known to read the figures, a sentence each."""
    amounts = {Track.of(lane.answer).amount(record.unit) for lane in record.lanes if lane.answer.reason in THROUGH} - {0}
    said = []
    if record.unit == "characters":
        said.append("The lanes' tokens are not the same, so they are compared in characters.")
    if len(amounts) > 1:
        line = f"{record.finish_line:,} {record.unit}"
        said.append(f"The lanes wrote texts of different lengths: they are compared at {line}, where the shortest ends.")
    return [*said, CLOCK]


def frozen_race(record: RaceRecord) -> RaceRecord:
    """The race as it is now, whatever its lanes write meanwhile."""
    return replace(record, lanes=[replace(lane, answer=frozen(lane.answer)) for lane in record.lanes])


def model_of(record: RaceRecord) -> dict[str, Any]:
    """The model, for the line at the top."""
    return {"asked": record.model, **record.info}


def race_markdown(record: RaceRecord) -> Iterator[str]:
    """The file's text."""
    what = [plain(text) for text in (str(record.info.get("name") or record.model), record.saved) if text]
    yield f"# specchat race{': ' if what else ''}{' · '.join(what)}\n\n{quoted(record.prompt)}\n\n"
    unit = SHORT[record.unit]
    yield f"| lane | clock | {unit}/s | tokens/step | speedup | {unit} | compared |\n|---|---:|---:|---:|---:|---:|---|\n"
    finishes = photo_finish(record)
    for finish in finishes:
        cells = [
            plain(finish.name),
            finish.figures[0],
            *(words.split(" ")[0] for words in finish.figures[1:]),
            f"{finish.amount:,}",
            plain(f"{finish.mark} {finish.where}"),
        ]
        yield f"| {' | '.join(cells)} |\n"
    yield "".join(f"\n{plain(said)}\n" for said in remarks(record))
    for number, (lane, finish) in enumerate(zip(record.lanes, finishes, strict=True), 1):
        yield f"\n## {number}. {plain(finish.name)}\n"
        first = next(i for i, other in enumerate(record.lanes, 1) if other.model == lane.model)
        if number > first and lane.mark == "identical":
            yield f"\n*Token for token the text of {'the first lane' if first == 1 else f'lane {first}'}.*\n"
        elif said := closed(inert(sanitise(lane.answer.text)).strip("\n")):
            yield f"\n{said}\n"
        yield f"\n`{one_line(' '.join(figures_lines(lane.answer, _WIDE, speeds=False))).replace('`', chr(39))}`\n"


def race_json(record: RaceRecord) -> Iterator[str]:
    """The file's text: a lane to a line, a run to a line."""
    head = {
        "format": FORMAT,
        "version": VERSION if record.several else 1,
        "specchat": record.version,
        "saved": record.saved,
        "model": record.model,
        "info": record.info,
        "sampling": record.sampling,
        "prompt": record.prompt,
        **({"unit": record.unit} if record.several else {}),
    }
    yield "{" + "".join(f"\n {dump(key)}: {dump(value)}," for key, value in head.items()) + '\n "lanes": ['
    for i, lane in enumerate(record.lanes):
        more = {
            "lane": lane.method,
            "settings": lane.settings,
            "model": lane.model,
            "mark": lane.mark,
            "position": lane.position,
            "gap": lane.gap,
            **({"info": lane.info} if lane.info else {}),
        }
        yield ",\n  " if i else "\n  "
        yield from answer_json(lane.answer, lane.answer.pieces if len(lane.answer.pieces) else record.pieces, more)
    yield "\n ]\n}\n"


def read_race(path: Path) -> RaceRecord:
    """The race in a file.

    Raises:
        UserError: the file cannot be read or is no race; names what is wrong.
    """
    table = read(path, FORMAT, VERSION)
    try:
        return race_of(table)
    except Wrong as error:
        raise UserError(f"{one_line(path.name)} cannot be opened: {one_line(str(error))}.") from None


def race_of(table: Table) -> RaceRecord:
    """The race in an object.

    Raises:
        Wrong: something is missing or is not as it must be.
    """
    return RaceRecord(
        table.text("prompt"),
        table.text("model", ""),
        [_read_lane(lane) for lane in table.tables("lanes")],
        table.table("sampling", {}).data,
        table.table("info", {}).data,
        table.text("saved", ""),
        table.text("specchat", ""),
        unit=_unit(table),
    )


def _unit(table: Table) -> Unit:
    unit = table.text("unit", "tokens")
    found = next((each for each in UNITS if each == unit), None)
    if found is None:
        raise Wrong(f"unit is none of {', '.join(UNITS)}")
    return found


def _read_lane(table: Table) -> RaceLane:
    mark = table.text("mark", "unknown")
    known: tuple[Mark, ...] = get_args(Mark)
    found = next((each for each in known if each == mark), None)
    if found is None:
        raise Wrong(f"{table.place}.mark is none of {', '.join(known)}")
    answer: Answer = read_answer(table)
    return RaceLane(
        one_line(table.text("lane")),
        table.table("settings", {}).data,
        answer,
        one_line(table.text("model", "")),
        found,
        None if table.data.get("position") is None else table.count("position"),
        None if table.data.get("gap") is None else table.number("gap"),
        table.table("info", {}).data,
    )
