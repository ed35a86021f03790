"""The models of servers: those in the settings for the list of models, any other for the shell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...backends.remote.address import find_server, quote_model
from ...errors import UserError
from ..text.cells import has_words, one_line
from .rows import ModelRow

MOST_MODELS = 100
"""Models of one server, in the list: a large provider has thousands."""


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server's answer, or its error."""

    name: str
    """Its name in the settings, or its address."""
    engine: str = ""
    version: str = ""
    method: str = ""
    context: int = 0
    """Tokens; 0 if it does not say."""
    models: tuple[str, ...] = ()
    problem: str = ""
    """A sentence; empty if it answers."""

    def spec(self, model: str) -> str:
        """Return the name that loads one of its models."""
        return f"{self.name.partition('#')[0]}#{quote_model(model)}" if len(self.models) > 1 else self.name


def ask(names: Iterable[str], servers: Mapping[str, Mapping[str, str]]) -> list[FoundServer]:
    """Ask servers for their models, all at once; takes as long as the slowest, at most some ten seconds.

    Args:
        names: in the settings, or addresses.
        servers: those in the settings.
    """

    async def ask_all() -> list[FoundServer]:
        return list(await asyncio.gather(*(_ask(name, servers) for name in names)))

    return asyncio.run(ask_all())


async def _ask(name: str, servers: Mapping[str, Mapping[str, str]]) -> FoundServer:
    # Deferred: httpx takes 100 ms, and few have servers.
    from ...backends.remote.model import connect

    try:
        address = find_server(name, servers)
        if address is None:
            raise UserError(f"{name} is not a server. Give its address (http://HOST:PORT) or a name of [servers.NAME].")
        model = await connect(address)
    except UserError as error:
        return FoundServer(name, problem=one_line(str(error)))
    served = model.served
    await model.close()
    models = served.models or tuple(filter(None, (served.model,)))
    return FoundServer(name, served.engine, served.version, served.method, served.context, models)


def server_rows(servers: Sequence[FoundServer], query: str, loaded: str) -> list[ModelRow]:
    """List the servers' models that match a search.

    Args:
        servers: with their models.
        query: words of the search.
        loaded: name of the loaded model.
    """
    rows = []
    for server in servers:
        note = " · ".join(filter(None, (server.engine, server.method)))
        for model in server.models[:MOST_MODELS]:
            spec = server.spec(model)
            mark = ("●", "$primary") if spec == loaded else ("", "")
            title = one_line(f"{server.name} · {model}")
            rows.append(ModelRow(("server", spec), title, mark, note=one_line(note), item=spec, verb="load"))
        if server.problem:
            rows.append(
                ModelRow(("server", server.name), one_line(server.name), note=server.problem, faint=True, item=server.name)
            )
    rows = [row for row in rows if has_words(f"{row.title} {row.note}", query)]
    return [ModelRow(None, "Servers"), *rows] if rows else []
