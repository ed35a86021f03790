"""A server as a model: asked what it is once, then for answers, each of which is one stream."""

from __future__ import annotations

from ...errors import UserError
from ..info import Capabilities, ModelInfo
from .address import Address
from .bodies import SAMPLED, ServerRequest, body_of, without
from .connection import Connection, Refused
from .dialects import LLAMA_SERVER, VLLM
from .identify import Served, identify
from .runs import Certainty
from .stream import Outcome, Patience, Stream, Taker
from .thoughts import INFO

LONGEST_DRAFT = 64
"""Tokens that engines draft at the most."""

NOT_SHOWN = "A server sends text, not what it drafted."
"""Why there is no tree, and why no rejected tokens are shown."""


class ServerModel:
    """A model that runs elsewhere.

    Args:
        connection: to its server.
        served: what the server is.
    """

    def __init__(self, connection: Connection, served: Served, patience: Patience | None = None) -> None:
        self.connection = connection
        self.served = served
        self.patience = patience or Patience()
        self._refused: set[str] = set()
        """Fields that the server does not take."""
        self._renamed: dict[str, str] = {}
        """Fields that the server takes by another name, with that name."""
        self.certainty: Certainty = "exact" if served.engine in (LLAMA_SERVER, VLLM) else "unknown"
        """Whether its next answer will tell its passes, as far as is known."""
        self.thoughts_under = ""
        """The field that its thoughts have come in."""
        address = connection.address
        self.info = ModelInfo(
            name=served.model or address.name,
            backend="server",
            device=f"{served.engine} at {address.host}",
            dtype="",
            architecture=" ".join(filter(None, (served.engine, served.version))),
            parameters=0,
            layers=0,
            vocabulary=0,
            context=served.context,
            eos_ids=(),
            has_template=True,
            capabilities=Capabilities(
                tree=False, chain=False, reasons=dict.fromkeys(("tree", "chain", "layers", "states"), NOT_SHOWN)
            ),
            notes=_notes(address, served),
            thinking=INFO,
        )

    @property
    def method(self) -> str:
        """What it decodes with, as far as it says."""
        return self.served.method

    def reason(self) -> str:
        """Why none of our methods decodes here."""
        return f"{self.connection.address.host} decodes, and it decides how."

    async def close(self) -> None:
        """Close the connections."""
        await self.connection.close()

    async def answer(self, request: ServerRequest, taker: Taker, outcome: Outcome) -> None:
        """Ask, and hand on what comes. Cancelling the task closes the stream, and the server stops.

        Args:
            request: what is asked.
            taker: told of each run; also of what is left when the answer breaks off.
            outcome: filled in as things become known.

        Raises:
            UserError: the server refused, failed, fell silent or is gone.
        """
        path, body = body_of(self.served, request, self.thoughts_under)
        host = self.connection.address.host
        if lost := [name for name in SAMPLED if name in body and name in self._refused]:
            outcome.doubt = f"{host} does not take {' and '.join(lost)}: its own default counts."
        # What was refused before stays out.
        body = {self._renamed.get(name, name): value for name, value in body.items() if name not in self._refused}
        gone, new = list[str](), list[str]()
        while True:
            stream = Stream(self.connection, self.served, self.patience, taker, outcome, self.certainty)
            try:
                await stream.follow(path, body)
                break
            except Refused as refused:
                fewer = without(body, refused.body, request.max_tokens is not None)
                if fewer.keys() == body.keys() or stream.begun:
                    also = f" It was sent again without {' and '.join(gone)}." if gone else ""
                    raise UserError(f"{refused}{also}") from None
                new += [name for name in fewer if name not in body]
                gone += [name for name in body if name not in fewer]
                body = fewer
            finally:
                stream.end()
                self.thoughts_under = stream.thoughts_under or self.thoughts_under
        self.certainty = "unknown" if stream.untold else outcome.certainty if outcome.certainty == "exact" else self.certainty
        if gone:
            self._renamed |= dict.fromkeys((name for name in gone if new and name == "max_tokens"), "max_completion_tokens")
            self._refused |= {*gone} - {*self._renamed}
            instead = f"with {' and '.join(new)}" if new else "without"
            told = f"{host} refused {' and '.join(gone)}, so the request was sent again {instead}."
            outcome.doubt = f"{told} {outcome.doubt}".rstrip()
        size, context = (outcome.prompt_tokens or 0) + (outcome.tokens or 0), self.served.context
        ours = request.max_tokens is not None and (outcome.tokens or request.max_tokens) >= request.max_tokens
        # A pass that might give more tokens than there is room for is not begun.
        if outcome.reason == "length" and not ours and (stream.truncated or size >= context - LONGEST_DRAFT > 0):
            outcome.reason = "context"


def _notes(address: Address, served: Served) -> tuple[str, ...]:
    if address.model or len(served.models) < 2:
        return ()
    return (f"{address.host} serves {len(served.models)} models; this is {served.model}. #NAME behind the address chooses.",)


async def connect(address: Address, patience: Patience | None = None) -> ServerModel:
    """Find out what a server is.

    Raises:
        UserError: it cannot be reached, wants a key, or has no such model.
    """
    connection = Connection(address)
    try:
        return ServerModel(connection, await identify(connection), patience)
    except BaseException:
        await connection.close()
        raise
