"""Servers in bench: what each decodes with, and what cannot be asked of them."""

from __future__ import annotations

from typing import Any

from ....errors import UserError
from ...settings.fields import Settings
from .lab import Lab, Spec
from .plan import Bench, BenchRequest

FIRST_TOKENS = 8
"""Of the answer by which a server tells how it decodes; llama-server does so in no other way."""


def is_server(name: str, settings: Settings) -> bool:
    """Whether a name means a server: an address, or one of the settings."""
    return name.lower().startswith(("http://", "https://")) or name.partition("#")[0] in settings.servers


def refuse(request: BenchRequest) -> None:
    """What only a model of this machine can do.

    Raises:
        UserError: it was asked for.
    """
    if request.methods or request.sweep:
        raise UserError("A server decides how it decodes. Leave out --methods and --sweep, and compare servers with --against.")
    if request.clock == "cpu":
        raise UserError("A server's processor seconds are not known here. Leave out --clock.")
    for name in request.against:
        if not is_server(name, request.settings):
            raise UserError(f"A server is compared with servers: --against takes their addresses, not {name!r}.")


def choose_servers(bench: Bench, lab: Lab) -> list[Spec]:
    """The servers of a run, the plain one first, each by what it decodes with; where two decode alike, by its address too."""
    request = bench.request
    names = list(dict.fromkeys([*request.against, request.settings.model]))
    item = bench.prompts.items[0]
    asked: dict[str, Any] = {"messages": list(item.messages) or [{"role": "user", "content": item.turns[0]}]}
    methods = []
    for name in names:
        lab.notes.progress(f"asking {name} how it decodes")
        methods.append(lab.work("answer", at=place(name, request.settings), max_tokens=FIRST_TOKENS, **asked)["decodes"])
    specs = [
        Spec(method if methods.count(method) == 1 else f"{method} {name}", "server", {"at": name})
        for method, name in zip(methods, names, strict=True)
    ]
    bench.base = specs[0].label if request.against else ""
    bench.servers = {spec.label: name for spec, name in zip(specs, names, strict=True)}
    return specs


def place(name: str, settings: Settings) -> dict[str, Any] | None:
    """Where a server is, as the task `answer` takes it; None for the one that is loaded."""
    if name == settings.model:
        return None
    return {"model": name, "servers": {key: dict(table) for key, table in settings.servers.items()}}
