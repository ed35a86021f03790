"""The run: which measurement comes next, and writing each one down, so that a run that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ....engine.catalog import methods
from ....errors import UserError, counted
from ....plain_file import cache_folder
from ...settings import locations
from ...terminal.output import Notes
from ..exit_codes import ANSWERED
from .items import Item, read_items
from .lab import BASE, BenchRun, Clock, Lab, Spec, fingerprint, read_spec, read_specs
from .requests import BenchRequest
from .servers import choose_servers, is_server, place, refuse

WARM_UP_TOKENS = 64
"""Most tokens of an answer that does not count."""

WARM_UPS = 3
"""Most such answers of every method: memory is found, kernels are chosen, and what measures the machine has begun to."""

COUNTED = 8
"""Prompts to each further one of them."""

PEERS: Mapping[str, Sequence[str]] = {
    "transformers": ("greedy", "lookup", "draft", "early-exit", "dflash", "mtp", "beam"),
    "llama-cpp": ("greedy", "lookup"),
}
"""Other packages → the methods that they implement."""

BACKENDS = {"transformers": "transformers", "llama-cpp": "llama.cpp"}
"""Which of our runtimes reads what they read."""


def run_bench(request: BenchRequest) -> int:
    """Measure, print, return the exit code."""
    from .report import print_report

    bench = BenchRun(request, read_items(request.prompts, request.limit, request.category))
    remote = is_server(request.settings.model, request.settings)
    if remote:
        refuse(request)
    chosen = _named(request) if not remote else []
    if request.others and request.settings.constraint is not None:
        raise UserError("Other implementations are not constrained here. Leave out --against, or the schema.")
    notes = Notes("auto")
    for problem in bench.prompts.problems:
        notes.sentence(problem)
    with Lab(notes) as lab:
        lab.load(request.settings)
        bench.info = lab.info
        bench.specs = choose_servers(bench, lab) if remote else _available(request, lab, chosen, bench.problems)
        for problem in bench.problems:
            notes.sentence(problem)
        _measure(bench, lab)
    if bench.rows:
        print_report(bench)
        if lab.code != ANSWERED:
            notes.sentence("The table shows what was measured. Repeat the command with --resume to continue.")
    return lab.code


def _named(request: BenchRequest) -> list[Spec]:
    """The methods that were named."""
    for name in request.others:
        package, _, method = name.partition("/")
        if is_server(name, request.settings):
            raise UserError("Servers are compared with each other: name one with --model too.")
        if package not in PEERS or (method and method not in PEERS[package]):
            known = ", ".join(PEERS)
            raise UserError(f"--against takes {known}, or one of their methods such as transformers/lookup, not {name!r}.")
    return read_specs(request.methods) if request.methods else []


def _available(request: BenchRequest, lab: Lab, chosen: Sequence[Spec], problems: list[str]) -> list[Spec]:
    """The methods of this run, plain decoding first; a sentence for each that cannot run here."""
    assert lab.loaded is not None
    unavailable = lab.loaded.unavailable
    specs = {BASE: read_spec(BASE)}
    unasked = [read_spec(name) for name, method in methods().items() if method.compared and name not in unavailable]
    for spec in chosen or unasked:
        if reason := unavailable.get(spec.name):
            problems.append(f"The method {spec.name} is left out: {reason}")
        else:
            specs.setdefault(spec.label, spec)
    ours = {spec.name for spec in specs.values()}
    for name in request.others:
        package, _, method = name.partition("/")
        if lab.info["backend"] != BACKENDS[package]:
            problems.append(f"{package} is left out: it cannot read the files of a {lab.info['backend']} model.")
            continue
        for kind in [method] if method else PEERS[package]:
            # What none of ours is to be compared with would only take time.
            if method or (kind in ours and kind not in unavailable):
                label = f"{package}/{kind}"
                try:
                    lab.work("peer", method=label)
                except UserError as error:
                    problems.append(f"{label} is left out: {error}")
                else:
                    specs.setdefault(label, Spec(label, label, {}))
    return list(specs.values())


def plan(items: Sequence[Item], specs: Sequence[Spec], rounds: int) -> Iterator[tuple[int, Item, Spec]]:
    """Every measurement in its order: all methods on one prompt, side by side, in an order that chance decides; then the next
    prompt; then the next round. So whatever slows the machine slows all methods alike."""
    for turn in range(rounds):
        for item in items:
            order = list(specs)
            random.Random(f"{turn}/{item.id}").shuffle(order)
            for spec in order:
                yield turn, item, spec


def run_key(bench: BenchRun) -> str:
    """What a record must have been measured with to be gone on with; more rounds may follow."""
    request = bench.request
    return fingerprint(
        [
            {key: value for key, value in bench.info.items() if key not in ("load_seconds", "notes")},
            request.settings.load_options(),
            [asdict(item) for item in bench.prompts.items],
            [(spec.label, dict(spec.settings)) for spec in bench.specs],
            {spec.name: dict(request.settings.methods.get(spec.name, {})) for spec in bench.specs},
            request.max_tokens,
            request.raw,
            *([constraint] if (constraint := request.settings.constraint) is not None else []),
        ]
    )


def _measure(bench: BenchRun, lab: Lab) -> None:
    request, items = bench.request, bench.prompts.items
    key = run_key(bench)
    bench.record = request.record or cache_folder() / "bench" / f"{key}.jsonl"
    record = BenchRecord(bench.record, key, resume=request.resume)
    steps = list(plan(items, bench.specs, request.rounds))
    todo = [(turn, item, spec) for turn, item, spec in steps if (item.id, spec.label, turn) not in record.rows]
    bench.rows = [row for step in steps if (row := record.rows.get((step[1].id, step[2].label, step[0]))) is not None]
    try:
        uncounted = min(WARM_UPS, 1 + len(items) // COUNTED) if todo else 0
        for turn in range(uncounted):
            for spec in bench.specs:
                lab.notes.progress(f"warming up {spec.label}")
                answer_one(bench, lab, items[turn * len(items) // uncounted], spec, {}, min(WARM_UP_TOKENS, request.max_tokens))
        clock = Clock(len(todo))
        for done, (turn, item, spec) in enumerate(todo):
            lab.check()
            lab.notes.progress(f"{done} of {counted(len(todo), 'answer')}, {clock.left(done)}: {item.category}, {spec.label}")
            row = answer_one(bench, lab, item, spec, record.rows, request.max_tokens)
            row |= {"item": item.id, "category": item.category, "method": spec.label, "round": turn}
            record.add(row)
            bench.rows.append(row)
    finally:
        record.close()


def answer_one(
    bench: BenchRun, lab: Lab, item: Item, spec: Spec, rows: Mapping[tuple[str, str, int], Mapping[str, Any]], limit: int
) -> dict[str, Any]:
    """One answer's figures, or the error that it ended with."""
    request = bench.request
    how: dict[str, Any]
    if bench.servers:
        how = {"at": place(bench.servers[spec.label], request.settings)}
    else:
        own = request.settings.methods.get(spec.name, {}) if "/" not in spec.name else {}
        how = {"method": spec.name, "settings": {**own, **spec.settings}, "past": bench.past}
    asked: dict[str, Any]
    if request.raw and len(item.turns) == 1:
        asked = {"prompt": item.turns[0], "raw": True}
    else:
        asked = {"messages": _messages(bench, item, rows)}
    if (constraint := request.settings.constraint) is not None:
        asked["constraint"] = constraint
    try:
        found = lab.work("answer", max_tokens=limit, **asked, **how)
    except UserError as error:
        lab.notes.sentence(f"{spec.label} on prompt {item.id}: {error}")
        return {"error": str(error)}
    tokens = found.pop("tokens")
    if bench.servers:
        # Not all of them send ids. With the whole answer, and what was asked, the record can be replayed.
        return {**found, **asked, "digest": _digest(found["text"]), "token_ids": tokens}
    found["count"] = len(tokens)
    found["digest"] = _digest(tokens)
    found.pop("prompt_ids", None)  # which peers do not tell
    if spec.label != bench.base:
        del found["text"]
    return found


def _digest(answer: object) -> str:
    return hashlib.sha256(repr(answer).encode()).hexdigest()[:16]


def _messages(bench: BenchRun, item: Item, rows: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> list[dict[str, str]]:
    """The chat up to this turn, with plain decoding's answers to the turns before."""
    base, question = bench.base or bench.labels[0], item.id.partition("/")[0]
    before = [question, *(f"{question}/{number}" for number in range(2, len(item.turns)))]
    return item.chat(bench.request.settings.system, [str(rows.get((id, base, 0), {}).get("text", "")) for id in before])


VERSION = 1
"""Version of the format of a record."""


class BenchRecord:
    """A JSONL file: a header that says what run it is of, then a line for every measurement."""

    def __init__(self, path: Path, key: str, *, resume: bool) -> None:
        """Open it; `resume` keeps what is there, but for a last line that was cut.

        Raises:
            UserError: it is of a run with another key, or cannot be written.
        """
        self.path = path
        self.rows: dict[tuple[str, str, int], dict[str, Any]] = {}
        """Measurements by (item, method, round)."""
        locations.ensure(path.parent)
        good = self._read(key) if resume else 0
        try:
            self._file = path.open("r+b" if good else "wb")
            self._file.truncate(good)
            self._file.seek(good)
        except OSError as error:
            raise UserError(f"Cannot write the record {path} ({error.strerror}). Choose another with --record.") from None
        if not good:
            self._write({"specchat-bench": VERSION, "key": key})

    def _read(self, key: str) -> int:
        """Take in what is there; the number of bytes that are whole lines."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return 0
        good = 0
        for number, line in enumerate(data.splitlines(keepends=True)):
            try:
                row = json.loads(line)
                if not line.endswith(b"\n"):
                    break
                if number == 0:
                    if row.get("specchat-bench") != VERSION or row.get("key") != key:
                        raise UserError(
                            f"{self.path} is the record of a different run (another model, other prompts, methods or "
                            "settings). Leave out --resume, or choose another record with --record."
                        )
                else:
                    self.rows[row["item"], row["method"], row["round"]] = row
            except (ValueError, KeyError, TypeError, AttributeError):
                if number == 0:
                    return 0
                break
            good += len(line)
        return good

    def add(self, row: dict[str, Any]) -> None:
        """Write a measurement down. It survives whatever happens next."""
        self.rows[row["item"], row["method"], row["round"]] = row
        self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
