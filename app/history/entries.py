"""What was said, as rows, and back. Runs are those of the JSON format (docs/files.md), in compressed parts."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable
from threading import current_thread, main_thread
from time import sleep
from typing import Any

from ..chat.entries import SEVERITIES, Answer, ChatEntry, Figures, Notice, Prompt
from ..chat.pieces import Pieces
from ..chat.runs import Run
from ..saved.chat_json import dump, figures_body, pieces_body, read_answer, run_body
from ..saved.reading import BadFile, Table
from ..text.cells import one_line
from .schema import loaded

REST_RUNS, REST_SECONDS = 64, 0.0005
"""After so many runs (1 ms) the interface's thread gets its turn at once, where it would wait for the interpreter's lock."""


def pack(answer: Answer, pieces: Pieces, first: int, end: int, tail: str = "") -> bytes:
    """A part of an answer.

    Args:
        answer: it may be growing meanwhile.
        pieces: the token texts.
        first: number of the first run.
        end: number of the run after the last; all of them have a step.
        tail: text after the last step.
    """
    seen: set[int] = set()
    runs = []
    beside = current_thread() is not main_thread()
    for index in range(first, end):
        step = answer.log.record(index)
        seen.update(step.tokens, step.tree_tokens)
        runs.append(dump(run_body(answer.runs[index], step)))
        if beside and len(runs) % REST_RUNS == 0:
            sleep(REST_SECONDS)
    text = f'{{"runs": [{", ".join(runs)}], "tail": {dump(tail)}, "pieces": {dump(pieces_body(seen, pieces))}}}'
    return zlib.compress(text.encode("utf-8", "replace"))


def unpack(parts: Iterable[bytes]) -> dict[str, Any]:
    """An answer's parts together: `runs`, `tail` and `pieces` as in the JSON format.

    Raises:
        BadFile: one is not what `pack` makes.
    """
    runs: list[Any] = []
    pieces: dict[str, Any] = {}
    tail = ""
    try:
        for part in parts:
            body = json.loads(zlib.decompress(part).decode("utf-8", "replace"))
            runs += body["runs"]
            pieces.update(body["pieces"])
            tail += body["tail"]
    except (zlib.error, ValueError, KeyError, TypeError, RecursionError):
        raise BadFile("a part is damaged") from None
    return {"runs": runs, "tail": tail, "pieces": pieces}


def texts_of(parts: Iterable[bytes]) -> tuple[str, str]:
    """The answer that some parts hold, and its thought; empty where they are damaged."""
    try:
        answer = read_answer(Table({"method": "", "label": "", "figures": figures_body(Figures()), **unpack(parts)}))
        return answer.text, answer.thought
    except BadFile:
        return "", ""


def read_entry(row: tuple[Any, ...], parts: Iterable[bytes]) -> tuple[ChatEntry, bool]:
    """The entry in a row (the columns of ROW) and its parts; and whether it is whole. Of an answer whose steps are damaged the
    text and the thought are left."""
    kind, text, severity, method, label, reason, figures, asked, thought = row
    if kind == "prompt":
        return Prompt(loaded(text)), True
    if kind != "answer":
        return Notice(loaded(text), severity if severity in SEVERITIES else "information"), True
    method, label = one_line(loaded(method)), one_line(loaded(label))
    body = {"method": method, "label": label, "reason": loaded(reason) or None}
    request = json.loads(asked) if asked else {}
    try:
        answer = read_answer(Table({**body, "figures": json.loads(figures), **unpack(parts)}))
        answer.asked = request
        return answer, True
    except BadFile:
        answer = Answer(method, label, asked=request)
        if known := loaded(thought):
            answer.runs.append(Run(known, 0, method, -1, spans=((1, len(known), 0), (0, 0, 0))))
        answer.finish(one_line(loaded(reason)) or "unfinished", loaded(text))
        return answer, False


ROW = "kind, text, severity, method, label, reason, figures, asked, thought"
"""The columns that `read_entry` takes."""


def parts_of(db: sqlite3.Connection, entry: int) -> list[bytes]:
    return [data for (data,) in db.execute("SELECT data FROM steps WHERE entry = ? ORDER BY part", (entry,))]
