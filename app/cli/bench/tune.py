"""`specchat tune`: the fastest method and settings for a model, a device and prompts."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from ....engine.catalog import elsewhere, get, methods, parse_params
from ....engine.options import ModelInfo
from ....errors import UserError, counted
from ...chat.choosing import first_method
from ...chat.methods import known_methods
from ...settings import file as settings_file
from ...settings import locations
from ...settings.fields import Settings
from ...settings.key_path import join
from ...settings.precedence import method_changes
from ...terminal.output import Notes
from ...text.amounts import time_of
from ..exit_codes import ANSWERED, USER
from .items import Item, PromptSet, read_items
from .lab import BASE, BenchRun, Lab, Spec, read_spec, read_specs, say, show_table, spec_of
from .requests import BenchRequest, TuneRequest
from .run import WARM_UP_TOKENS, answer_one, measured_with
from .servers import is_server
from .statistics import Pair, interval, pair, ratio, span
from .tune_blocks import TIME_SHARE, Blocks, budget, search_blocks, show_blocks, wanted

KEPT = 3
"""One in so many candidates goes on to the next rung, which has so many times the prompts."""

LEAST = 4
"""Prompts that a pick must have answered to be one: with fewer, chance decides."""


@dataclass(slots=True)
class TuneSearch:
    """The search as it goes."""

    request: TuneRequest
    specs: list[Spec]
    items: list[Item]
    measure: Callable[[Item, Spec], dict[str, Any]]
    told: Callable[[str], None] = lambda text: None
    default: str = BASE
    """The candidate that is the model's method already. It goes on to the end, so that the winner can be compared with it."""
    now: Callable[[], float] = time.monotonic
    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """(prompt, method) → its row."""
    passes: int = 0
    """Forward passes of all candidates, and of the search for blocks; those of plain decoding are left out, it runs once for
    all."""
    blocks: Blocks = field(default_factory=Blocks)
    """What early exit can leave out."""
    rungs: list[dict[str, Any]] = field(default_factory=list)
    out_of_time: bool = False
    tokens: int = 0
    """Tokens of all answers, those of the warm-up too."""
    seconds: float = 0.0
    """Time that they took."""

    def score(self, label: str, items: Sequence[Item]) -> float:
        """Geometric mean of the paired speedups; those far from the middle half are brought to its edge: a prompt during which
        somebody else had the machine decides nothing."""
        logs = sorted(math.log(ratio([each])) for each in self.pairs(label, items))
        if not logs:
            return 0.0
        cut = len(logs) // 8
        low, high = logs[cut], logs[len(logs) - 1 - cut]
        return math.exp(mean(min(max(log, low), high) for log in logs))

    def pairs(self, label: str, items: Sequence[Item], base: str = BASE) -> list[Pair]:
        """A candidate's answers beside those of `base`, to the prompts that both have answered."""
        done = {key: row for key, row in self.rows.items() if not row.get("error")}
        both = [(done[item.id, label], done[item.id, base]) for item in items if {(item.id, label), (item.id, base)} <= {*done}]
        return [found for mine, other in both if (found := pair(mine, other, self.request.clock)) is not None]

    def run(self) -> list[Spec]:
        """Search; returns the candidates by rank, those that got furthest first."""
        base = read_spec(BASE)
        deadline = self.now() + 60 * self.request.minutes
        alive = [spec for spec in self.specs if spec.label != BASE]
        ranked: list[Spec] = []
        begin = 0
        sizes = rung_sizes(len(self.items), len(alive))
        for number, size in enumerate(sizes, 1):
            for item in self.items[begin:size]:
                order = [base, *alive]
                random.Random(f"tune/{item.id}").shuffle(order)
                for spec in order:
                    if self.now() > deadline:
                        self.out_of_time = True
                        break
                    self.told(
                        f"round {number} of {len(sizes)}, {counted(len(alive), 'candidate')}: {item.category}, {spec.label}"
                    )
                    row = self.rows[item.id, spec.label] = self.measure(item, spec)
                    self.passes += int(row.get("steps", 0)) if spec.label != BASE else 0
                if self.out_of_time:
                    break
            begin = size
            seen = self.items[:size]
            scores = {spec.label: self.score(spec.label, seen) for spec in alive}
            alive = sorted(alive, key=lambda spec: -scores[spec.label])
            keep = max(1, math.ceil(len(alive) / KEPT)) if number < len(sizes) else 1
            line = [{"method": spec.label, "speedup": scores[spec.label] or None} for spec in alive]
            self.rungs.append({"prompts": size, "kept": keep, "candidates": line})
            ranked = [*alive, *(spec for spec in ranked if spec not in alive)]
            if self.out_of_time:
                break
            if number < len(sizes):
                alive = [spec for place, spec in enumerate(alive) if place < keep or spec.label == self.default]
        return ranked

    def whole_seconds(self) -> float:
        """How long the search would take to its end, by what was answered until now; 0 where nothing was."""
        alive, before, answers = len(self.specs), 0, 0
        for size in rung_sizes(len(self.items), alive):
            answers += (alive + 1) * (size - before)
            alive, before = math.ceil(alive / KEPT), size
        each = self.seconds / self.tokens if self.tokens else 0.0
        blocks = 1 - TIME_SHARE if self.blocks.found else 1.0
        return each * (answers * self.request.max_tokens + (len(self.specs) + 1) * WARM_UP_TOKENS) / blocks

    def lacks(self, prompts: int) -> str:
        """What it takes to choose a method, where the best candidate and plain decoding have answered so many prompts; empty
        where that is enough."""
        if prompts >= LEAST:
            return ""
        said = "Too little was measured to choose a method, so nothing was saved: "
        said += f"it takes {LEAST} answered prompts, not {prompts}."
        if len(self.items) < LEAST:
            return f"{said} Give more prompts."
        if not self.out_of_time:
            return f"{said} The messages above say why the others have no answer."
        minutes = math.ceil(self.whole_seconds() / 60)
        return f"{said} The whole search takes about {minutes} min. Use --minutes {minutes}, or fewer --methods."


def rung_sizes(prompts: int, candidates: int) -> list[int]:
    """Prompts answered by the end of each rung: a ninth and a third of them, then all; fewer rungs for few candidates."""
    sizes = [math.ceil(prompts / KEPT**power) for power in (2, 1, 0)]
    needed = 1 + min(2, math.ceil(math.log(max(candidates, 1), KEPT)))
    return sorted(set(sizes[-needed:]))


EACH = 4
"""Prompts of each category of the built-in set."""


def candidates(request: TuneRequest, loaded: ModelInfo, unavailable: Mapping[str, str]) -> list[Spec]:
    """What is tried: the methods that were named, each with its grid of settings unless some were given with it, or all."""
    unasked = [read_spec(name) for name, method in methods().items() if method.compared]
    wanted = read_specs(request.methods) if request.methods else unasked
    out: dict[str, Spec] = {}
    for spec in wanted:
        if spec.name in unavailable or spec.name == BASE:
            continue
        if spec.settings:
            out[spec.label] = spec
            continue
        method = get(spec.name)
        for settings in method.grid(loaded.layers):
            try:
                parse_params(method, dict(settings))
            except UserError:
                continue
            made = spec_of(spec.name, settings)
            out[made.label] = made
    if not out:
        raise UserError("None of these methods can run here. `specchat bench` says why; choose others with --methods.")
    return list(out.values())


def in_turn(items: Sequence[Item]) -> list[Item]:
    """Prompts in an order in which every beginning holds the categories evenly."""
    queues: dict[str, list[Item]] = {}
    for item in items:
        queues.setdefault(item.category, []).append(item)
    longest = max(map(len, queues.values()))
    return [queue[i] for i in range(longest) for queue in queues.values() if i < len(queue)]


def tune(request: TuneRequest) -> int:
    """Search, print, save; return the exit code.

    Raises:
        UserError: the model is a server.
    """
    if is_server(request.settings.model, request.settings):
        raise UserError(
            "A server decides how it decodes. Tune a model of this machine, or compare two servers with `bench --against`."
        )
    prompts = read_items(request.prompts, request.limit or (None if request.prompts else EACH), request.category)
    prompts.items = in_turn([item for item in prompts.items if item.messages or len(item.turns) == 1])
    notes = Notes("auto")
    for problem in prompts.problems:
        notes.sentence(problem)
    search = None
    with Lab(notes) as lab:
        loaded = lab.load(request.settings)
        specs = candidates(request, loaded.model, loaded.unavailable)
        if request.past:
            past = lab.work("past", files=[str(path.absolute()) for path in request.past])
            notes.sentence(f"Methods draft from {counted(past['answers'], 'past answer')} too ({past['tokens']:,} tokens).")
        started = time.monotonic()
        blocks = _blocks(request, prompts, lab, specs)
        layers = loaded.model.layers
        search = _search(request, prompts, lab, joined(specs, blocks, layers))
        search.default = in_force(request.settings, search.specs, loaded.unavailable, loaded.model)
        search.blocks, search.passes = blocks, blocks.passes
        # Both are to be done within the time that was given.
        search.request = replace(request, minutes=request.minutes - (time.monotonic() - started) / 60)
        started = time.monotonic()
        for spec in [read_spec(BASE), *search.specs]:
            notes.progress(f"warming up {spec.label}")
            search.measure(prompts.items[0], Spec(spec.label, spec.name, spec.settings))
            lab.check()
            if time.monotonic() - started > 6 * request.minutes:  # a tenth of the time
                break
        search.told = notes.progress
        search.run()
    if search is None or not search.rungs:
        return lab.code
    ranked = [spec for line in search.rungs[-1]["candidates"] for spec in search.specs if spec.label == line["method"]]
    found = result_of(search, ranked)
    lacks = search.lacks(found["prompts"])
    found["unclear"] = unclear(search, found["spec"])
    _report(request, search, lab.info, None if lacks else found, keep=not request.no_save and lab.code == ANSWERED)
    if lacks and lab.code == ANSWERED:
        notes.sentence(lacks)
        return USER
    return lab.code


def _blocks(request: TuneRequest, prompts: PromptSet, lab: Lab, specs: Sequence[Spec]) -> Blocks:
    if not wanted(request.methods, specs, lab.info):
        return Blocks()
    most = budget(len(specs), len(prompts.items), request.max_tokens)
    return search_blocks(lab, request.settings, prompts.items, most, 60 * request.minutes * TIME_SHARE, request.clock)


def joined(specs: Sequence[Spec], blocks: Blocks, layers: int) -> list[Spec]:
    """The candidates with what the search for blocks found. It has scored every number of first layers, so it takes the place
    of early exit's grid."""
    grid = get("early-exit").grid(layers) if blocks.specs else []
    kept = [spec for spec in specs if not (spec.name == "early-exit" and spec.settings in grid)]
    return list({spec.label: spec for spec in [*kept, *blocks.specs]}.values())


def anew(settings: Settings) -> Settings:
    """The settings without those of methods that an earlier search made the model's own: they would change every candidate."""
    layers = settings.layers
    if layers is None:
        return settings
    methods: dict[str, dict[str, Any]] = {}
    for name, table in settings.methods.items():
        for key, value in table.items():
            whole = join(("methods", name, key))
            if layers.origin(whole).kind == "model":
                value = layers.read.values.get(whole)
            if value is not None:
                methods.setdefault(name, {})[key] = value
    return replace(settings, methods=methods)


def _search(request: TuneRequest, prompts: PromptSet, lab: Lab, specs: list[Spec]) -> TuneSearch:
    bench = BenchRun(BenchRequest(settings=anew(request.settings)), prompts, specs, lab.info)
    bench.past = bool(request.past)

    def measure(item: Item, spec: Spec) -> dict[str, Any]:
        lab.check()
        limit = request.max_tokens if search.told is not silent else WARM_UP_TOKENS
        started = time.monotonic()
        row = answer_one(bench, lab, item, spec, {}, limit)
        search.tokens += row.get("count", 0)
        search.seconds += time.monotonic() - started
        return row

    def silent(text: str) -> None:
        """Tell nothing, while methods warm up."""

    search = TuneSearch(request, specs, prompts.items, measure, told=silent)
    return search


def in_force(settings: Settings, specs: Sequence[Spec], unavailable: Mapping[str, str], info: ModelInfo) -> str:
    """The candidate that is the model's method already; plain decoding where it was not among them."""
    name = settings.method or first_method(known_methods(), unavailable, settings.model, settings.draft_model, info)
    common, own = anew(settings).methods.get(name, {}), settings.methods.get(name, {})
    for spec in specs:
        if spec.name == name:
            method = get(name)
            if parse_params(method, {**common, **spec.settings}) == parse_params(method, dict(own)):
                return spec.label
    return BASE


def unclear(search: TuneSearch, pick: str) -> str:
    """What keeps the pick from becoming the default, in a sentence: the interval of its speedup over the default, or over plain
    decoding if it is the default itself, has 1 in it. Empty where it is clearly faster."""
    other = search.default if search.default != pick else BASE
    found = search.pairs(pick, search.items, other)
    if found and (interval([[each] for each in found])[1] or 0) > 1:
        return ""
    return f"Nothing was clearly faster than {'plain decoding' if other == BASE else other}, so your settings stay as they are."


def result_of(search: TuneSearch, ranked: Sequence[Spec]) -> dict[str, Any]:
    """The pick and how it did."""
    label = ranked[0].label
    found = search.pairs(label, search.items)
    speedup, low, high = interval([[each] for each in found]) if found else (0.0, 0.0, 0.0)
    name, settings = ranked[0].name, ranked[0].settings
    if speedup < 1:  # nothing beats plain decoding here
        label, name, settings, speedup, low, high = BASE, BASE, {}, 1.0, 1.0, 1.0
    return {
        "method": name,
        "settings": dict(settings),
        "spec": label,
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "prompts": len(found),
    }


def _report(
    request: TuneRequest,
    search: TuneSearch,
    info: ModelInfo,
    found: dict[str, Any] | None,
    *,
    keep: bool,
) -> None:
    """Save the pick unless it is unclear, and print it all; None where too little was measured for one."""
    others: dict[str, tuple[str, str]] = {}
    saved = ""
    if found:
        others = elsewhere(found["method"], found["settings"], next(iter(request.settings.draft_model), "DRAFT"))
        if keep and not found["unclear"]:
            settings_file.save(method_changes(request.settings.model, found["method"], found["settings"]))
            saved = str(locations.settings_file())
    if request.as_json:
        data = {
            "model": info.name,
            "backend": info.backend,
            "device": info.device,
            "prompts": len(search.items),
            "best": found,
            "rungs": search.rungs,
            "passes": search.passes,
            "blocks": search.blocks.as_dict(),
            "out_of_time": search.out_of_time,
            "equivalents": [{"engine": engine, "setting": here, "note": note} for engine, (here, note) in others.items()],
            "saved": saved,
            **measured_with(),
        }
        print(json.dumps(data, ensure_ascii=False))
        return
    if search.blocks.found:
        show_blocks(search.blocks)
    for number, rung in enumerate(search.rungs, 1):
        if not any(line["speedup"] for line in rung["candidates"]):
            continue
        say(f"Round {number}: {counted(len(rung['candidates']), 'candidate')} on {counted(rung['prompts'], 'prompt')}")
        default = search.default if number < len(search.rungs) else ""
        rows = [
            [line["method"], f"{line['speedup']:.2f}×", "kept" if place < rung["kept"] or line["method"] == default else ""]
            if line["speedup"]
            else [line["method"], "–", "not measured"]
            for place, line in enumerate(rung["candidates"])
        ]
        show_table(["method", "mean of the prompts", ""], rows)
    if search.out_of_time:
        say(f"The {time_of(60 * request.minutes)} ran out before the search was finished. Allow more with --minutes.")
    if found is None:
        return
    say("")
    say(
        f"Best for {info.name} on {info.device}: {found['spec']}, {found['speedup']:.2f}× plain decoding by all tokens ÷ "
        f"all seconds, 95% {span(found['speedup_low'], found['speedup_high'], ' to ')}, {counted(found['prompts'], 'prompt')}, "
        f"{counted(search.passes, 'forward pass', 'forward passes')}."
    )
    if saved:
        say(f"Saved as this model's method in {saved}.")
    if found["unclear"]:
        say(found["unclear"])
    say("")
    say("In other engines:")
    for engine, (setting, note) in others.items():
        say(f"  {engine}: {setting or note}")
        if setting and note:
            say(f"    {note}")
