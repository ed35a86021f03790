"""A race as JSON, written and read back checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

from ...errors import counted
from ..chat.compare import Mark
from ..race.clock import Unit
from ..race.race import FEWEST, MOST
from ..race.record import RaceLane, RaceRecord
from ..text.cells import one_line
from .capture import SavedChat, frozen
from .chat_json import answer_json, dump, read_answer, read_chat
from .reading import BadFile, OtherFormat, Table, read

FORMAT = "specchat race"
VERSION = 2
"""Newest readable version. 2 has lanes of several models; a race of one model is still written as 1."""
UNITS: tuple[Unit, ...] = get_args(Unit)
MARKS: tuple[Mark, ...] = get_args(Mark)


def frozen_race(record: RaceRecord) -> RaceRecord:
    """Copy a race whose lanes may still write."""
    return replace(record, lanes=[replace(lane, answer=frozen(lane.answer)) for lane in record.lanes])


def race_json(record: RaceRecord) -> Iterator[str]:
    """Yield the file's text, with a line for each lane and each run."""
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
        **({"slowed": True} if record.slowed else {}),
        **({"tied": list(record.tied)} if record.tied else {}),
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


def read_saved(path: Path) -> SavedChat | RaceRecord:
    """Read a chat or a race.

    Raises:
        UserError: the file cannot be read or is neither; names what is wrong.
    """
    try:
        return read_chat(path)
    except OtherFormat as other:
        if other.format != FORMAT:
            raise
        return read_race(path)


def read_race(path: Path) -> RaceRecord:
    """Read a race.

    Raises:
        UserError: the file cannot be read or is no race; names what is wrong.
    """
    return read(path, FORMAT, VERSION, race_of)


def race_of(table: Table) -> RaceRecord:
    """Read the race in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    lanes = [_read_lane(lane) for lane in table.tables("lanes")]
    if not FEWEST <= len(lanes) <= MOST:
        raise BadFile(f"it has {counted(len(lanes), 'lane')}, not {FEWEST} to {MOST}")
    return RaceRecord(
        table.text("prompt"),
        table.text("model", ""),
        lanes,
        sampling=table.table("sampling", {}).data,
        info=table.table("info", {}).data,
        saved=table.text("saved", ""),
        version=table.text("specchat", ""),
        unit=table.word("unit", UNITS, "tokens"),
        slowed=table.data.get("slowed") is True,
        tied=tuple(lane for lane in table.data.get("tied") or () if lane in range(len(lanes))),
    )


def _read_lane(table: Table) -> RaceLane:
    return RaceLane(
        one_line(table.text("lane")),
        settings=table.table("settings", {}).data,
        answer=read_answer(table),
        model=one_line(table.text("model", "")),
        mark=table.word("mark", MARKS, "unknown"),
        position=None if table.data.get("position") is None else table.count("position"),
        gap=None if table.data.get("gap") is None else table.number("gap"),
        info=table.table("info", {}).data,
    )
