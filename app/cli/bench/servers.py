"""Servers in bench: what each decodes with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....engine.options import is_url
from ....errors import UserError
from ...settings.fields import Settings
from .lab import BenchRun, Lab, Spec
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
    if request.methods:
        raise UserError("A server decides how it decodes. Leave out --methods, and compare servers with --against.")
    if request.settings.constraint is not None:
        raise UserError("A server's constrained answers are not measured here. Leave out the schema.")
    if request.clock == "cpu":
        raise UserError("A server's processor seconds are not known here. Leave out --clock.")
    for name in request.others:
        if not is_server(name, request.settings):
            raise UserError(f"A server is compared with servers: --against takes their addresses, not {name!r}.")


def choose_servers(bench: BenchRun, lab: Lab) -> list[Spec]:
    """The servers of a run, the plain one first, each by what it decodes with; where two decode alike, by its address too."""
    request = bench.request
    own = request.settings.model
    names = [*(name for name in request.others if name != own), own]
    item = bench.prompts.items[0]
    asked: dict[str, Any] = {"messages": replace(item, turns=item.turns[:1]).chat(None)}
    methods = []
    for name in names:
        lab.notes.progress(f"asking {name} how it decodes")
        at = place(name, request.settings)
        methods.append(lab.work("answer", at=at, max_tokens=FIRST_TOKENS, **asked)["decodes"])
    specs = [
        Spec(method if methods.count(method) == 1 else f"{method} {name}", "", {"at": name})
        for method, name in zip(methods, names, strict=True)
    ]
    bench.base = specs[0].label if len(specs) > 1 else ""
    bench.servers = {spec.label: name for spec, name in zip(specs, names, strict=True)}
    return specs


def place(name: str, settings: Settings) -> dict[str, Any] | None:
    """Where a server is, as the task `answer` takes it; None for the one that is loaded."""
    if name == settings.model:
        return None
    return {"model": name, "servers": {key: dict(table) for key, table in settings.servers.items()}}
