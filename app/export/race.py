"""A race as Markdown and as JSON, and its photo finish: what all formats tell of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ...backends.base import UserError
from ..cells import one_line, sanitise
from ..race_record import SIGNS, Mark, RaceLane, RaceRecord
from ..transcript import Answer
from ..widgets.blocks import figures_lines
from .json_chat import answer_json, dump, read_answer
from .markdown import closed, inert, plain, quoted
from .reading import Table, Wrong, read
from .record import frozen

FORMAT = "specchat race"
VERSION = 1

ENDLESS = 1e9
"""A gap from here on stands for a token that could not have been chosen at all."""

_WIDE = 1 << 20


class Finish(NamedTuple):
    """A lane when the first one crossed the line."""

    lane: RaceLane
    share: float
    """How far it had got, by its own clock: 0 to 1."""
    seconds: float
    tokens_per_second: float
    tokens_per_step: float
    speedup: float
    """Of tokens per second, over the first lane."""

    @property
    def figures(self) -> list[str]:
        """Seconds, speed, tokens per step, speedup: as shown."""
        speedup = f"{self.speedup:.2f}×" if self.speedup else "–"
        return [
            f"{self.seconds:.2f} s",
            f"{self.tokens_per_second:,.1f} tokens/s",
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
    """Each lane at the moment at which the first of them was done, in the lanes' order."""
    through = [
        lane
        for lane in record.lanes
        if lane.answer.figures.tokens and lane.answer.reason in ("eos", "length", "stop", "context")
    ]
    line = min((lane.seconds for lane in through), default=0.0)
    longest = max((lane.answer.figures.tokens for lane in record.lanes), default=0)
    out = []
    for lane in record.lanes:
        figures = lane.answer.figures
        total = figures.tokens if lane in through else longest
        if lane in through and lane.seconds <= line:
            share = 1.0
        else:
            runs = bisect_right(lane.clock(), line) if through else len(lane.answer.runs)
            share = min(1.0, sum(run.tokens for run in lane.answer.runs[:runs]) / total) if total else 0.0
        out.append(Finish(lane, share, lane.seconds, figures.tokens_per_second, figures.tokens_per_step, record.speedup(lane)))
    return out


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
    yield "| lane | seconds | tokens/s | tokens/step | speedup | tokens |\n|---|---:|---:|---:|---:|---|\n"
    for finish in photo_finish(record):
        cells = [
            plain(finish.lane.name),
            *(words.split(" ")[0] for words in finish.figures),
            plain(f"{finish.mark} {finish.where}"),
        ]
        yield f"| {' | '.join(cells)} |\n"
    for number, lane in enumerate(record.lanes, 1):
        yield f"\n## {number}. {plain(lane.name)}\n"
        if number > 1 and lane.mark == "identical":
            yield "\n*Token for token the text of the first lane.*\n"
        elif said := closed(inert(sanitise(lane.answer.text)).strip("\n")):
            yield f"\n{said}\n"
        yield f"\n`{one_line(' '.join(figures_lines(lane.answer, _WIDE))).replace('`', chr(39))}`\n"


def race_json(record: RaceRecord) -> Iterator[str]:
    """The file's text: a lane to a line, a run to a line."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "specchat": record.version,
        "saved": record.saved,
        "model": record.model,
        "info": record.info,
        "sampling": record.sampling,
        "prompt": record.prompt,
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
        return RaceRecord(
            table.text("prompt"),
            table.text("model", ""),
            [_read_lane(lane) for lane in table.tables("lanes")],
            table.table("sampling", {}).data,
            table.table("info", {}).data,
            table.text("saved", ""),
            table.text("specchat", ""),
        )
    except Wrong as error:
        raise UserError(f"{one_line(path.name)} cannot be opened: {one_line(str(error))}.") from None


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
    )
