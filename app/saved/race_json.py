"""A race as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..race.record import RaceRecord
from .chat_json import answer_json, dump, frozen

FORMAT = "specchat race"
VERSION = 2
"""Newest version. 2 has lanes of several models; a race of one model is still written as 1."""


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
