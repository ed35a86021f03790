"""A race as JSON, and reading of saved chats and races."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ... import plain_file
from ...engine.wire import decode
from ...errors import UserError, counted
from ..race.race import FEWEST, MOST
from ..race.record import RaceLane, RaceRecord
from ..text.cells import one_line
from .chat_json import (
    DAMAGE,
    BadFile,
    Body,
    SavedChat,
    answer_json,
    build_chat,
    dump,
    explain,
    frozen,
    read_answer,
)

MOST_BYTES = 200_000_000
"""Most bytes of a saved chat or race: an answer of 100,000 tokens with all its trees has some 100 MB."""

FORMAT = "specchat race"
VERSION = 2
"""Newest readable version. 2 has lanes of several models; a race of one model is still written as 1."""


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
        yield from answer_json(lane.answer, record.pieces, more)
    yield "\n ]\n}\n"


def read_saved(path: Path) -> SavedChat | RaceRecord:
    """Read a chat or a race.

    Raises:
        UserError: the file cannot be read or is neither; names what is wrong.
    """
    name = one_line(path.name)
    try:
        body = json.loads(plain_file.as_text(plain_file.read_bytes(path, MOST_BYTES), "strict"))
    except OSError as error:
        raise UserError(f"Cannot read {name}: {one_line(error.strerror or str(error))}. Check the name.") from None
    except (ValueError, RecursionError):
        raise UserError(f"{name} is not JSON. Open a file written by /export json.") from None
    try:
        match body:
            case {"format": "specchat chat", "version": 1}:
                return build_chat(body)
            case {"format": "specchat race", "version": 1 | 2}:
                return build_race(body)
    except DAMAGE as error:
        raise UserError(f"{name} cannot be opened: {one_line(explain(error))}.") from None
    raise UserError(f"{name} is no chat or race of this version of specchat. Open a file written by /export json.")


def build_race(body: Body) -> RaceRecord:
    """Read the race in an object."""
    lanes = [_read_lane(lane) for lane in body["lanes"]]
    if not FEWEST <= len(lanes) <= MOST:
        raise BadFile(f"it has {counted(len(lanes), 'lane')}, not {FEWEST} to {MOST}")
    record = decode(RaceRecord, {**body, "lanes": lanes, "version": body["specchat"]})
    if any(lane not in range(len(lanes)) for lane in record.tied):
        raise BadFile("tied names a lane that there is not")
    return record


def _read_lane(body: Body) -> RaceLane:
    names = {"method": one_line(body["lane"]), "model": one_line(body.get("model", ""))}
    return decode(RaceLane, {**body, **names, "answer": read_answer(body)})
