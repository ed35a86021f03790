"""Servers in bench and tune: what each decodes with, and what its own methods would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....decoders.latency import LatencyCurve, curve_of
from ....engine.catalog import get_served, parse_params, served
from ....engine.options import is_url
from ....errors import UserError, counted
from ...settings.fields import Settings
from .lab import BenchRun, Lab, Spec, say, show_table, spec_of
from .replay import draft_of
from .requests import BenchRequest

FIRST_TOKENS = 8
"""Length of the answer by which a server tells how it decodes; llama-server does so in no other way."""


def is_server(name: str, settings: Settings) -> bool:
    """Whether a name means a server: an address, or one of the settings."""
    return is_url(name) or name.partition("#")[0] in settings.servers


def refuse(request: BenchRequest) -> None:
    """What only a model of this machine can do.

    Raises:
        UserError: it was asked for.
    """
    if request.methods or request.sweep:
        raise UserError("A server decides how it decodes. Leave out --methods and --sweep, and compare servers with --against.")
    if request.settings.constraint is not None:
        raise UserError("A server's constrained answers are not measured here. Leave out the schema.")
    if request.clock == "cpu":
        raise UserError("A server's processor seconds are not known here. Leave out --clock.")
    for name in request.others:
        if not is_server(name, request.settings):
            raise UserError(f"A server is compared with servers: --against takes their addresses, not {name!r}.")


def choose_servers(bench: BenchRun, lab: Lab) -> list[Spec]:
    """The servers of a run, the plain one first, each by what it decodes with; where two decode alike, by its address too. Of a
    pair both are."""
    request = bench.request
    own = request.settings.model
    halves = list(lab.info["server"]["methods"])
    names = [(name, "") for name in request.others if name != own]
    names += [(own, half) for half in (halves if not names else halves[-1:])]
    item = bench.prompts.items[0]
    asked: dict[str, Any] = {"messages": replace(item, turns=item.turns[:1]).chat(None)}
    methods = []
    for name, half in names:
        lab.notes.progress(f"asking {name} how it decodes")
        at = place(name, request.settings)
        methods.append(lab.work("answer", at=at, method=half, max_tokens=FIRST_TOKENS, **asked)["decodes"])
    specs = [
        Spec(method if methods.count(method) == 1 else f"{method} {name} {half}".strip(), half, {"at": name})
        for method, (name, half) in zip(methods, names, strict=True)
    ]
    bench.base = specs[0].label if len(specs) > 1 else ""
    bench.servers = {spec.label: name for spec, (name, _) in zip(specs, names, strict=True)}
    return specs


def place(name: str, settings: Settings) -> dict[str, Any] | None:
    """Where a server is, as the task `answer` takes it; None for the one that is loaded."""
    if name == settings.model:
        return None
    return {"model": name, "servers": {key: dict(table) for key, table in settings.servers.items()}}


ASSUMED = {"passes": [[1, 1.0], [101, 2.0]]}
"""The latency curve of a server that nobody has measured: a pass takes 1% longer for each draft token."""

ASSUMED_DRAFT = 0.1
"""A draft model's pass in passes of the target, where the sizes of the two are not known."""


def candidates_of(engines: Sequence[str], *, draft: bool) -> list[Spec]:
    """Every setting of some servers' own methods that is compared; `draft` says whether there is a draft model."""
    out = []
    for name, method in served().items():
        if method.engine in engines and (draft or not method.needs_draft_model):
            out += [spec_of(name, settings) for settings in method.grid()]
    return out


def predict(
    lab: Lab,
    answers: Sequence[Mapping[str, Any]],
    engines: Sequence[str],
    settings: Settings,
    *,
    draft: bool,
    curve: LatencyCurve | None = None,
    share: float = ASSUMED_DRAFT,
    tokenizer: str = "",
) -> list[dict[str, Any]]:
    """The best setting of each of the servers' own methods, by what it would have made of recorded answers, the fastest first.

    Args:
        lab: its engine replays.
        answers: as the task `replay` takes them.
        settings: name the draft model.
        draft: whether there is one, here or beside the loaded model.
        curve: what the passes take; ASSUMED where nobody knows.
        share: a draft pass's part of a pass of the target.
        tokenizer: folder of the tokenizer, for answers without token ids.
    """
    curve = curve or curve_of(ASSUMED)
    specs = {spec.label: spec for spec in candidates_of(engines, draft=draft)}
    rows: dict[str, list[dict[str, Any]]] = {}

    def take(row: dict[str, Any]) -> None:
        rows.setdefault(row["method"], []).append(row)
        lab.notes.progress(f"servers' own methods: answer {row['record'] + 1} of {row['records']}, {row['method']}")

    methods = [[spec.label, spec.name, dict(spec.settings)] for spec in specs.values()]
    lab.work(
        "replay", take, file="answers", answers=list(answers), methods=methods, tokenizer=tokenizer, draft=draft_of(settings)
    )
    best: dict[str, dict[str, Any]] = {}
    for label, found in rows.items():
        line = _predicted(specs[label], [row for row in found if row["steps"]], curve, share, settings)
        if line and line["expected_speedup"] > best.get(line["method"], {}).get("expected_speedup", 0.0):
            best[line["method"]] = line
    return sorted(best.values(), key=lambda line: (engines.index(line["engine"]), -line["expected_speedup"]))


def _predicted(
    spec: Spec, rows: Sequence[Mapping[str, Any]], curve: LatencyCurve, share: float, settings: Settings
) -> dict[str, Any] | None:
    if not rows:
        return None
    method = get_served(spec.name)
    tokens, steps, drafted = (sum(row[key] for row in rows) for key in ("tokens", "steps", "drafted"))

    each = share * curve.seconds(1) if method.needs_draft_model else 0.0
    plain = sum(curve.plain(row["prompt"], row["tokens"]) for row in rows)
    drafting = sum(curve.drafting(row["prompt"], dict(row["passes"]), row["drafted"] * each, row["tokens"]) for row in rows)
    return {
        "engine": method.engine,
        "method": spec.name,
        "settings": dict(spec.settings),
        "flags": method(parse_params(method, dict(spec.settings))).flags(next(iter(settings.draft_model), "DRAFT")),
        "answers": len(rows),
        "tokens_per_step": tokens / steps,
        "acceptance_rate": sum(row["accepted"] for row in rows) / drafted if drafted else 0.0,
        "expected_speedup": plain / drafting,
    }


def show_predicted(found: Sequence[Mapping[str, Any]], measured: bool) -> None:
    """Print what servers' own methods would bring, and the options that ask for them."""
    if not found:
        return
    say(f"Servers' own methods, replayed on {counted(found[0]['answers'], 'plain answer')}:")
    rows = [
        [
            line["engine"],
            line["method"].partition("/")[2],
            f"{line['tokens_per_step']:.2f}",
            f"{line['acceptance_rate']:.0%}",
            f"{line['expected_speedup']:.2f}×",
        ]
        for line in found
    ]
    show_table(["server", "method", "tok/pass", "accepted", "expected"], rows, left=2)
    for line in found:
        say(f"  {line['engine']}: {line['flags']}")
    if not measured:
        say("Expected if each draft token makes a pass 1% longer and a draft model takes a tenth of it: measure it with bench.")
