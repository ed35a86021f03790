"""The run: which measurement comes next, and writing each one down, so that a run that was killed goes on where it was."""

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
from .servers import choose_servers, is_server, place, refuse
from .statistics import compare, span, summarise


def print_report(bench: BenchRun) -> None:
    """Write every form that was asked for."""
    request = bench.request
    report = report_of(bench)
    head, rows, best = table(report["results"], bench.base)
    about = [_heading(report), report["headline"], AVERAGED, _crowd(report["machine"], request.clock)]
    about = [*filter(None, about), _measured_on(report)]
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
    show_table(head, rows, left=2, spare=("forward", "draft", "nodes/tok", "FLOPs/tok", "accepted", "95%"), bold=best)
    if report["comparisons"]:
        say("")
        say("Head to head, how many times as fast:")
        show_table(*_comparisons(report["comparisons"]), left=3)
    for said in about[1:]:
        say(said)


def report_of(bench: BenchRun) -> dict[str, Any]:
    """Return the object that `--json` prints, None for what was not measured."""
    request, info = bench.request, bench.info
    results = summarise(bench.rows, bench.labels, bench.base, request.clock)
    return {
        "model": info.name,
        "backend": info.backend,
        "device": info.device,
        "dtype": info.dtype,
        "options": {name: value for name, value in request.settings.load_options().items() if name != "servers"},
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


def measured_with(load: Sequence[float] | None = None) -> dict[str, Any]:
    """The machine and its load (by default that of now), the versions and the command, for those who measure again."""
    return {
        "machine": {**machine(), "load": loads() if load is None else load},
        "versions": {name: version for name, version in versions([]).items() if version},
        "command": shell_line("specchat", *sys.argv[1:]),
    }


AVERAGED = (
    "Every figure is a quotient of totals over all answers: tokens ÷ passes, tokens ÷ seconds, the prompt’s "
    "included. A speedup is tokens/s ÷ plain decoding’s tokens/s on the same prompts. Draft and forward are shares of the wall "
    "clock without the prompt’s."
)
"""The sentence about the averages of rows."""

FEW_PROMPTS = 8
"""Prompts below which an interval with 1 in it says more about the prompts than about the method."""


def headline(results: Sequence[Mapping[str, Any]], base: str) -> str:
    """The best method over all prompts, and how certain that is: `lookup 1.83×, 95% 0.64 to 9.91: too few prompts to say.`
    Where it is not, also the best that is surely faster than `base`."""
    whole = [row for row in results if row["category"] == results[-1]["category"] and row["method"] != base]
    known = sorted((row for row in whole if row["speedup"] is not None), key=lambda row: row["speedup"], reverse=True)
    sure = next((row for row in known if round(row["speedup_low"] or 0, 2) > 1), None)
    return " ".join(_certainty(row, base) for row in known if row is known[0] or row is sure)


def _certainty(row: Mapping[str, Any], base: str) -> str:
    low, high = row["speedup_low"], row["speedup_high"]
    said = f"{row['method']} {row['speedup']:.2f}×" + (f", 95% {span(low, high, ' to ')}" if low is not None else "")
    if low is None or (round(low, 2) <= 1 <= round(high, 2) and row["prompts"] < FEW_PROMPTS):  # as they are read
        return f"{said}: too few prompts to say."
    if round(low, 2) > 1:
        return f"{said}: faster than {base}."
    return f"{said}: not clearly faster than {base}." if round(high, 2) >= 1 else f"{said}: nothing was faster than {base}."


def _measured_on(report: Mapping[str, Any]) -> str:
    """The machine, how busy it was, the versions and the command."""
    here, of = report["machine"], report["versions"]
    load = " to ".join(f"{each:.1f}" for each in here["load"])
    named = ", ".join(f"{name} {of[name]}" for name in ("specchat", "torch", "transformers", "llama-cpp-python") if name in of)
    busy = f", load {load}" if load else ""
    return f"{here['processor']}, {counted(here['threads'], 'hardware thread')}{busy}; {named}. {report['command']}"


def _crowd(here: Mapping[str, Any], clock: str) -> str:
    """A sentence where more programs wanted a processor than there are, ours included."""
    most = max(here["load"], default=0.0)
    if most <= here["threads"] + 1:
        return ""
    advice = (
        "Processor seconds leave out the waiting." if clock == "cpu" else "Run it again when it is idle, or use --clock cpu."
    )
    return f"The machine was busy: load {most:.1f} on {counted(here['threads'], 'hardware thread')}. {advice}"


def comparisons(bench: BenchRun, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours against other packages' method of the same kind; auto against the best fixed method of each category."""
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
                best = max(rivals, key=lambda row: row["speedup"])["method"]
                out += [line for line in compare(bench.rows, [(auto, best)], clock) if line["category"] == category]
    return out


ALWAYS = ("category", "method", "tok/s", "speedup", "95%", "tok/pass", "accepted", "nodes/tok", "same")
"""Columns that are shown though no row has a figure in them."""


def table(results: Sequence[Mapping[str, Any]], base: str = BASE) -> tuple[list[str], list[list[str]], set[int]]:
    """Head, rows by category, and the numbers of each category's best rows. Of servers they say whether the passes are known;
    under a constraint, how many tokens a pass gave besides those that it left no choice about."""
    order = list(dict.fromkeys(row["category"] for row in results))
    ranked = sorted(results, key=lambda row: order.index(row["category"]))
    rows = [_cells(row, base) for row in ranked]
    tops = {name: max((row["speedup"] or 0.0 for row in ranked if row["category"] == name), default=0.0) for name in order}
    head = [title for title in rows[0] if title in ALWAYS or any(row[title] not in ("–", "") for row in rows)]
    best = {i for i, row in enumerate(ranked) if row["speedup"] and row["speedup"] == tops[row["category"]]}
    return head, [[row[title] for title in head] for row in rows], best if len(results) > len(order) else set()


def _cells(row: Mapping[str, Any], base: str) -> dict[str, str]:
    """A row's cells by the titles of their columns."""

    def told(key: str, form: str = ".2f") -> str:
        value = row.get(key)
        return "–" if value is None else f"{value:{form}}"

    return {
        "category": row["category"],
        "method": row["method"],
        "tok/s": told("tokens_per_second", ".1f"),
        "speedup": "–" if row["speedup"] is None else f"{row['speedup']:.2f}×",
        "95%": "" if row["method"] == base else span(row["speedup_low"], row["speedup_high"]),
        "tok/pass": told("tokens_per_step"),
        "own/pass": told("own_tokens_per_step"),
        "accepted": told("acceptance_rate", ".0%"),
        "nodes/tok": told("nodes_per_token"),
        "FLOPs/tok": count_of(row["flops_per_token"] or 0) or "–",
        "thought tok/pass": told("thought_tokens_per_step"),
        "answer tok/pass": told("answer_tokens_per_step"),
        "same": "–" if row["identical"] is None else f"{row['identical']}/{row['prompts']}",
        "draft": told("draft_share", ".0%"),
        "forward": told("forward_share", ".0%"),
        "passes": _known(row.get("certainty", {})),
    }


def _known(sure: Mapping[str, int]) -> str:
    """Whether passes are known: `exact`, or `exact 19, unknown 1`."""
    return "".join(sure) if len(sure) == 1 else ", ".join(f"{name} {count}" for name, count in sure.items())


def _comparisons(lines: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
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


def _heading(report: dict[str, Any]) -> str:
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
"""Most tokens of an answer that does not count."""

WARM_UPS = 3
"""Most such answers of every method: memory is found, kernels are chosen, and what measures the machine has begun to."""

COUNTED = 8
"""Prompts to each further one of them."""

PEERS: Mapping[str, Sequence[str]] = {
    "transformers": ("greedy", "lookup", "draft", "early-exit", "beam"),
    "llama-cpp": ("greedy", "lookup"),
}
"""Other packages → the methods that they implement."""

BACKENDS = {"transformers": "transformers", "llama-cpp": "llama.cpp"}
"""Which of our runtimes reads what they read."""


def run_bench(request: BenchRequest) -> int:
    """Measure, print, return the exit code."""
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
        if lab.info.backend != BACKENDS[package]:
            problems.append(f"{package} is left out: it cannot read the files of a {lab.info.backend} model.")
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
            {key: value for key, value in asdict(bench.info).items() if key not in ("load_seconds", "notes")},
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
    key, bench.load = run_key(bench), loads()
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
        bench.load += loads()
        record.close()


def loads() -> list[float]:
    """Return the load average of the last minute as a list, empty where the system has none."""
    return [os.getloadavg()[0]] if hasattr(os, "getloadavg") else []


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
