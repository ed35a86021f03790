"""`specchat tune`: the fastest method and settings for a model, a device and prompts."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import mean
from typing import Any

from ....engine.catalog import elsewhere, get, methods, parse_params
from ....engine.options import ModelInfo
from ....errors import UserError, counted
from ...chat.methods import first_method, known_methods
from ...settings import locations
from ...settings import precedence as settings_file
from ...settings.fields import Settings
from ...settings.precedence import layers_of, method_changes
from ...settings.toml import join, split
from ...terminal.output import Notes
from ...text.amounts import time_of
from ..exit_codes import ANSWERED, USER
from .items import Item, read_items
from .lab import BASE, Lab, Spec, is_server, make_spec, read_spec, read_specs, say, show_table
from .requests import TuneRequest
from .run import WARM_UP_TOKENS, measure_answer, measured_with
from .statistics import Measurement, Pair, interval, pair, ratio, span

REDUCTION = 3
"""Factor of successive halving: one in REDUCTION candidates reaches the next rung, which has REDUCTION times the prompts."""

FEWEST_PROMPTS = 4
"""Fewest answered prompts for a pick: with fewer, chance would decide."""

PER_CATEGORY = 4
"""Prompts of each category that the search takes from the built-in set, unless there is a limit."""

SETS = 3
"""Sets of blocks that are measured in tokens per second: those with the greatest expected speedups."""

PASSES_SHARE = 12
"""One in PASSES_SHARE forward passes of the grid, as estimated, may go into the search for blocks."""

MOST_PASSES = 1000

TIME_SHARE = 0.2
"""Share of the search for blocks in the time of the whole search."""

TOKENS_PER_PASS = 4
"""Assumption of the estimate."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A round of the search."""

    prompts: int
    speedups: Mapping[str, float | None]
    """Candidate → its speedup, None if it was not measured; the best first."""


@dataclass(frozen=True, slots=True)
class Pick:
    """The result of the search."""

    method: str
    settings: Mapping[str, str]
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
    seconds: float = math.inf
    """Time for the search."""
    now: Callable[[], float] = time.monotonic
    rows: dict[tuple[str, str], Measurement] = field(default_factory=dict)
    """Measurements by (prompt, method)."""
    passes: int = 0
    """Forward passes of all candidates, and of the search for blocks; without those of plain decoding, which runs once for
    all."""
    rungs: list[Rung] = field(default_factory=list)
    out_of_time: bool = False

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
        pairs = (pair(mine, other, self.request.clock) for mine, other in both)
        return [item for item in pairs if item is not None]

    def run(self) -> list[Spec]:
        """Search; return the candidates by rank, those of the last rung first."""
        base = read_spec(BASE)
        deadline = self.now() + self.seconds
        alive = [spec for spec in self.specs if spec.label != BASE]
        ranked: list[Spec] = []
        begin = 0
        sizes = rung_sizes(len(self.items), len(alive))
        for number, size in enumerate(sizes, 1):
            for item in self.items[begin:size]:
                order = [base, *alive]
                random.Random(f"tune/{item.id}").shuffle(order)
                for spec in order:
                    self.out_of_time = self.out_of_time or self.now() > deadline
                    if self.out_of_time:
                        break
                    self.progress(
                        f"round {number} of {len(sizes)}, {counted(len(alive), 'candidate')}: {item.category}, {spec.label}"
                    )
                    row = self.rows[item.id, spec.label] = self.measure(item, spec)
                    self.passes += row.get("steps", 0) if spec.label != BASE else 0
            begin = size
            scores = {spec.label: self.score(spec.label, self.items[:size]) for spec in alive}
            alive = sorted(alive, key=lambda spec: -scores[spec.label])
            keep = max(1, math.ceil(len(alive) / REDUCTION)) if number < len(sizes) else 1
            self.rungs.append(Rung(size, {spec.label: scores[spec.label] or None for spec in alive}))
            ranked = [*alive, *(spec for spec in ranked if spec not in alive)]
            if self.out_of_time:
                break
            if number < len(sizes):
                alive = [spec for place, spec in enumerate(alive) if place < keep or spec.label == self.present]
        return ranked


def rung_sizes(prompts: int, candidates: int) -> list[int]:
    """Compute how many prompts are answered by the end of each rung: a ninth, a third, then all; fewer
    rungs for few candidates."""
    sizes = [math.ceil(prompts / REDUCTION**power) for power in (2, 1, 0)]
    needed = 1 + min(2, math.ceil(math.log(max(candidates, 1), REDUCTION)))
    return sorted(set(sizes[-needed:]))


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
    items = interleaved([item for item in prompts.items if item.messages or len(item.turns) == 1])
    notes = Notes()
    for problem in prompts.problems:
        notes.sentence(problem)
    blocks = Blocks()
    search = None
    with Lab(notes) as lab:
        loaded = lab.load(request.settings)
        specs = candidates(request, loaded.model.layers, loaded.unavailable)
        if request.past:
            past = lab.work("past", files=[str(path.absolute()) for path in request.past])
            notes.sentence(f"Methods draft from {counted(past['answers'], 'past answer')} too ({past['tokens']:,} tokens).")
        settings = without_tuning(request.settings)

        def measure(item: Item, spec: Spec, limit: int = request.max_tokens) -> Measurement:
            lab.check()
            prompt = {"messages": item.chat(settings.system)}
            return measure_answer(lab, settings, item, spec, prompt, limit, past=bool(request.past))

        # The search for blocks, the warm-up and the search among the candidates share the minutes.
        deadline = time.monotonic() + 60 * request.minutes
        if needs_blocks(request, specs, lab.info.layers):
            blocks = search_blocks(lab, request, items, len(specs))
            specs = with_blocks(specs, blocks, lab.info.layers)
        present = present_method(request.settings, specs, loaded.unavailable, loaded.model)
        search = TuneSearch(request, specs, items, measure, notes.progress, present, passes=blocks.passes)
        started = time.monotonic()
        for spec in [read_spec(BASE), *specs]:
            notes.progress(f"warming up {spec.label}")
            measure(items[0], spec, WARM_UP_TOKENS)
            if time.monotonic() - started > 6 * request.minutes:  # a tenth of the time
                break
        search.seconds = deadline - time.monotonic()
        search.run()
    if search is None or not search.rungs:
        return lab.code
    ranked = [spec for label in search.rungs[-1].speedups for spec in search.specs if spec.label == label]
    pick = choose(search, ranked)
    enough = pick.prompts >= FEWEST_PROMPTS
    _report(search, lab.info, blocks, pick if enough else None, keep=not request.no_save and lab.code == ANSWERED)
    if not enough and lab.code == ANSWERED:
        notes.sentence(
            f"Too little was measured to choose a method, so nothing was saved: it takes {FEWEST_PROMPTS} answered prompts, "
            f"not {pick.prompts}. Give more prompts or --minutes, or fewer --methods."
        )
        return USER
    return lab.code


def without_tuning(settings: Settings) -> Settings:
    """Return the settings without those of methods in the model's own table. An earlier search wrote them there, and they
    would change every candidate."""
    layers = layers_of(settings)
    name, table = layers.of_model()
    tuned = {join(("models", name, *split(key))) for key in table if split(key)[0] == "methods"}
    values = {key: value for key, value in layers.read.values.items() if key not in tuned}
    return replace(settings, methods=replace(layers, read=replace(layers.read, values=values)).settings().methods)


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
    why_not = unclear(search, spec.label)
    pairs = search.pairs(spec.label, search.items)
    speedup, low, high = interval([[pair] for pair in pairs]) if pairs else (0.0, 0.0, 0.0)
    if speedup < 1:
        spec = read_spec(BASE)
        speedup = low = high = 1.0
    return Pick(
        method=spec.name,
        settings=spec.settings,
        spec=spec.label,
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
        prompts=len(pairs),
        unclear=why_not,
    )


@dataclass(frozen=True, slots=True)
class BlockSet:
    """Blocks that early exit may leave out, with their score (engine/tasks/block_search.py)."""

    blocks: int
    """Number of blocks that run."""
    agreement: float
    """Share of tokens that the whole model chooses too."""
    cost: float
    """Time of a pass, in passes of the whole model."""
    tokens: int
    """Length of the drafts that suits it."""
    speedup: float
    """Expected speedup."""
    skip: str = ""
    """The blocks left out; empty for all after the first `layers` layers."""
    layers: int = 0

    @property
    def settings(self) -> dict[str, str]:
        """The settings of early exit that leave it out."""
        return {"skip": self.skip} if self.skip else {"layers": str(self.layers)}


@dataclass(frozen=True, slots=True)
class Blocks:
    """The result of the search for attention and MLP blocks that early exit can leave out."""

    passes: int = 0
    """All forward passes: those that wrote the text, scored sets of blocks, and were timed."""
    positions: int = 0
    answers: int = 0
    sets: Sequence[BlockSet] = ()
    """The sets, by expected speedup."""

    @property
    def measured(self) -> list[BlockSet]:
        """The best sets, and the best number of first layers if it is not among them."""
        best = list(self.sets[:SETS])
        if not any(row.layers for row in best):
            best += [row for row in self.sets if row.layers][:1]
        return best

    @property
    def specs(self) -> list[Spec]:
        """The methods to measure: the best sets, with drafts that end where they are unsure; the very best also with drafts of
        the length that suits it."""
        specs = [make_spec("early-exit", row.settings) for row in self.measured]
        if specs:
            length = {"schedule": "constant", "tokens": str(self.sets[0].tokens)}
            specs.insert(1, make_spec("early-exit", {**self.sets[0].settings, **length}))
        return specs


def needs_blocks(request: TuneRequest, specs: Sequence[Spec], layers: int) -> bool:
    """Whether to search for blocks: early exit is a candidate, its settings are open, and the model stops between layers."""
    requested = read_specs(request.methods) if request.methods else []
    is_open = not requested or any(spec.name == "early-exit" and not spec.settings for spec in requested)
    return is_open and layers > 1 and any(spec.name == "early-exit" for spec in specs)


def search_blocks(lab: Lab, request: TuneRequest, items: Sequence[Item], candidates: int) -> Blocks:
    """Search for blocks on the answers to the first of the prompts, which have one turn each. Nothing is found where the
    prompts and tokens allow fewer passes than it takes to score every depth and every block once."""
    most = min(MOST_PASSES, candidates * len(items) * request.max_tokens // TOKENS_PER_PASS // PASSES_SHARE)
    fewest = 3 * lab.info.layers + 60  # some text, the timing, every depth, and every block once
    if most < fewest:
        lab.notes.sentence(
            f"The search for blocks to leave out is skipped. It takes {fewest} forward passes, but so few prompts and tokens "
            f"allow {most}. Give more of them."
        )
        return Blocks()

    def show(data: Any) -> None:
        lab.notes.progress(
            f"blocks to leave out, pass {data['passes']} of at most {data['most']}: without {data['skip']} "
            f"{data['agreement']:.0%} agree"
        )

    prompts = [{"messages": item.chat(request.settings.system)} for item in items]
    seconds = 60 * request.minutes * TIME_SHARE
    try:
        result = lab.work("blocks", show, prompts=prompts, most=most, seconds=seconds, clock=request.clock)
    except UserError as error:
        lab.notes.sentence(f"The search for blocks to leave out is skipped: {error}")
        return Blocks()
    sets = [BlockSet(**row) for row in result["found"]]
    return Blocks(result["passes"], result["positions"], result["answers"], sets)


def with_blocks(specs: Sequence[Spec], blocks: Blocks, layers: int) -> list[Spec]:
    """Add the result of the search for blocks to the candidates. That search has scored every exit
    depth, so it replaces early exit's grid."""
    grid = get("early-exit").grid(layers) if blocks.sets else []
    remaining = [spec for spec in specs if not (spec.name == "early-exit" and spec.settings in grid)]
    return list({spec.label: spec for spec in [*remaining, *blocks.specs]}.values())


def _report(search: TuneSearch, info: ModelInfo, blocks: Blocks, pick: Pick | None, *, keep: bool) -> None:
    """Save the pick unless it is unclear, and print the search; the pick is None if too little was measured."""
    request = search.request
    equivalents: dict[str, tuple[str, str]] = {}
    saved = ""
    if pick:
        equivalents = elsewhere(pick.method, dict(pick.settings), next(iter(request.settings.draft_model), "DRAFT"))
        if keep and not pick.unclear:
            settings_file.save(method_changes(request.settings.model, pick.method, pick.settings))
            saved = str(locations.settings_file())
    if request.as_json:
        data = {
            "model": info.name,
            "backend": info.backend,
            "device": info.device,
            "prompts": len(search.items),
            "best": asdict(pick) if pick else None,
            "rungs": [asdict(rung) for rung in search.rungs],
            "passes": search.passes,
            "blocks": {**asdict(blocks), "measured": [spec.label for spec in blocks.specs]},
            "out_of_time": search.out_of_time,
            "equivalents": [
                {"engine": engine, "setting": setting, "note": note} for engine, (setting, note) in equivalents.items()
            ],
            "saved": saved,
            **measured_with(),
        }
        print(json.dumps(data, ensure_ascii=False))
        return
    if blocks.sets:
        sets = ", ".join(f"{key}={value}" for row in blocks.measured for key, value in row.settings.items())
        say(
            f"Sets of blocks that early exit leaves out, by how often a draft agrees over {counted(blocks.positions, 'token')} "
            f"({counted(blocks.passes, 'forward pass', 'forward passes')}): {sets}"
        )
    for number, rung in enumerate(search.rungs, 1):
        say(f"Round {number}: {counted(len(rung.speedups), 'candidate')} on {counted(rung.prompts, 'prompt')}")
        rows = [[label, f"{speedup:.2f}×" if speedup else "–"] for label, speedup in rung.speedups.items()]
        show_table(["method", "mean of the prompts"], rows)
    if search.out_of_time:
        say(f"The {time_of(60 * request.minutes)} ran out before the search was finished. Allow more with --minutes.")
    if pick is None:
        return
    say("")
    say(
        f"Best for {info.name} on {info.device}: {pick.spec}, {pick.speedup:.2f}× plain decoding by all tokens ÷ "
        f"all seconds, 95% {span(pick.speedup_low, pick.speedup_high, ' to ')}, {counted(pick.prompts, 'prompt')}, "
        f"{counted(search.passes, 'forward pass', 'forward passes')}."
    )
    if saved:
        say(f"Saved as this model's method in {saved}.")
    if pick.unclear:
        say(pick.unclear)
    say("")
    say("In other engines:")
    for engine, (setting, note) in equivalents.items():
        say(f"  {engine}: {setting or note}")
        if setting and note:
            say(f"    {note}")
