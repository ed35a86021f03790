"""`specchat bench`: the order of the measurements, the report, and the record, with which an interrupted run continues."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ....engine.catalog import methods
from ....engine.options import DRAFTING, LOADING
from ....errors import UserError, counted, shell_line
from ....plain_file import cache_folder
from ...settings import locations
from ...terminal.output import Notes
from ...text.amounts import count_of
from ..doctor import machine, versions
from ..exit_codes import ANSWERED
from .items import Item, read_items
from .lab import BASE, BenchRun, Clock, Lab, Spec, fingerprint, is_own, read_spec, read_specs, say, show_table, write_table
from .requests import BenchRequest
from .servers import check_request, choose_servers, is_server, server_address
from .statistics import Comparison, Measurement, Result, compare, span, summarise


def print_report(bench: BenchRun) -> None:
    """Write the report in every form of the request."""
    request = bench.request
    report = make_report(bench)
    head, rows, best = table(report["results"], bench.base)
    about = [_heading(report), report["headline"], AVERAGED, _busy(bench.load, request.clock), _measured_on(bench.load)]
    about = [sentence for sentence in about if sentence]
    write_table(request.markdown, head, rows, "\n\n".join([*about, ""]), best)
    if request.html is not None:
        from ...export.bench_html import bench_html
        from ...export.formats import write
        from ...export.look import settings_look

        write(request.html, bench_html(report, about, head, rows, best, settings_look(request.settings)), overwrite=True)
    if request.as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    say(about[0])
    show_table(head, rows, left=2, spare=SPARE, bold=best)
    if report["comparisons"]:
        say("")
        say("Head to head, how many times as fast:")
        show_table(*_comparisons(report["comparisons"]), left=3)
    for sentence in about[1:]:
        say(sentence)


def make_report(bench: BenchRun) -> dict[str, Any]:
    """Make the object that `--json` prints; None for what was not measured."""
    request = bench.request
    results = summarise(bench.rows, bench.labels, bench.base, request.clock)
    return {
        "model": bench.info.name,
        "backend": bench.info.backend,
        "device": bench.info.device,
        "dtype": bench.info.dtype,
        "options": {name: getattr(request.settings, name) for name in ("draft_model", *DRAFTING, *LOADING)},
        **({"servers": bench.servers} if bench.servers else {}),
        "prompts": len(bench.prompts.items),
        "prompt_set": bench.prompts.name,
        "rounds": request.rounds,
        "max_tokens": request.max_tokens,
        "clock": request.clock,
        "headline": headline(results, bench.base),
        "averaged": AVERAGED,
        "results": results,
        "comparisons": comparisons(bench, results),
        "problems": [*bench.prompts.problems, *bench.problems],
        "errors": sum(1 for row in bench.rows if row.get("error")),
        "record": str(bench.record),
        **measured_with(bench.load),
    }


def measured_with(load: Sequence[float] | None = None) -> dict[str, object]:
    """Describe the machine, its load (by default the present one), the versions and the command, as --json prints them."""
    return {
        "machine": {**asdict(machine()), "load": loads() if load is None else load},
        "versions": {name: version for name, version in versions([]).items() if version},
        "command": shell_line("specchat", *sys.argv[1:]),
    }


AVERAGED = (
    "Every figure is a quotient of totals over all answers: tokens ÷ passes, tokens ÷ seconds, the prompt’s "
    "included. A speedup is tokens/s ÷ plain decoding’s tokens/s on the same prompts. Draft and forward are shares of the wall "
    "clock without the prompt’s."
)
"""The sentence about the averages in a row."""

FEW_PROMPTS = 8
"""Number of prompts below which an interval around 1 says more about the prompts than about the method."""


def headline(results: Sequence[Result], base: str) -> str:
    """Name the best method over all prompts, with its certainty: `lookup 1.83×, 95% 0.64 to 9.91: too few prompts to say.`
    If that is uncertain, also the best one that is certainly faster than `base`."""
    ranked = sorted(
        (row for row in results if row["category"] == results[-1]["category"] and row["method"] != base and row["speedup"]),
        key=lambda row: -(row["speedup"] or 0),
    )
    certain = next((row for row in ranked if round(row["speedup_low"] or 0, 2) > 1), None)
    return " ".join(_certainty(row, base) for row in ranked if row is ranked[0] or row is certain)


def _certainty(row: Result, base: str) -> str:
    low = row["speedup_low"]
    high = row["speedup_high"]
    figures = f"{row['method']} {row['speedup']:.2f}×" + (f", 95% {span(low, high, ' to ')}" if low is not None else "")
    # Rounded as they are printed.
    if low is None or high is None or (round(low, 2) <= 1 <= round(high, 2) and row["prompts"] < FEW_PROMPTS):
        return f"{figures}: too few prompts to say."
    if round(low, 2) > 1:
        return f"{figures}: faster than {base}."
    verdict = f"not clearly faster than {base}" if round(high, 2) >= 1 else f"nothing was faster than {base}"
    return f"{figures}: {verdict}."


def _measured_on(load: Sequence[float]) -> str:
    """Name the machine, its load, the versions and the command."""
    computer = machine()
    packages = versions([])
    names = ("specchat", "torch", "transformers", "llama-cpp-python")
    busy = f", load {' to '.join(f'{average:.1f}' for average in load)}" if load else ""
    listed = ", ".join(f"{name} {packages[name]}" for name in names if packages[name])
    command = shell_line("specchat", *sys.argv[1:])
    return f"{computer.processor}, {counted(computer.threads, 'hardware thread')}{busy}; {listed}. {command}"


def _busy(load: Sequence[float], clock: str) -> str:
    """Warn if more programs wanted a processor than there are, ours included."""
    most = max(load, default=0.0)
    threads = machine().threads
    if most <= threads + 1:
        return ""
    advice = (
        "Processor seconds leave out the waiting." if clock == "cpu" else "Run it again when it is idle, or use --clock cpu."
    )
    return f"The machine was busy: load {most:.1f} on {counted(threads, 'hardware thread')}. {advice}"


def comparisons(bench: BenchRun, results: Sequence[Result]) -> list[Comparison]:
    """Compare our methods with other packages' of the same name, and auto with the best fixed method of each category."""
    clock = bench.request.clock
    peers = [spec for spec in bench.specs if "/" in spec.name]
    kinds = [(spec.label, peer.label) for peer in peers for spec in bench.specs if spec.name == peer.name.partition("/")[2]]
    out = compare(bench.rows, kinds, clock)
    names = {spec.label: spec for spec in bench.specs}
    for auto in (spec.label for spec in bench.specs if spec.name == "auto"):
        for category in dict.fromkeys(row["category"] for row in results):
            rivals = [row for row in results if row["category"] == category and row["speedup"] is not None]
            rivals = [row for row in rivals if is_own(names[row["method"]]) and names[row["method"]].name != "auto"]
            if rivals:
                best = max(rivals, key=lambda row: row["speedup"] or 0)["method"]
                out += [line for line in compare(bench.rows, [(auto, best)], clock) if line["category"] == category]
    return out


ALWAYS = ("category", "method", "tok/s", "speedup", "95%", "tok/pass", "accepted", "nodes/tok", "same")
"""Columns of bench that stay without figures."""

SPARE = ("µs/draft", "forward", "draft", "nodes/tok", "FLOPs/tok", "accepted", "95%")
"""Columns that a narrow terminal leaves out first, in this order."""


def table(
    results: Sequence[Result], base: str = BASE, always: Sequence[str] = ALWAYS
) -> tuple[list[str], list[list[str]], set[int]]:
    """Make the table: its head, its rows by category, and the numbers of each category's best rows. Rows of servers say whether
    the passes are known; under a constraint, rows have the tokens a pass that it did not force."""
    order = list(dict.fromkeys(row["category"] for row in results))
    ranked = sorted(results, key=lambda row: order.index(row["category"]))
    rows = [_cells(row, base) for row in ranked]
    tops = {name: max((row["speedup"] or 0.0 for row in ranked if row["category"] == name), default=0.0) for name in order}
    head = [title for title in rows[0] if title in always or any(row[title] not in ("–", "") for row in rows)]
    best = {i for i, row in enumerate(ranked) if row["speedup"] and row["speedup"] == tops[row["category"]]}
    return head, [[row[title] for title in head] for row in rows], best if len(results) > len(order) else set()


def _cells(row: Result, base: str) -> dict[str, str]:
    """Write a row's cells, by the titles of their columns."""

    def figure(key: str, form: str = ".2f") -> str:
        value = row.get(key)
        return "–" if value is None else f"{value:{form}}"

    return {
        "category": row["category"],
        "method": row["method"],
        "tok/s": figure("tokens_per_second", ".1f"),
        "speedup": "–" if row["speedup"] is None else f"{row['speedup']:.2f}×",
        "95%": "" if row["method"] == base else span(row["speedup_low"], row["speedup_high"]),
        "tok/pass": figure("tokens_per_step"),
        "own/pass": figure("own_tokens_per_step"),
        "accepted": figure("acceptance_rate", ".0%"),
        "nodes/tok": figure("nodes_per_token"),
        "FLOPs/tok": count_of(row["flops_per_token"] or 0) or "–",
        "thought tok/pass": figure("thought_tokens_per_step"),
        "answer tok/pass": figure("answer_tokens_per_step"),
        "same": "–" if row["identical"] is None else f"{row['identical']}/{row['prompts']}",
        "draft": figure("draft_share", ".0%"),
        "µs/draft": "–" if row["forward_share"] is not None else figure("draft_microseconds", ".0f"),
        "forward": figure("forward_share", ".0%"),
        "passes": _passes(row.get("certainty", {})),
    }


def _passes(certainty: Mapping[str, int]) -> str:
    """Write whether passes are known: `exact`, or `exact 19, unknown 1`."""
    return "".join(certainty) if len(certainty) == 1 else ", ".join(f"{name} {n}" for name, n in certainty.items())


def _comparisons(lines: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    head = ["category", "method", "against", "ratio", "95%", "pairs"]
    return head, [
        [
            line["category"],
            line["method"],
            line["against"],
            f"{line['ratio']:.2f}×",
            span(line["low"], line["high"]),
            f"{line['pairs']}",
        ]
        for line in lines
    ]


def _heading(report: Mapping[str, Any]) -> str:
    seconds = "processor seconds" if report["clock"] == "cpu" else "wall clock"
    threads = counted(count, "thread") if (count := report["options"]["threads"]) else ""
    place = f"{report['device']} ({', '.join(filter(None, (report['backend'], report['dtype'], threads)))})"
    if servers := report.get("servers"):
        place = ", ".join(f"{address} ({method})" for method, address in reversed(servers.items()))
    return (
        f"{report['model']} on {place}: "
        f"{counted(report['prompts'], 'prompt')} of {report['prompt_set']}, {counted(report['rounds'], 'round')}, at most "
        f"{counted(report['max_tokens'], 'token')}, {seconds}."
    )


WARM_UP_TOKENS = 64
"""Most tokens of a warm-up answer, which does not count."""

WARM_UPS = 3
"""Most warm-up answers of every method, in which memory is allocated, kernels are chosen, and passes are timed."""

COUNTED = 8
"""Number of prompts for each further warm-up answer."""

PEERS: Mapping[str, Sequence[str]] = {
    "transformers": ("greedy", "lookup", "draft", "early-exit"),
    "llama-cpp": ("greedy", "lookup"),
}
"""Other packages → the methods that they implement."""

BACKENDS = {"transformers": "transformers", "llama-cpp": "llama.cpp"}
"""Other packages → our runtime that reads the same files."""


def run_bench(request: BenchRequest) -> int:
    """Measure and print; return the exit code."""
    bench = BenchRun(request, read_items(request.prompts, request.limit, request.category))
    remote = is_server(request.settings.model, request.settings)
    if remote:
        check_request(request)
    specs = _read_methods(request) if not remote else []
    if request.others and request.settings.constraint is not None:
        raise UserError("Other implementations are not constrained here. Leave out --against, or the schema.")
    notes = Notes("auto")
    for problem in bench.prompts.problems:
        notes.sentence(problem)
    with Lab(notes) as lab:
        lab.load(request.settings)
        bench.info = lab.info
        bench.specs = choose_servers(bench, lab) if remote else _available(request, lab, specs, bench.problems)
        for problem in bench.problems:
            notes.sentence(problem)
        _measure(bench, lab)
    if bench.rows:
        print_report(bench)
        if lab.code != ANSWERED:
            notes.sentence("The table shows what was measured. Repeat the command with --resume to continue.")
    return lab.code


def _read_methods(request: BenchRequest) -> list[Spec]:
    """Parse the methods of a request, and check the implementations that it compares them with."""
    for name in request.others:
        package, _, method = name.partition("/")
        if is_server(name, request.settings):
            raise UserError("Servers are compared with each other: name one with --model too.")
        if package not in PEERS or (method and method not in PEERS[package]):
            raise UserError(
                f"--against takes {', '.join(PEERS)}, or one of their methods such as transformers/lookup, not {name!r}."
            )
    return read_specs(request.methods) if request.methods else []


def _available(request: BenchRequest, lab: Lab, requested: Sequence[Spec], problems: list[str]) -> list[Spec]:
    """List the methods of this run, plain decoding first; those that cannot run here become problems."""
    assert lab.loaded is not None
    unavailable = lab.loaded.unavailable
    specs = {BASE: read_spec(BASE)}
    default = [read_spec(name) for name, method in methods().items() if method.compared and name not in unavailable]
    for spec in requested or default:
        if reason := unavailable.get(spec.name):
            problems.append(f"The method {spec.name} is left out: {reason}")
        else:
            specs.setdefault(spec.label, spec)
    ours = {spec.name for spec in specs.values()}
    for name in request.others:
        package, _, method = name.partition("/")
        if lab.info.backend != BACKENDS[package]:
            problems.append(f"{package} is left out: it cannot read the files of a {lab.info.backend} model.")
            continue
        for kind in [method] if method else PEERS[package]:
            # A method without a counterpart among ours would only take time.
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
    """Yield every measurement in order: all methods on one prompt, side by side and shuffled; then the next prompt; then the
    next round. So whatever slows the machine slows all methods alike."""
    for turn in range(rounds):
        for item in items:
            order = list(specs)
            random.Random(f"{turn}/{item.id}").shuffle(order)
            for spec in order:
                yield turn, item, spec


def run_key(bench: BenchRun) -> str:
    """Hash the conditions of a run. A run with the same ones may continue its record; the number of rounds may grow."""
    request = bench.request
    return fingerprint(
        [
            {key: value for key, value in asdict(bench.info).items() if key not in ("load_seconds", "notes")},
            asdict(request.settings.selection()),
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
    bench.load = loads()
    bench.record = request.record or cache_folder() / "bench" / f"{key}.jsonl"
    record = BenchRecord(bench.record, key, resume=request.resume)
    steps = list(plan(items, bench.specs, request.rounds))
    remaining = [(turn, item, spec) for turn, item, spec in steps if (item.id, spec.label, turn) not in record.rows]
    bench.rows = [row for step in steps if (row := record.rows.get((step[1].id, step[2].label, step[0]))) is not None]
    try:
        uncounted = min(WARM_UPS, 1 + len(items) // COUNTED) if remaining else 0
        for turn in range(uncounted):
            for spec in bench.specs:
                lab.notes.progress(f"warming up {spec.label}")
                answer_one(bench, lab, items[turn * len(items) // uncounted], spec, {}, min(WARM_UP_TOKENS, request.max_tokens))
        clock = Clock(len(remaining))
        for done, (turn, item, spec) in enumerate(remaining):
            lab.check()
            lab.notes.progress(
                f"{done} of {counted(len(remaining), 'answer')}, {clock.left(done)}: {item.category}, {spec.label}"
            )
            row = answer_one(bench, lab, item, spec, record.rows, request.max_tokens)
            row |= Measurement(item=item.id, category=item.category, method=spec.label, round=turn)
            record.add(row)
            bench.rows.append(row)
    finally:
        bench.load += loads()
        record.close()


def loads() -> list[float]:
    """Return the load average of the last minute as a list, empty where the system has none."""
    return [os.getloadavg()[0]] if hasattr(os, "getloadavg") else []


Rows = Mapping[tuple[str, str, int], Measurement]
"""Measurements by (item, method, round)."""


def answer_one(bench: BenchRun, lab: Lab, item: Item, spec: Spec, rows: Rows, limit: int) -> Measurement:
    """Measure one answer; return its figures, or its error."""
    request = bench.request
    options: dict[str, Any]
    if bench.servers:
        options = {"at": server_address(bench.servers[spec.label], request.settings)}
    else:
        params = request.settings.methods.get(spec.name, {}) if "/" not in spec.name else {}
        options = {"method": spec.name, "settings": {**params, **spec.settings}, "past": bench.past}
    prompt: dict[str, Any]
    if request.raw and len(item.turns) == 1:
        prompt = {"prompt": item.turns[0], "raw": True}
    else:
        prompt = {"messages": _messages(bench, item, rows)}
    if (constraint := request.settings.constraint) is not None:
        prompt["constraint"] = constraint
    try:
        answer = lab.work("answer", max_tokens=limit, **prompt, **options)
    except UserError as error:
        lab.notes.sentence(f"{spec.label} on prompt {item.id}: {error}")
        return {"error": str(error)}
    tokens = answer.pop("tokens")
    measured: Measurement = answer
    if bench.servers:
        # Not all of them send ids. With the whole answer and the prompt, the record can be replayed.
        answer |= {**prompt, "token_ids": tokens}
        measured["digest"] = _digest(measured["text"])
        return measured
    measured["count"] = len(tokens)
    measured["digest"] = _digest(tokens)
    answer.pop("prompt_ids", None)
    if spec.label != bench.base:
        del measured["text"]
    return measured


def _digest(answer: object) -> str:
    return hashlib.sha256(repr(answer).encode()).hexdigest()[:16]


def _messages(bench: BenchRun, item: Item, rows: Rows) -> list[dict[str, str]]:
    """Build the chat up to this turn, with plain decoding's answers to the turns before."""
    base = bench.base or bench.labels[0]
    question = item.id.partition("/")[0]
    before = [question, *(f"{question}/{number}" for number in range(2, len(item.turns)))]
    answers = [rows.get((id, base, 0), Measurement()).get("text", "") for id in before]
    return item.chat(bench.request.settings.system, answers)


VERSION = 1
"""Version of the format of a record."""


class BenchRecord:
    """A JSONL file: a header that identifies the run, then a line for every measurement."""

    def __init__(self, path: Path, key: str, *, resume: bool) -> None:
        """Open it; `resume` keeps its measurements, but for a last line that was cut.

        Raises:
            UserError: it belongs to a run with another key, or cannot be written.
        """
        self.path = path
        self.rows: dict[tuple[str, str, int], Measurement] = {}
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
        """Read the measurements; return the number of bytes in whole lines."""
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

    def add(self, row: Measurement) -> None:
        """Write a measurement to the disk at once."""
        self.rows[row["item"], row["method"], row["round"]] = row
        self._write(row)

    def _write(self, row: Mapping[str, object]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
