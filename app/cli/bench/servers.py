"""Servers in bench."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from ....engine.options import is_url
from ....errors import UserError
from ...settings.fields import Settings
from .lab import BenchRun, Lab, Spec
from .requests import BenchRequest

FIRST_TOKENS = 8
"""Length of the answer that shows how a server decodes; llama-server reveals it in no other way."""


def is_server(name: str, settings: Settings) -> bool:
    """Whether a name is a server's: an address, or a name in the settings."""
    return is_url(name) or name.partition("#")[0] in settings.servers


def check_request(request: BenchRequest) -> None:
    """Check that a request asks nothing of a server that only a model of this machine can do.

    Raises:
        UserError: it does.
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
    """List the servers of a run, the plain one first, by their methods; where two have the same method, by address too."""
    request = bench.request
    model = request.settings.model
    names = [*(name for name in request.others if name != model), model]
    item = bench.prompts.items[0]
    messages = replace(item, turns=item.turns[:1]).chat(None)
    methods: list[str] = []
    for name in names:
        lab.notes.progress(f"asking {name} how it decodes")
        at = server_address(name, request.settings)
        methods.append(lab.work("answer", at=at, max_tokens=FIRST_TOKENS, messages=messages)["decodes"])
    specs = [
        Spec(method if methods.count(method) == 1 else f"{method} {name}", "", {"at": name})
        for method, name in zip(methods, names, strict=True)
    ]
    bench.base = specs[0].label if len(specs) > 1 else ""
    bench.servers = {spec.label: name for spec, name in zip(specs, names, strict=True)}
    return specs


class ServerAddress(TypedDict):
    """A server, as the task `answer` takes it."""

    model: str
    servers: dict[str, dict[str, str]]


def server_address(name: str, settings: Settings) -> ServerAddress | None:
    """Return the address of a server for the task `answer`; None for the loaded one."""
    return None if name == settings.model else {"model": name, "servers": settings.servers}
