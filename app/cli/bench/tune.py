"""`specchat tune`: the fastest method and settings for a model, a device and prompts."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import TypedDict

from ....engine.catalog import elsewhere, get, methods, parse_params
from ....engine.options import ModelInfo
from ....errors import UserError, counted
from ...chat.methods import first_method, known_methods
from ...settings import file as settings_file
from ...settings import locations
from ...settings.fields import Settings
from ...settings.precedence import layers_of, method_changes
from ...settings.toml import join, split
from ...terminal.output import Notes
from ...text.amounts import time_of
from ..exit_codes import ANSWERED, USER
from .items import Item, PromptSet, read_items
from .lab import BASE, BenchRun, Lab, Spec, make_spec, read_spec, read_specs, say, show_table
from .requests import BenchRequest, TuneRequest
from .run import WARM_UP_TOKENS, answer_one, measured_with
from .servers import is_server
from .statistics import Measurement, Pair, interval, pair, ratio, span
from .tune_blocks import TIME_SHARE, Blocks, budget, needs_search, search_blocks, show_blocks

REDUCTION = 3
"""Factor of successive halving: one in REDUCTION candidates reaches the next rung, which has REDUCTION times the prompts."""

FEWEST_PROMPTS = 4
"""Fewest answered prompts for a pick: with fewer, chance would decide."""


class CandidateFields(TypedDict):
    """A candidate's speedup in a rung; None if it was not measured."""

    method: str
    speedup: float | None


class Rung(TypedDict):
    """A round of the search."""

    prompts: int
    kept: int
    """Number of candidates that reach the next rung."""
    candidates: list[CandidateFields]
    """Candidates by rank."""


class Pick(TypedDict):
    """The result of the search."""

    method: str
    settings: dict[str, str]
    spec: str
    """Method with settings, as bench takes it."""
    speedup: float
    speedup_low: float | None
    speedup_high: float | None
    prompts: int
    unclear: str
    """The reason why the pick is not saved as the model's method; empty if it is clearly faster."""


@dataclass(slots=True)
class TuneSearch:
    """The state of the search."""

    request: TuneRequest
    specs: list[Spec]
    items: list[Item]
    measure: Callable[[Item, Spec], Measurement]
    progress: Callable[[str], None] = lambda text: None
    present: str = BASE
    """Label of the model's present method; BASE if it is no candidate. It stays to the end, to be compared with the winner."""
    now: Callable[[], float] = time.monotonic
    rows: dict[tuple[str, str], Measurement] = field(default_factory=dict)
    """Measurements by (prompt, method)."""
    passes: int = 0
    """Forward passes of all candidates, and of the search for blocks; without those of plain decoding, which runs once for
    all."""
    blocks: Blocks = field(default_factory=Blocks)
    """Blocks that early exit can leave out."""
    rungs: list[Rung] = field(default_factory=list)
    out_of_time: bool = False
    tokens: int = 0
    """Tokens of all answers, including the warm-up."""
    seconds: float = 0.0
    """Seconds of these answers."""

    def score(self, label: str, items: Sequence[Item]) -> float:
        """Compute the geometric mean of the paired speedups. The outer eighths are clipped, so that a
        prompt which another program slowed down cannot decide."""
        logs = sorted(math.log(ratio([pair])) for pair in self.pairs(label, items))
        if not logs:
            return 0.0
        cut = len(logs) // 8
        low = logs[cut]
        high = logs[len(logs) - 1 - cut]
        return math.exp(mean(min(max(log, low), high) for log in logs))

    def pairs(self, label: str, items: Sequence[Item], base: str = BASE) -> list[Pair]:
        """Pair a candidate's answers with those of `base`, for the prompts that both have answered."""
        done = {key: row for key, row in self.rows.items() if not row.get("error")}
        both = [(done[item.id, label], done[item.id, base]) for item in items if {(item.id, label), (item.id, base)} <= {*done}]
        paired = (pair(mine, other, self.request.clock) for mine, other in both)
        return [each for each in paired if each is not None]

    def run(self) -> list[Spec]:
        """Search; return the candidates by rank, those of the last rung first."""
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
                    self.progress(
                        f"round {number} of {len(sizes)}, {counted(len(alive), 'candidate')}: {item.category}, {spec.label}"
                    )
                    row = self.rows[item.id, spec.label] = self.measure(item, spec)
                    self.passes += int(row.get("steps", 0)) if spec.label != BASE else 0
                if self.out_of_time:
                    break
            begin = size
            scores = {spec.label: self.score(spec.label, self.items[:size]) for spec in alive}
            alive = sorted(alive, key=lambda spec: -scores[spec.label])
            keep = max(1, math.ceil(len(alive) / REDUCTION)) if number < len(sizes) else 1
            ranking: list[CandidateFields] = [{"method": spec.label, "speedup": scores[spec.label] or None} for spec in alive]
            self.rungs.append({"prompts": size, "kept": keep, "candidates": ranking})
            ranked = [*alive, *(spec for spec in ranked if spec not in alive)]
            if self.out_of_time:
                break
            if number < len(sizes):
                alive = [spec for place, spec in enumerate(alive) if place < keep or spec.label == self.present]
        return ranked

    def whole_seconds(self) -> float:
        """Estimate the seconds of the whole search from the answers so far; 0 without any."""
        alive = len(self.specs)
        before = answers = 0
        for size in rung_sizes(len(self.items), alive):
            answers += (alive + 1) * (size - before)
            alive = math.ceil(alive / REDUCTION)
            before = size
        token_seconds = self.seconds / self.tokens if self.tokens else 0.0
        answers_share = 1 - TIME_SHARE if self.blocks.sets else 1.0
        return token_seconds * (answers * self.request.max_tokens + (len(self.specs) + 1) * WARM_UP_TOKENS) / answers_share

    def too_little(self, prompts: int) -> str:
        """Explain why `prompts` prompts that both the best candidate and plain decoding have answered
        are too few to choose a method; empty if they are enough."""
        if prompts >= FEWEST_PROMPTS:
            return ""
        sentence = "Too little was measured to choose a method, so nothing was saved: "
        sentence += f"it takes {FEWEST_PROMPTS} answered prompts, not {prompts}."
        if len(self.items) < FEWEST_PROMPTS:
            return f"{sentence} Give more prompts."
        if not self.out_of_time:
            return f"{sentence} The messages above say why the others have no answer."
        minutes = math.ceil(self.whole_seconds() / 60)
        return f"{sentence} The whole search takes about {minutes} min. Use --minutes {minutes}, or fewer --methods."


def rung_sizes(prompts: int, candidates: int) -> list[int]:
    """Compute how many prompts are answered by the end of each rung: a ninth, a third, then all; fewer
    rungs for few candidates."""
    sizes = [math.ceil(prompts / REDUCTION**power) for power in (2, 1, 0)]
    needed = 1 + min(2, math.ceil(math.log(max(candidates, 1), REDUCTION)))
    return sorted(set(sizes[-needed:]))


PER_CATEGORY = 4
"""Prompts of each category that the search takes from the built-in set, unless there is a limit."""


def candidates(request: TuneRequest, layers: int, unavailable: Mapping[str, str]) -> list[Spec]:
    """List the candidates: the methods in the request, or all, each with the settings of its grid if it names none."""
    compared = [read_spec(name) for name, method in methods().items() if method.compared]
    out: dict[str, Spec] = {}
    for spec in read_specs(request.methods) if request.methods else compared:
        if spec.name in unavailable or spec.name == BASE:
            continue
        if spec.settings:
            out[spec.label] = spec
            continue
        method = get(spec.name)
        for settings in method.grid(layers):
            try:
                parse_params(method, dict(settings))
            except UserError:
                continue
            variant = make_spec(spec.name, settings)
            out[variant.label] = variant
    if not out:
        raise UserError("None of these methods can run here. `specchat bench` says why; choose others with --methods.")
    return list(out.values())


def interleaved(items: Sequence[Item]) -> list[Item]:
    """Interleave the categories, so that the first n prompts, whatever n, cover them evenly."""
    queues: dict[str, list[Item]] = {}
    for item in items:
        queues.setdefault(item.category, []).append(item)
    longest = max(map(len, queues.values()))
    return [queue[i] for i in range(longest) for queue in queues.values() if i < len(queue)]


def tune(request: TuneRequest) -> int:
    """Search, print and save; return the exit code.

    Raises:
        UserError: the model is a server.
    """
    if is_server(request.settings.model, request.settings):
        raise UserError(
            "A server decides how it decodes. Tune a model of this machine, or compare two servers with `bench --against`."
        )
    prompts = read_items(request.prompts, request.limit or (None if request.prompts else PER_CATEGORY), request.category)
    prompts.items = interleaved([item for item in prompts.items if item.messages or len(item.turns) == 1])
    notes = Notes("auto")
    for problem in prompts.problems:
        notes.sentence(problem)
    search = None
    with Lab(notes) as lab:
        loaded = lab.load(request.settings)
        layers = loaded.model.layers
        specs = candidates(request, layers, loaded.unavailable)
        if request.past:
            past = lab.work("past", files=[str(path.absolute()) for path in request.past])
            notes.sentence(f"Methods draft from {counted(past['answers'], 'past answer')} too ({past['tokens']:,} tokens).")
        started = time.monotonic()
        blocks = _blocks(request, prompts, lab, specs)
        search = _search(request, prompts, lab, with_blocks(specs, blocks, layers))
        search.present = present_method(request.settings, search.specs, loaded.unavailable, loaded.model)
        search.blocks = blocks
        search.passes = blocks.passes
        # The search for blocks and this one share the minutes.
        search.request = replace(request, minutes=request.minutes - (time.monotonic() - started) / 60)
        started = time.monotonic()
        for spec in [read_spec(BASE), *search.specs]:
            notes.progress(f"warming up {spec.label}")
            search.measure(prompts.items[0], spec)
            lab.check()
            if time.monotonic() - started > 6 * request.minutes:  # a tenth of the time
                break
        search.progress = notes.progress
        search.run()
    if search is None or not search.rungs:
        return lab.code
    ranked = [spec for line in search.rungs[-1]["candidates"] for spec in search.specs if spec.label == line["method"]]
    pick = choose(search, ranked)
    too_little = search.too_little(pick["prompts"])
    _report(request, search, lab.info, None if too_little else pick, keep=not request.no_save and lab.code == ANSWERED)
    if too_little and lab.code == ANSWERED:
        notes.sentence(too_little)
        return USER
    return lab.code


def _blocks(request: TuneRequest, prompts: PromptSet, lab: Lab, specs: Sequence[Spec]) -> Blocks:
    if not needs_search(request.methods, specs, lab.info.layers):
        return Blocks()
    most = budget(len(specs), len(prompts.items), request.max_tokens)
    return search_blocks(lab, request.settings, prompts.items, most, 60 * request.minutes * TIME_SHARE, request.clock)


def with_blocks(specs: Sequence[Spec], blocks: Blocks, layers: int) -> list[Spec]:
    """Add the result of the search for blocks to the candidates. That search has scored every exit
    depth, so it replaces early exit's grid."""
    grid = get("early-exit").grid(layers) if blocks.specs else []
    remaining = [spec for spec in specs if not (spec.name == "early-exit" and spec.settings in grid)]
    return list({spec.label: spec for spec in [*remaining, *blocks.specs]}.values())


def without_tuning(settings: Settings) -> Settings:
    """Return the settings without those of methods in the model's own table. An earlier search wrote them there, and they
    would change every candidate."""
    layers = layers_of(settings)
    name, table = layers.of_model()
    tuned = {join(("models", name, *split(key))) for key in table if split(key)[0] == "methods"}
    values = {key: value for key, value in layers.read.values.items() if key not in tuned}
    return replace(settings, methods=replace(layers, read=replace(layers.read, values=values)).settings().methods)


def _search(request: TuneRequest, prompts: PromptSet, lab: Lab, specs: list[Spec]) -> TuneSearch:
    bench = BenchRun(BenchRequest(settings=without_tuning(request.settings)), prompts, specs, lab.info)
    bench.past = bool(request.past)

    def measure(item: Item, spec: Spec) -> Measurement:
        lab.check()
        limit = request.max_tokens if search.progress is not silent else WARM_UP_TOKENS  # `silent` while warming up
        started = time.monotonic()
        row = answer_one(bench, lab, item, spec, {}, limit)
        search.tokens += row.get("count", 0)
        search.seconds += time.monotonic() - started
        return row

    def silent(text: str) -> None:
        """Show nothing, while methods warm up."""

    search = TuneSearch(request, specs, prompts.items, measure, progress=silent)
    return search


def present_method(settings: Settings, specs: Sequence[Spec], unavailable: Mapping[str, str], info: ModelInfo) -> str:
    """Find the candidate that is the model's present method; plain decoding if none is."""
    name = settings.method or first_method(known_methods(), unavailable, settings.model, settings.draft_model, info)
    method = get(name)
    general = without_tuning(settings).methods.get(name, {})
    present = parse_params(method, settings.methods.get(name, {}))
    mine = (spec.label for spec in specs if spec.name == name and parse_params(method, {**general, **spec.settings}) == present)
    return next(mine, BASE)


def unclear(search: TuneSearch, pick: str) -> str:
    """Explain why a pick is not saved: the interval of its speedup over the present method, or over
    plain decoding if it is the present method itself, is not above 1. Empty if it is clearly faster."""
    other = search.present if search.present != pick else BASE
    pairs = search.pairs(pick, search.items, other)
    if pairs and (interval([[pair] for pair in pairs])[1] or 0) > 1:
        return ""
    return f"Nothing was clearly faster than {'plain decoding' if other == BASE else other}, so your settings stay as they are."


def choose(search: TuneSearch, ranked: Sequence[Spec]) -> Pick:
    """Choose the best candidate, or plain decoding if nothing beats it."""
    spec = ranked[0]
    pairs = search.pairs(spec.label, search.items)
    speedup, low, high = interval([[pair] for pair in pairs]) if pairs else (0.0, 0.0, 0.0)
    if speedup < 1:
        spec = read_spec(BASE)
        speedup = low = high = 1.0
    return {
        "method": spec.name,
        "settings": dict(spec.settings),
        "spec": spec.label,
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "prompts": len(pairs),
        "unclear": unclear(search, spec.label),
    }


def _report(
    request: TuneRequest,
    search: TuneSearch,
    info: ModelInfo,
    pick: Pick | None,
    *,
    keep: bool,
) -> None:
    """Save the pick unless it is unclear, and print the search; the pick is None if too little was measured."""
    equivalents: dict[str, tuple[str, str]] = {}
    saved = ""
    if pick:
        equivalents = elsewhere(pick["method"], pick["settings"], next(iter(request.settings.draft_model), "DRAFT"))
        if keep and not pick["unclear"]:
            settings_file.save(method_changes(request.settings.model, pick["method"], pick["settings"]))
            saved = str(locations.settings_file())
    if request.as_json:
        data = {
            "model": info.name,
            "backend": info.backend,
            "device": info.device,
            "prompts": len(search.items),
            "best": pick,
            "rungs": search.rungs,
            "passes": search.passes,
            "blocks": search.blocks.as_dict(),
            "out_of_time": search.out_of_time,
            "equivalents": [
                {"engine": engine, "setting": setting, "note": note} for engine, (setting, note) in equivalents.items()
            ],
            "saved": saved,
            **measured_with(),
        }
        print(json.dumps(data, ensure_ascii=False))
        return
    if search.blocks.sets:
        show_blocks(search.blocks)
    for number, rung in enumerate(search.rungs, 1):
        if not any(line["speedup"] for line in rung["candidates"]):
            continue
        say(f"Round {number}: {counted(len(rung['candidates']), 'candidate')} on {counted(rung['prompts'], 'prompt')}")
        present = search.present if number < len(search.rungs) else ""
        rows = [
            [line["method"], f"{line['speedup']:.2f}×", "kept" if place < rung["kept"] or line["method"] == present else ""]
            if line["speedup"]
            else [line["method"], "–", "not measured"]
            for place, line in enumerate(rung["candidates"])
        ]
        show_table(["method", "mean of the prompts", ""], rows)
    if search.out_of_time:
        say(f"The {time_of(60 * request.minutes)} ran out before the search was finished. Allow more with --minutes.")
    if pick is None:
        return
    say("")
    say(
        f"Best for {info.name} on {info.device}: {pick['spec']}, {pick['speedup']:.2f}× plain decoding by all tokens ÷ "
        f"all seconds, 95% {span(pick['speedup_low'], pick['speedup_high'], ' to ')}, {counted(pick['prompts'], 'prompt')}, "
        f"{counted(search.passes, 'forward pass', 'forward passes')}."
    )
    if saved:
        say(f"Saved as this model's method in {saved}.")
    if pick["unclear"]:
        say(pick["unclear"])
    say("")
    say("In other engines:")
    for engine, (setting, note) in equivalents.items():
        say(f"  {engine}: {setting or note}")
        if setting and note:
            say(f"    {note}")
