"""`specchat replay`: recorded answers as the target, scored with every method that needs no model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from ....decoders.replay import model_free, why_not
from ....engine.catalog import get
from ....errors import UserError
from ...chat.entries import OWN_END
from ...history.chats import OpenedChat, reading
from ...settings.fields import checked
from ...terminal.output import Notes
from ..exit_codes import ANSWERED
from .lab import BASE, Lab, Spec, read_spec, read_specs, say, show_table
from .requests import ReplayRequest
from .run import SPARE, measured_with, table
from .statistics import Measurement, summarise

REFERENCE = Spec("lookup:variant=reference", "lookup", {"variant": "reference"})
"""Prompt lookup as published, the reference of the other methods."""

MOST_CHATS = 2**31


class ReplayRow(TypedDict):
    """Figures of a record and a method, as the engine's task `replay` reports them."""

    file: str
    record: int
    records: int
    method: str
    tokens: int
    steps: int
    drafted: int
    accepted: int
    draft_seconds: float
    forward_seconds: float
    """0 without a model."""


def record(chat: OpenedChat) -> str:
    """Write a chat as a line of JSON: each answer in it is a record, its prompt the messages before. Empty without answers."""
    messages = chat.transcript.messages()
    if not any(message["role"] == "assistant" for message in messages):
        return ""
    last = chat.transcript.answers()[-1]
    body: dict[str, object] = {"messages": messages}
    if last.reason not in OWN_END:
        body["finish_reason"] = "length"
    return json.dumps(body)


@contextmanager
def recorded() -> Iterator[Path]:
    """Write the history into a JSONL file, which is deleted at the end.

    Raises:
        UserError: there is no answer in it.
    """
    with TemporaryDirectory(prefix="specchat-") as folder:
        path = Path(folder) / "history.jsonl"
        with reading() as history:
            lines = [line for row in history.newest(limit=MOST_CHATS) if (line := record(history.open(row.id)))]
        if not lines:
            raise UserError("There are no answers in the history yet. Ask something with `specchat`.")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield path


def replay_files(request: ReplayRequest) -> int:
    """Replay and print; return the exit code."""
    files = list(request.transcripts or ())
    if not files and not request.history:
        raise UserError("There is nothing to replay. Give JSONL files of recorded answers, or --history for your own chats.")
    if request.on_model is not None:
        model = checked("model", request.on_model, "--on-model")
        request = replace(request, settings=replace(request.settings, model=model))
    specs = choose_specs(request)
    for path in (*files, *(request.past or ())):
        if not path.exists():
            raise UserError(f"There is no file {path}. Give a JSONL file of recorded prompts and responses.")
    notes = Notes()
    rows: list[ReplayRow] = []
    problems: list[str] = []
    with ExitStack() as stack:
        if request.history:
            files.append(stack.enter_context(recorded()))
        with Lab(notes) as lab:
            if request.over_model:
                lab.load(request.settings)
            for path in files:
                problems += _replay_file(request, specs, lab, path, rows)
    for problem in problems:
        notes.sentence(problem)
    if rows:
        _print(request, files, rows, problems, [spec.label for spec in specs])
    elif lab.code == ANSWERED:
        raise UserError("No record could be replayed; the messages above say why.")
    return lab.code


def choose_specs(request: ReplayRequest) -> list[Spec]:
    """Choose the methods to replay: those in the request, or all that a record alone can score.

    Raises:
        UserError: a method that cannot be replayed, or a setting that it does not have.
    """
    if request.methods:
        specs = read_specs(request.methods)
    else:
        specs = [REFERENCE, *(read_spec(name) for name, method in model_free().items() if method.drafts)]
    for spec in specs:
        if reason := why_not(get(spec.name), over_model=request.over_model, forced=request.forced):
            raise UserError(f"The method {spec.name} cannot be replayed: it {reason}. Leave it out.")
    if request.over_model and all(spec.label != BASE for spec in specs):
        specs.insert(0, read_spec(BASE))  # the seconds are compared with it
    return specs


def _replay_file(request: ReplayRequest, specs: Sequence[Spec], lab: Lab, path: Path, rows: list[ReplayRow]) -> list[str]:
    """Replay the records of a file; return the problems of its lines."""

    def take(row: ReplayRow) -> None:
        rows.append(row)
        lab.notes.progress(f"{path.name}: record {row['record'] + 1} of {row['records']}, {row['method']}")

    result = lab.work(
        "replay",
        take,
        file=str(path),
        methods=[[spec.label, spec.name, dict(spec.settings)] for spec in specs],
        tokenizer=str(request.tokenizer or ""),
        over_model=request.over_model,
        forced=request.forced,
        limit=request.limit,
        past=[str(file) for file in request.past or ()],
        remember=request.remember,
    )
    problems: list[str] = result["problems"]
    return problems


def measurement(row: ReplayRow) -> Measurement:
    """Turn the figures of a record into those of an answer in bench. Without a model there is no time to compare."""
    seconds = row["forward_seconds"] + row["draft_seconds"] if row["forward_seconds"] else 0.0
    return {
        "item": f"{row['file']}/{row['record']}",
        "category": Path(row["file"]).stem,
        "method": row["method"],
        "round": 0,
        "count": row["tokens"],
        "digest": "",
        "seconds": seconds,
        "draft_seconds": row["draft_seconds"],
        "forward_seconds": row["forward_seconds"],
        "other_seconds": 0.0,
        "steps": row["steps"],
        "drafted": row["drafted"],
        "accepted": row["accepted"],
        "nodes": row["steps"] + row["drafted"],
    }


def _print(
    request: ReplayRequest, files: Sequence[Path], rows: Sequence[ReplayRow], problems: Sequence[str], labels: Sequence[str]
) -> None:
    results = summarise([measurement(row) for row in rows], labels, BASE, "wall")
    head, cells, best = table(results, always=("category", "method"))
    if request.as_json:
        report = {
            "transcripts": [str(path) for path in files],
            "results": [asdict(result) for result in results],
            "problems": problems,
            **measured_with(),
        }
        print(json.dumps(report, ensure_ascii=False))
        return
    show_table(head, cells, left=2, spare=SPARE, bold=best)
    if not request.over_model:
        say("To measure how much faster an answer is here, name a model with --model or --on-model.")
