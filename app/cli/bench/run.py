"""`specchat bench`: the order of the measurements, and the report."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TextIO

from ....engine.catalog import methods
from ....engine.options import DRAFTING, LOADING, ModelInfo
from ....errors import UserError, counted, shell_line
from ...settings.fields import Settings
from ...terminal.output import Notes
from ...text.amounts import time_of
from ..doctor import machine, versions
from .items import Item, PromptSet, read_items
from .lab import BASE, Lab, Spec, TaskOptions, is_server, read_spec, read_specs, say, show_table
from .requests import BenchRequest
from .statistics import Measurement, Result, span, summarise

WARM_UP_TOKENS = 64
"""Most tokens of a warm-up answer, which does not count."""

WARM_UPS = 3
"""Most warm-up answers of every method, in which memory is allocated, kernels are chosen, and passes are timed."""

COUNTED = 8
"""Number of prompts for each further warm-up answer."""

FIRST_TOKENS = 8
"""Length of the answer that shows how a server decodes; llama-server reveals it in no other way."""

PEERS: Mapping[str, tuple[str, Sequence[str]]] = {
    "transformers": ("transformers", ("greedy", "lookup", "draft", "early-exit")),
    "llama-cpp": ("llama.cpp", ("greedy", "lookup")),
}
"""Other packages → our runtime that reads the same files, and the methods that they implement."""

FEW_PROMPTS = 8
"""Number of prompts below which an interval around 1 says more about the prompts than about the method."""

ALWAYS = ("category", "method", "tok/s", "speedup", "95%", "tok/pass", "accepted", "nodes/tok", "same")
"""Columns of bench that stay without figures."""

SPARE = ("µs/draft", "forward", "draft", "nodes/tok", "accepted", "95%", "same", "tok/pass", "tok/s")
"""Columns that a narrow terminal leaves out first, in this order."""


@dataclass(slots=True)
class BenchRun:
    """A run's plan and its measurements."""

    request: BenchRequest
    prompts: PromptSet
    specs: list[Spec] = field(default_factory=list)
    info: ModelInfo = field(default_factory=ModelInfo)
    rows: list[Measurement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    base: str = BASE
    """The method that speedups are measured against; empty where there is none."""
    load: list[float] = field(default_factory=list)
    """The machine's load average at the start and at the end; empty where the system has none."""


def run_bench(request: BenchRequest) -> int:
    """Measure and print; return the exit code."""
    bench = BenchRun(request, read_items(request.prompts, request.limit, request.category))
    notes = Notes()
    for problem in bench.prompts.problems:
        notes.sentence(problem)
    requested = _check_methods(request)
    with Lab(notes) as lab, ExitStack() as stack:
        record: TextIO | None = None
        if request.record is not None:
            try:
                record = stack.enter_context(request.record.open("w", encoding="utf-8"))
            except OSError as error:
                raise UserError(f"Cannot write the record {request.record} ({error.strerror}). Choose another file.") from None
        lab.load(request.settings)
        bench.info = lab.info
        if is_server(request.settings.model, request.settings):
            bench.specs = _choose_servers(bench, lab)
            bench.base = bench.specs[0].label if len(bench.specs) > 1 else ""
        else:
            bench.specs = _choose_methods(bench, lab, requested)
        for problem in bench.problems:
            notes.sentence(problem)
        _measure(bench, lab, record)
    if bench.rows:
        print_report(bench)
    return lab.code


def _check_methods(request: BenchRequest) -> list[Spec]:
    """Parse the methods of a request; check that its model and what it is compared with fit together.

    Raises:
        UserError: they do not.
    """
    settings = request.settings
    if is_server(settings.model, settings):
        if request.methods or settings.constraint is not None or request.clock == "cpu":
            raise UserError("A server decides how it decodes. Leave out --methods, --clock and the schema.")
        if local := [name for name in request.others if not is_server(name, settings)]:
            raise UserError(f"A server is compared with servers: --against takes their addresses, not {local[0]!r}.")
        return []
    for name in request.others:
        package, _, method = name.partition("/")
        if package not in PEERS or (method and method not in PEERS[package][1]):
            raise UserError(
                f"--against takes {', '.join(PEERS)}, or one of their methods such as transformers/lookup, not {name!r}; "
                "servers are compared with a server in --model."
            )
    if request.others and settings.constraint is not None:
        raise UserError("Other implementations are not constrained here. Leave out --against, or the schema.")
    return read_specs(request.methods) if request.methods else []


def _choose_servers(bench: BenchRun, lab: Lab) -> list[Spec]:
    """List the servers of a run, the plain one first, by their methods; where two have the same method, by address too."""
    request = bench.request
    model = request.settings.model
    item = bench.prompts.items[0]
    messages = replace(item, turns=item.turns[:1]).chat(None)
    decodes: dict[str, str] = {}
    for name in (*(name for name in request.others if name != model), model):
        lab.notes.progress(f"asking {name} how it decodes")
        at = server_address(name, request.settings)
        decodes[name] = lab.work("answer", at=at, max_tokens=FIRST_TOKENS, messages=messages)["decodes"]
    used = list(decodes.values())
    return [
        Spec(method if used.count(method) == 1 else f"{method} {name}", method, {}, server=name)
        for name, method in decodes.items()
    ]


def server_address(name: str, settings: Settings) -> dict[str, object] | None:
    """Return the address of a server for the task `answer`; None for the loaded one."""
    return None if name == settings.model else {"model": name, "servers": settings.servers}


def _choose_methods(bench: BenchRun, lab: Lab, requested: Sequence[Spec]) -> list[Spec]:
    """List the methods of this run, plain decoding first; those that cannot run here become problems."""
    assert lab.loaded is not None
    unavailable = lab.loaded.unavailable
    specs = {BASE: read_spec(BASE)}
    default = [read_spec(name) for name, method in methods().items() if method.compared and name not in unavailable]
    for spec in requested or default:
        if reason := unavailable.get(spec.name):
            bench.problems.append(f"The method {spec.name} is left out: {reason}")
        else:
            specs.setdefault(spec.label, spec)
    ours = {spec.name for spec in specs.values()}
    for name in bench.request.others:
        package, _, method = name.partition("/")
        runtime, kinds = PEERS[package]
        if lab.info.backend != runtime:
            bench.problems.append(f"{package} is left out: it cannot read the files of a {lab.info.backend} model.")
            continue
        # A method without a counterpart among ours would only take time.
        for label in [name] if method else [f"{package}/{kind}" for kind in kinds if kind in ours]:
            try:
                lab.work("peer", method=label)
            except UserError as error:
                bench.problems.append(f"{label} is left out: {error}")
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


def _measure(bench: BenchRun, lab: Lab, record: TextIO | None) -> None:
    request = bench.request
    items = bench.prompts.items
    settings = request.settings
    plain_texts: dict[str, str] = {}
    """Plain decoding's answers by item, for the turns that follow."""

    def build_prompt(item: Item) -> TaskOptions:
        if request.raw and len(item.turns) == 1:
            return {"prompt": item.turns[0], "raw": True}
        before = [item.question, *(f"{item.question}/{number}" for number in range(2, len(item.turns)))]
        return {"messages": item.chat(settings.system, [plain_texts.get(id, "") for id in before])}

    bench.load = loads()
    try:
        uncounted = min(WARM_UPS, 1 + len(items) // COUNTED)
        for turn in range(uncounted):
            for spec in bench.specs:
                lab.notes.progress(f"warming up {spec.label}")
                item = items[turn * len(items) // uncounted]
                measure_answer(lab, settings, item, spec, build_prompt(item), min(WARM_UP_TOKENS, request.max_tokens))
        steps = list(plan(items, bench.specs, request.rounds))
        started = time.monotonic()
        for done, (turn, item, spec) in enumerate(steps):
            lab.check()
            left = f", about {time_of((time.monotonic() - started) / done * (len(steps) - done))} left" if done else ""
            lab.notes.progress(f"{done} of {counted(len(steps), 'answer')}{left}: {item.category}, {spec.label}")
            prompt = build_prompt(item)
            row = measure_answer(lab, settings, item, spec, prompt, request.max_tokens)
            row["round"] = turn
            if record is not None:
                record.write(json.dumps({**prompt, **row}) + "\n")
                record.flush()
            if spec.label == (bench.base or bench.specs[0].label):
                plain_texts.setdefault(item.id, row.get("text", ""))
            row.pop("text", None)
            row.pop("token_ids", None)
            row.pop("prompt_ids", None)
            bench.rows.append(row)
    finally:
        bench.load += loads()


def measure_answer(
    lab: Lab,
    settings: Settings,
    item: Item,
    spec: Spec,
    prompt: TaskOptions,
    limit: int,
    *,
    past: bool = False,
) -> Measurement:
    """Measure one answer of at most `limit` tokens; return its figures, or its error.

    Args:
        lab: with the model.
        settings: constraint, settings of methods, servers.
        item: the prompt's place in the report.
        spec: the method.
        prompt: `prompt` and `raw`, or `messages`, as the task `answer` takes them.
        limit: most tokens.
        past: draft from the past answers that the task `past` has opened.
    """
    row = Measurement(item=item.id, category=item.category, method=spec.label)
    options: TaskOptions = {"at": server_address(spec.server, settings)}
    if not spec.server:
        params = settings.methods.get(spec.name, {})
        options = {"method": spec.name, "settings": {**params, **spec.settings}, "past": past}
    if settings.constraint is not None:
        options = {**options, "constraint": settings.constraint}
    try:
        answer = lab.work("answer", max_tokens=limit, **prompt, **options)
    except UserError as error:
        lab.notes.sentence(f"{spec.label} on prompt {item.id}: {error}")
        row["error"] = str(error)
        return row
    tokens = answer.pop("tokens")
    answer.setdefault("count", len(tokens))
    same = answer["text"] if spec.server else tokens  # not all servers send ids
    measured: Measurement = answer | row
    measured["token_ids"] = tokens
    measured["digest"] = hashlib.sha256(repr(same).encode()).hexdigest()[:16]
    return measured


def loads() -> list[float]:
    """Return the load average of the last minute as a list, empty where the system has none."""
    return [os.getloadavg()[0]] if hasattr(os, "getloadavg") else []


def print_report(bench: BenchRun) -> None:
    """Write the report in every form of the request."""
    request = bench.request
    results = summarise(bench.rows, [spec.label for spec in bench.specs], bench.base, request.clock)
    verdict = headline(results, bench.base)
    head, rows, best = table(results, bench.base)
    about = [_heading(bench), verdict, _busy(bench.load, request.clock), _measured_on(bench.load)]
    about = [sentence for sentence in about if sentence]
    if request.markdown is not None:
        marked = [[f"**{cell}**" if cell else "" for cell in row] if i in best else row for i, row in enumerate(rows)]
        lines = [head, ["---"] + ["---:"] * (len(head) - 1), *marked]
        markdown = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
        request.markdown.write_text("\n\n".join([*about, "".join(markdown)]), encoding="utf-8")
    if request.as_json:
        settings = request.settings
        report = {
            **{name: getattr(bench.info, name) for name in ("backend", "device", "dtype")},
            "model": bench.info.name,
            "options": {name: getattr(settings, name) for name in ("draft_model", *DRAFTING, *LOADING)},
            "servers": {spec.label: spec.server for spec in bench.specs if spec.server},
            "prompts": len(bench.prompts.items),
            "prompt_set": bench.prompts.name,
            **{name: getattr(request, name) for name in ("rounds", "max_tokens", "clock")},
            "headline": verdict,
            "results": [asdict(row) for row in results],
            "problems": [*bench.prompts.problems, *bench.problems],
            "errors": sum("error" in row for row in bench.rows),
            **measured_with(bench.load),
        }
        print(json.dumps(report, ensure_ascii=False))
        return
    say(about[0])
    show_table(head, rows, left=2, spare=SPARE, bold=best)
    for sentence in about[1:]:
        say(sentence)


def measured_with(load: Sequence[float] | None = None) -> dict[str, object]:
    """Describe the machine, its load (by default the present one), the versions and the command, as --json prints them."""
    return {
        "machine": {**asdict(machine()), "load": loads() if load is None else load},
        "versions": {name: version for name, version in versions().items() if version},
        "command": shell_line("specchat", *sys.argv[1:]),
    }


def headline(results: Sequence[Result], base: str) -> str:
    """Name the best method over all prompts, with its certainty: `lookup 1.83×, 95% 0.64 to 9.91: too few prompts to say.`
    If that is uncertain, also the best one that is certainly faster than `base`."""
    overall = [row for row in results if row.category == results[-1].category and row.method != base and row.speedup]
    ranked = sorted(overall, key=lambda row: -(row.speedup or 0))
    certain = next((row for row in ranked if round(row.speedup_low or 0, 2) > 1), None)
    return " ".join(_certainty(row, base) for row in ranked if row is ranked[0] or row is certain)


def _certainty(row: Result, base: str) -> str:
    low = row.speedup_low
    high = row.speedup_high
    figures = f"{row.method} {row.speedup:.2f}×" + (f", 95% {span(low, high, ' to ')}" if low is not None else "")
    # Rounded as they are printed.
    if low is None or high is None or (round(low, 2) <= 1 <= round(high, 2) and row.prompts < FEW_PROMPTS):
        return f"{figures}: too few prompts to say."
    if round(low, 2) > 1:
        return f"{figures}: faster than {base}."
    verdict = f"not clearly faster than {base}" if round(high, 2) >= 1 else f"nothing was faster than {base}"
    return f"{figures}: {verdict}."


def _heading(bench: BenchRun) -> str:
    request = bench.request
    info = bench.info
    threads = counted(count, "thread") if (count := request.settings.threads) else ""
    place = f"{info.device} ({', '.join(filter(None, (info.backend, info.dtype, threads)))})"
    if bench.specs[0].server:
        place = ", ".join(f"{spec.server} ({spec.label})" for spec in reversed(bench.specs))
    return (
        f"{info.name} on {place}: {counted(len(bench.prompts.items), 'prompt')} of {bench.prompts.name}, "
        f"{counted(request.rounds, 'round')}, at most {counted(request.max_tokens, 'token')}, "
        f"{'processor seconds' if request.clock == 'cpu' else 'wall clock'}."
    )


def _measured_on(load: Sequence[float]) -> str:
    """Name the machine, its load, the versions and the command."""
    computer = machine()
    packages = versions()
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


def table(
    results: Sequence[Result], base: str = BASE, always: Sequence[str] = ALWAYS
) -> tuple[list[str], list[list[str]], set[int]]:
    """Make the table: its head, its rows by category, and the numbers of each category's best rows. Rows of servers say whether
    the passes are known; under a constraint, rows have the tokens a pass that it did not force."""
    order = list(dict.fromkeys(row.category for row in results))
    ranked = sorted(results, key=lambda row: order.index(row.category))
    rows = [_cells(row, base) for row in ranked]
    tops = {name: max(row.speedup or 0.0 for row in ranked if row.category == name) for name in order}
    head = [title for title in rows[0] if title in always or any(row[title] not in ("–", "") for row in rows)]
    best = {i for i, row in enumerate(ranked) if row.speedup and row.speedup == tops[row.category]}
    return head, [[row[title] for title in head] for row in rows], best if len(results) > len(order) else set()


def _cells(row: Result, base: str) -> dict[str, str]:
    """Write a row's cells, by the titles of their columns."""

    def figure(value: float | None, form: str = ".2f") -> str:
        return "–" if value is None else f"{value:{form}}"

    return {
        "category": row.category,
        "method": row.method,
        "tok/s": figure(row.tokens_per_second, ".1f"),
        "speedup": "–" if row.speedup is None else f"{row.speedup:.2f}×",
        "95%": "" if row.method == base else span(row.speedup_low, row.speedup_high),
        "tok/pass": figure(row.tokens_per_step),
        "own/pass": figure(row.own_tokens_per_step),
        "accepted": figure(row.acceptance_rate, ".0%"),
        "nodes/tok": figure(row.nodes_per_token),
        "same": "–" if row.identical is None else f"{row.identical}/{row.prompts}",
        "draft": figure(row.draft_share, ".0%"),
        "µs/draft": "–" if row.forward_share is not None else figure(row.draft_microseconds, ".0f"),
        "forward": figure(row.forward_share, ".0%"),
        # `exact`, or `exact 19, unknown 1`
        "passes": ", ".join(f"{name} {n}" if len(row.certainty) > 1 else name for name, n in row.certainty.items()),
    }
