"""`specchat tune`: the fastest method and settings for a model, a device and prompts, by successive halving.

Every candidate answers a few prompts beside plain decoding; the fastest third goes on to more of them, and so on. Jamieson and
Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization" (2016), arXiv:1502.07943.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from ....engine.catalog import get, methods, parse_params
from ....errors import UserError
from ...settings.fields import Settings
from ...settings.key_path import join
from ...terminal.output import Notes
from ..interrupts import CANCELLED
from ..oneshot.run import ANSWERED, BROKEN, USER
from .items import Item, PromptSet, read_items
from .lab import Broken, Lab, Spec, Stopped, read_spec, read_specs
from .run import BASE, WARM_UP_TOKENS, Bench, BenchRequest, answer_one
from .statistics import interval, per_token
from .tune_blocks import TIME_SHARE, Blocks, budget, search_blocks, stops_early, wanted
from .tune_report import report

KEPT = 3
"""One in so many candidates goes on to the next rung, which has so many times the prompts."""

LEAST = 4
"""Prompts that a pick must have answered to be one: with fewer, chance decides."""

EACH = 4
"""Prompts of each category of the built-in set."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What `specchat tune` was asked to do."""

    prompts: Path | None
    settings: Settings
    minutes: float = 10.0
    methods: str = ""
    limit: int | None = None
    max_tokens: int = 128
    categories: Sequence[str] = ()
    clock: str = "wall"
    save: bool = True
    exhaustive: bool = False
    """Every candidate on every prompt: what the search is judged against."""
    as_json: bool = False
    color: str = "auto"


@dataclass(slots=True)
class Search:
    """The search as it goes."""

    request: TuneRequest
    specs: list[Spec]
    items: list[Item]
    measure: Callable[[Item, Spec], dict[str, Any]]
    told: Callable[[str], None] = lambda text: None
    now: Callable[[], float] = time.monotonic
    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """By (prompt, method)."""
    passes: int = 0
    """Forward passes of all candidates, and of the search for blocks; those of plain decoding are left out, it runs once for
    all."""
    blocks: Blocks = field(default_factory=Blocks)
    """What early exit can leave out."""
    grid: int = 0
    """Candidates of the exhaustive search, if more than there are here."""
    rungs: list[dict[str, Any]] = field(default_factory=list)
    out_of_time: bool = False
    tokens: int = 0
    """Of all answers, those of the warm-up too."""
    seconds: float = 0.0
    """That they took."""

    def score(self, label: str, items: Sequence[Item]) -> float:
        """Geometric mean of the paired speedups; those far from the middle half are brought to its edge: a prompt during which
        somebody else had the machine decides nothing."""
        logs = sorted(math.log(ratio) for ratio in self.ratios(label, items))
        if not logs:
            return 0.0
        cut = len(logs) // 8
        low, high = logs[cut], logs[len(logs) - 1 - cut]
        return math.exp(mean(min(max(log, low), high) for log in logs))

    def ratios(self, label: str, items: Sequence[Item]) -> list[float]:
        """Speedups on the prompts that both have answered."""
        out = []
        for item in items:
            mine, plain = self.rows.get((item.id, label)), self.rows.get((item.id, BASE))
            if mine and plain and not mine.get("error") and not plain.get("error"):
                clock = self.request.clock
                seconds = per_token(mine, clock)
                if seconds > 0:
                    out.append(per_token(plain, clock) / seconds)
        return out

    def run(self) -> list[Spec]:
        """Search; returns the candidates by rank, those that got furthest first."""
        base = read_spec(BASE)
        deadline = self.now() + 60 * self.request.minutes
        alive = [spec for spec in self.specs if spec.label != BASE]
        ranked: list[Spec] = []
        begin = 0
        sizes = [len(self.items)] if self.request.exhaustive else rung_sizes(len(self.items), len(alive))
        for number, size in enumerate(sizes, 1):
            for item in self.items[begin:size]:
                order = [base, *alive]
                random.Random(f"tune/{item.id}").shuffle(order)
                for spec in order:
                    if self.now() > deadline and not self.request.exhaustive:
                        self.out_of_time = True
                        break
                    self.told(f"rung {number} of {len(sizes)}, {len(alive)} candidates: {item.category}, {spec.label}")
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
            alive = alive[:keep] if number < len(sizes) else alive
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
        """What it takes to choose a method; empty where enough was measured.

        Args:
            prompts: that the best candidate and plain decoding have answered.
        """
        if prompts >= LEAST:
            return ""
        said = "Too little was measured to choose a method, so nothing is saved: "
        said += f"it takes {LEAST} answered prompts, not {prompts}."
        if len(self.items) < LEAST:
            return f"{said} Give more prompts."
        if not self.out_of_time:
            return f"{said} The sentences above say why the others have no answer."
        minutes = math.ceil(self.whole_seconds() / 60)
        return f"{said} The whole search takes about {minutes} min: give --minutes {minutes}, or name fewer --methods."


def rung_sizes(prompts: int, candidates: int) -> list[int]:
    """Prompts answered by the end of each rung: a ninth and a third of them, then all; fewer rungs for few candidates."""
    sizes = [math.ceil(prompts / KEPT**power) for power in (2, 1, 0)]
    needed = 1 + min(2, math.ceil(math.log(max(candidates, 1), KEPT)))
    return sorted(set(sizes[-needed:]))


def candidates(request: TuneRequest, loaded: Mapping[str, Any], unavailable: Mapping[str, str]) -> list[Spec]:
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
        for settings in method.grid(int(loaded.get("layers", 0)), gaps=stops_early(loaded)):
            try:
                parse_params(method, dict(settings))
            except UserError:
                continue
            label = ":".join([spec.name, *(f"{key}={value}" for key, value in settings.items())])
            out[label] = Spec(label, spec.name, settings)
    if not out:
        raise UserError("None of these methods can run here: `specchat bench` says why, or name others with --methods.")
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
        UserError: something in the request can be mended.
    """
    prompts = read_items(request.prompts, request.limit or (None if request.prompts else EACH), request.categories)
    prompts.items = in_turn([item for item in prompts.items if item.messages or len(item.turns) == 1])
    notes = Notes(request.color)
    for problem in prompts.problems:
        notes.sentence(problem)
    code, search = ANSWERED, None
    with Lab(notes) as lab:
        try:
            loaded = lab.load(request.settings)
            specs = candidates(request, loaded.info, loaded.unavailable)
            started = time.monotonic()
            blocks = _blocks(request, prompts, lab, specs)
            layers = int(loaded.info.get("layers", 0))
            search = _search(request, prompts, lab, joined(specs, blocks, layers, exhaustive=request.exhaustive))
            search.blocks, search.passes = blocks, blocks.passes
            search.grid = len({spec.label for spec in [*specs, *blocks.specs]})
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
        except Stopped:
            code = CANCELLED
        except Broken as broken:
            notes.sentence(str(broken))
            code = BROKEN
        info = lab.info
    notes.clear()
    if search is None or not search.rungs:
        return code
    ranked = [spec for line in search.rungs[-1]["candidates"] for spec in search.specs if spec.label == line["method"]]
    found = result_of(search, ranked)
    lacks = search.lacks(found["prompts"])
    report(request, search, info, None if lacks else found, keep=request.save and code == ANSWERED)
    if lacks and code == ANSWERED:
        notes.sentence(lacks)
        return USER
    return code


def _blocks(request: TuneRequest, prompts: PromptSet, lab: Lab, specs: Sequence[Spec]) -> Blocks:
    """The search for blocks, where it is wanted."""
    if not wanted(request.methods, specs, lab.info):
        return Blocks()
    most = budget(len(specs), len(prompts.items), request.max_tokens)
    return search_blocks(lab, request.settings, prompts.items, most, 60 * request.minutes * TIME_SHARE, request.clock)


def joined(specs: Sequence[Spec], blocks: Blocks, layers: int, *, exhaustive: bool = False) -> list[Spec]:
    """The candidates with what the search for blocks found. It has scored every number of first layers, so it takes the place
    of early exit's grid, but in the exhaustive search that it is judged against."""
    grid = get("early-exit").grid(layers) if blocks.specs and not exhaustive else []
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


def _search(request: TuneRequest, prompts: PromptSet, lab: Lab, specs: list[Spec]) -> Search:
    bench = Bench(BenchRequest(request.prompts, anew(request.settings)), prompts, specs, lab.info)

    def measure(item: Item, spec: Spec) -> dict[str, Any]:
        lab.check()
        limit = request.max_tokens if search.told is not silent else WARM_UP_TOKENS
        started = time.monotonic()
        row = answer_one(bench, lab, item, spec, {}, limit)
        search.tokens += row.get("count", 0)
        search.seconds += time.monotonic() - started
        return row

    def silent(text: str) -> None:
        """Nothing is told while methods warm up."""

    search = Search(request, specs, prompts.items, measure, told=silent)
    return search


def result_of(search: Search, ranked: Sequence[Spec]) -> dict[str, Any]:
    """The pick and how it did."""
    label = ranked[0].label
    ratios = search.ratios(label, search.items)
    speedup, low, high = interval([[ratio] for ratio in ratios]) if ratios else (0.0, 0.0, 0.0)
    score = search.score(label, search.items)
    name, settings = ranked[0].name, ranked[0].settings
    if score < 1:  # nothing beats plain decoding here
        label, name, settings, score, speedup, low, high = BASE, BASE, {}, 1.0, 1.0, 1.0, 1.0
    return {
        "method": name,
        "settings": dict(settings),
        "spec": label,
        "speedup": score,
        "median_speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "prompts": len(ratios),
    }
