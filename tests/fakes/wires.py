"""A fake server: a function in place of a socket, fast enough for tests of many cases of what servers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from specchat.backends import UserError
from specchat.backends.remote.address import Address
from specchat.backends.remote.bodies import UNKNOWN, Served, ServerRequest
from specchat.backends.remote.connection import Connection
from specchat.backends.remote.model import ServerModel, Taker
from specchat.backends.remote.runs import Outcome, RemoteRun


class ScriptedBody(httpx2.AsyncByteStream):
    """A response body in parts: bytes are sent, an exception is raised, seconds are waited for."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, bytes):
                yield part
            else:
                await asyncio.sleep(part)


def fake_connection(serve: Callable[[httpx2.Request], Any], model: str = "") -> Connection:
    """A connection to a server whose responses `serve` returns (status, body and, if wanted, headers) or
    that fails as `serve` raises."""

    async def respond(request: httpx2.Request) -> httpx2.Response:
        response = serve(request)
        status, body, *rest = await response if asyncio.iscoroutine(response) else response
        headers: Mapping[str, str] = rest[0] if rest else {"Content-Type": "text/event-stream"}
        if not isinstance(body, ScriptedBody):
            text = body if isinstance(body, bytes | str) else json.dumps(body)
            body = ScriptedBody(text if isinstance(text, bytes) else text.encode())
        return httpx2.Response(status, headers=headers, stream=body)

    wire = Connection(Address("fake", "http://fake:1", model))
    wire.http = httpx2.AsyncClient(transport=httpx2.MockTransport(respond))
    return wire


def always(*response: Any) -> Callable[[httpx2.Request], Any]:
    """A server that says the same whatever it is asked: status, body and, if wanted, headers."""
    return lambda _: response


@dataclass
class ServerAnswer:
    """Runs, outcome and error of a server's answer, as the client received them."""

    runs: list[RemoteRun] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)
    failed: str = ""
    """The sentence of the last UserError; empty if there was none."""

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


def hear(
    serve: Callable[[httpx2.Request], Any], request: ServerRequest, engine: str = UNKNOWN, times: int = 1
) -> tuple[ServerAnswer, ServerModel]:
    """Send a request `times` times; return the last answer, and the model that was asked."""
    heard, model = ServerAnswer(), ServerModel(fake_connection(serve), Served(engine, "/v1", "m", context=2048))

    async def go() -> None:
        for _ in range(times):
            heard.runs = []
            heard.outcome = Outcome()
            try:
                await model.answer(request, Taker(heard.runs.append, lambda *_: None), heard.outcome)
            except UserError as error:
                heard.failed = str(error)
        await model.close()

    asyncio.run(go())
    return heard, model
