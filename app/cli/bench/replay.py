"""`specchat replay`: recorded answers as the target, scored with every method that needs no model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ....decoders.replay import model_free, why_not
from ....engine.catalog import get
from ....errors import UserError
from ...chat.entries import OWN_END
from ...history.chats import OpenedChat, reading
from ...settings.file import changed
from ...terminal.output import Notes
from ..exit_codes import ANSWERED
from .lab import BASE, Lab, Spec, read_spec, read_specs, say, show_table, write_table
from .requests import ReplayRequest
from .run import measured_with
from .statistics import Pair, interval, share, span

REFERENCE = Spec("lookup:variant=reference", "lookup", {"variant": "reference"})
"""Prompt lookup as published: what the others are compared with."""


MOST = 2**31


def record(chat: OpenedChat) -> str:
    """A chat as a line: every answer in it is a record, with all that was said before as its prompt. Empty if it has none."""
    messages = chat.transcript.messages()
    if not any(message["role"] == "assistant" for message in messages):
        return ""
    last = chat.transcript.answers()[-1]
    body: dict[str, object] = {"messages": messages}
    if last.reason not in OWN_END:
        body["finish_reason"] = "length"
    return json.dumps(body)


@contextmanager
def recorded(wanted: Sequence[str] = ()) -> Iterator[Path]:
    """The history as a JSONL file, which is gone afterwards.

    Args:
        wanted: only these chats, by number or title; all if there are none.

    Raises:
        UserError: there is no such chat, or none at all with an answer in it.
    """
    from ...history.resume import one_chat

    with TemporaryDirectory(prefix="specchat-") as folder:
        path = Path(folder) / "history.jsonl"
        count = 0
        with reading() as chats, path.open("w", encoding="utf-8") as file:
            rows = [one_chat(chats, text) for text in wanted] if wanted else chats.newest(limit=MOST)
            for row in rows:
                if line := record(chats.open(row.id)):
                    file.write(line + "\n")
                    count += 1
        if not count:
            what = "in these chats" if wanted else "in the history"
            raise UserError(f"There are no answers {what} yet. Ask something with `specchat`.")
        yield path


@dataclass(slots=True)
class Replayed:
    """What a replay found."""

    files: Sequence[Path]
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One for each record and method, as the engine's task `replay` reports them."""
    problems: list[str] = field(default_factory=list)


def replay_files(request: ReplayRequest) -> int:
    """Replay; print; return the exit code."""
    files = list(request.transcripts or ())
    if not files and not (request.history or request.chat):
        raise UserError("There is nothing to replay. Give JSONL files of recorded answers, or --history for your own chats.")
    if request.on_model is not None:
        settings = changed(request.settings, {"model": request.on_model}, {"model": "--on-model"})
        request = replace(request, settings=settings)
    specs = choose_specs(request)
    for path in (*files, *(request.past or ())):
        if not path.exists():
            raise UserError(f"There is no file {path}. Give a JSONL file of recorded prompts and responses.")
    notes = Notes("auto")
    with ExitStack() as stack:
        if request.history or request.chat:
            files.append(stack.enter_context(recorded(request.chat or ())))
        found = Replayed(files)
        with Lab(notes) as lab:
            _measure(request, specs, lab, found)
    for problem in found.problems:
        notes.sentence(problem)
    if found.rows:
        _print(request, found, [spec.label for spec in specs])
    elif lab.code == ANSWERED:
        raise UserError("No record could be replayed; the messages above say why.")
    return lab.code


def choose_specs(request: ReplayRequest) -> list[Spec]:
    """The methods to replay: those named, or all that a record alone can score.

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
        specs.insert(0, read_spec(BASE))  # what the seconds are compared with
    return specs


def _measure(request: ReplayRequest, specs: Sequence[Spec], lab: Lab, found: Replayed) -> None:
    if request.over_model:
        lab.load(request.settings)
    methods = [[spec.label, spec.name, dict(spec.settings)] for spec in specs]
    for number, path in enumerate(found.files, 1):

        def take(row: dict[str, Any], path: Path = path, number: int = number) -> None:
            found.rows.append(row)
            of = f", file {number} of {len(found.files)}" if len(found.files) > 1 else ""
            lab.notes.progress(f"{path.name}: record {row['record'] + 1} of {row['records']}{of}, {row['method']}")

        result = lab.work(
            "replay",
            take,
            file=str(path),
            methods=methods,
            tokenizer=str(request.tokenizer or ""),
            over_model=request.over_model,
            forced=request.forced,
            limit=request.limit,
            past=[str(each) for each in request.past or ()],
            remember=request.remember,
        )
        found.problems += result["problems"]


def summarise(found: Replayed, labels: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each set (file) and method, and with several sets one of all together: what `--json` calls results."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for row in found.rows:
        sets.setdefault(Path(row["file"]).stem, []).append(row)
    if len(sets) > 1:
        sets["all"] = found.rows
    out = []
    for name, rows in sets.items():
        plain = {(row["file"], row["record"]): row for row in rows if row["method"] == "greedy" and row["forward_seconds"]}
        for label in labels:
            mine = [row for row in rows if row["method"] == label and row["tokens"]]
            if mine:
                out.append({"set": name, **_summary(label, mine, plain)})
    return out


def _summary(
    label: str, rows: Sequence[Mapping[str, Any]], plain: Mapping[tuple[str, int], Mapping[str, Any]]
) -> dict[str, Any]:
    tokens, steps = sum(row["tokens"] for row in rows), sum(row["steps"] for row in rows)
    passes = sum(steps for row in rows for _, steps in row["passes"])
    nodes = sum(n * count for row in rows for n, count in row["passes"])
    both = [(row, plain[key]) for row in rows if (key := (row["file"], row["record"])) in plain and _seconds(row)]
    measured = [Pair(row["tokens"], _seconds(row), other["tokens"], _seconds(other)) for row, other in both]
    speedup, low, high = interval([[each] for each in measured]) if measured else (None, None, None)
    return {
        "method": label,
        "transcripts": len(rows),
        "tokens": tokens,
        "steps": steps,
        "tokens_per_step": tokens / steps,
        "acceptance_rate": share(rows, lambda row: row["accepted"], lambda row: row["drafted"]),
        "nodes_per_pass": nodes / passes if passes else None,
        "draft_microseconds": sum(row["draft_seconds"] for row in rows) / passes * 1e6 if passes else None,
        "measured_speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "tokens_per_second": tokens / sum(map(_seconds, rows)) if measured else None,
    }


def _seconds(row: Mapping[str, Any]) -> float:
    return float(row["forward_seconds"] + row["draft_seconds"])


RECORD = ("file", "line", "method", "prompt", "tokens", "steps", "drafted", "accepted")
"""What `--json` tells of each record and method."""

COLUMNS = (
    ("tokens a pass", "tokens_per_step", "{:.2f}"),
    ("acceptance", "acceptance_rate", "{:.0%}"),
    ("nodes/pass", "nodes_per_pass", "{:.1f}"),
    ("µs/draft", "draft_microseconds", "{:.0f}"),
    ("speedup", "measured_speedup", "{:.2f}×"),
    ("95%", "interval", "{}"),
    ("tokens/s", "tokens_per_second", "{:.1f}"),
)


def _print(request: ReplayRequest, found: Replayed, labels: Sequence[str]) -> None:
    results = summarise(found, labels)
    cells = [{**row, "interval": row["speedup_low"] and span(row["speedup_low"], row["speedup_high"])} for row in results]
    shown = [column for column in COLUMNS if any(row[column[1]] is not None for row in cells)]
    several = len({row["set"] for row in results}) > 1
    head = [*(("set",) if several else ()), "method", *(title for title, _, _ in shown)]
    rows = [
        [
            *((row["set"],) if several else ()),
            row["method"],
            *("–" if row[key] is None else form.format(row[key]) for _, key, form in shown),
        ]
        for row in cells
    ]
    write_table(request.markdown, head, rows)
    if request.as_json:
        report = {
            "transcripts": [str(path) for path in found.files],
            "results": results,
            "problems": found.problems,
            "records": [{key: row[key] for key in RECORD} for row in found.rows],
            **measured_with(),
        }
        print(json.dumps(report, ensure_ascii=False))
        return
    show_table(head, rows, left=2 if several else 1, spare=("µs/draft", "nodes/pass", "acceptance"))
    if not request.over_model:
        say("To measure how much faster an answer is here, name a model with --model or --on-model.")
