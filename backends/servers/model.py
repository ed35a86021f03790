"""A server as a model: asked what it is once, then for answers, each of which is one stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from ...errors import UserError
from ..base import Capabilities, ModelInfo
from .address import Address
from .bodies import Wish, request
from .chunks import Chunk, parse
from .connection import Connection
from .identify import SGLANG, TRANSFORMERS, Served, identify
from .runs import Certainty, Cutter, Run, cutter_for
from .seam import THINK, Trail

NOT_SHOWN = "A server sends text, not what it drafted."
"""Why there is no tree, and why no rejected tokens are shown."""

TELLING_SECONDS = 0.05
"""An answer whose text arrived within less was held back on its way."""

HANG_UP_SECONDS = 0.2
"""For a server to end a stream after its last word."""

_ENDS = {"stop": "eos", "length": "length", "tool_calls": "eos", "function_call": "eos", "eos": "eos", "content_filter": "stop"}
"""How servers say why an answer ended → our reasons."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds."""

    first: float = 1800.0
    """For the first token: a long prompt, or a queue before it, takes its time."""
    next: float = 120.0
    """For the next one: nothing takes that long in mid-answer."""
    end: float = 5.0
    """For the last counters, once the answer is complete."""


@dataclass(slots=True)
class Outcome:
    """How an answer went, as far as it got."""

    reason: str = ""
    """As in the engine's `Finished`; empty until the server has told one."""
    certainty: Certainty = "unknown"
    doubt: str = ""
    seams: str = ""
    """Where several servers wrote it, how one went on where another had stopped: a sentence for each."""
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] = ()
    reused: int | None = None
    tokens: int | None = None
    """The server's own count; so are the next three."""
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


@dataclass(slots=True)
class Taker:
    """What is told of an answer while it comes."""

    run: Callable[[Run], None]
    prefilling: Callable[[int, int, float], None]
    """Prompt tokens read, of how many, in seconds so far."""
    trail: Trail = field(default_factory=Trail)
    """What has come, for another server to go on from."""


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
                tree=False,
                chain=False,
                reasons=dict.fromkeys(("tree", "chain", "layers", "states"), NOT_SHOWN),
            ),
            notes=_notes(address, served),
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

    async def answer(self, wish: Wish, taker: Taker, outcome: Outcome) -> None:
        """Ask, and hand on what comes. Cancelling the task closes the stream, and the server stops.

        Args:
            wish: what is asked.
            taker: told of each run; also of what is left when the answer breaks off.
            outcome: filled in as things become known.

        Raises:
            UserError: the server refused, failed, fell silent or is gone.
        """
        path, body = request(self.served, wish)
        stream = _Stream(self, taker, outcome)
        try:
            await stream.follow(path, body)
        finally:
            stream.end()
        if outcome.reason == "length" and (wish.max_tokens is None or (outcome.tokens or wish.max_tokens) < wish.max_tokens):
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


class _Stream:
    """One answer as it comes."""

    def __init__(self, model: ServerModel, taker: Taker, outcome: Outcome) -> None:
        self._model = model
        self._taker, self._outcome = taker, outcome
        taker.trail.begin()
        self._loop = asyncio.get_running_loop()
        self._cutter: Cutter | None = None
        self._last: Chunk | None = None
        """Its final counters, once the answer is complete."""
        self._timer: asyncio.TimerHandle | None = None
        self._asked = self._loop.time()
        self._first = self._latest = 0.0
        self._thinking = False
        self._over = False

    async def follow(self, path: str, body: dict[str, Any]) -> None:
        """Read the stream to its end."""
        connection, patience = self._model.connection, self._model.patience
        host = connection.address.host
        try:
            async with asyncio.timeout(patience.first) as limit, connection.stream(path, body) as response:
                async for event in httpx2.EventSource(response):
                    if event.data == "[DONE]":
                        # Read to its very end, a connection can be used again.
                        self._over = True
                        limit.reschedule(self._loop.time() + HANG_UP_SECONDS)
                        continue
                    if not event.data:
                        continue
                    self._take(parse(event.data))
                    if self._over:
                        limit.reschedule(self._loop.time() + patience.end)
                    elif self._first:
                        limit.reschedule(self._loop.time() + patience.next)
        except TimeoutError:
            if self._over:
                return
            if self._first:
                raise UserError(
                    f"{host} sent nothing for {patience.next:,.0f} s in the middle of the answer, so the stream was closed. "
                    "What came is kept; send the message again."
                ) from None
            raise UserError(
                f"{host} has not begun to answer after {patience.first:,.0f} s, so the stream was closed. It may be busy; send "
                "the message again later."
            ) from None
        except httpx2.SSEError as error:
            raise UserError(
                f"{host} sent something that is no stream of an answer ({connection.said(error)}). Check the address."
            ) from None
        except (httpx2.HTTPError, OSError) as error:
            if self._over:
                return
            raise connection.broken(error, begun=bool(self._first)) from None
        except ValueError as error:
            raise UserError(
                f"{host} sent something in the stream that cannot be read ({connection.said(error)}). What came is kept; send "
                "the message again."
            ) from None
        if not self._over and not self._outcome.reason:
            raise UserError(
                f"{host} ended the stream before the answer was complete. What came is kept; check whether the server still "
                "runs, then send the message again."
            )

    def end(self) -> None:
        """Hand out what is left, and say how it went."""
        if self._timer is not None:
            self._timer.cancel()
        if self._thinking and not self._taker.trail.handed_on:
            self._push(Chunk(text="\n</think>\n\n"))
        outcome = self._outcome
        if self._first:
            came = self._latest - self._first
            if not outcome.decode_seconds and came < TELLING_SECONDS:  # it came at once: that tells no speed of its own
                outcome.decode_seconds = self._latest - self._asked
            else:
                outcome.prefill_seconds = outcome.prefill_seconds or self._first - self._asked
                outcome.decode_seconds = outcome.decode_seconds or came
        cutter = self._cutter
        if cutter is None:
            return
        self._hand_out(cutter.finish(self._last or (Chunk() if self._over else None)))
        outcome.certainty, outcome.doubt = cutter.certainty, cutter.doubt
        told, engine = cutter.told, self._model.served.engine
        # transformers serve counts chunks there.
        outcome.tokens = told.tokens if engine != TRANSFORMERS else None
        outcome.steps, outcome.drafted, outcome.accepted = told.steps, told.drafted, told.accepted
        outcome.reason = outcome.reason or ("eos" if self._over else "")

    def _take(self, chunk: Chunk) -> None:
        connection, outcome = self._model.connection, self._outcome
        if chunk.error is not None:
            raise connection.refusal(_status(chunk.error), chunk.error)
        if chunk.progress is not None:
            self._taker.prefilling(*chunk.progress[:2], self._loop.time() - self._asked)
        if chunk.prompt is not None:
            outcome.prompt_tokens = chunk.prompt
        if chunk.prompt_ids:
            outcome.prompt_ids = chunk.prompt_ids
        if chunk.cached is not None:
            outcome.reused = chunk.cached
        if chunk.timings is not None:
            outcome.prompt_tokens = chunk.timings.prompt + chunk.timings.cached
            outcome.reused = chunk.timings.cached
            outcome.prefill_seconds = chunk.timings.prompt_milliseconds / 1000
            outcome.decode_seconds = chunk.timings.milliseconds / 1000
        self._taker.trail.take(chunk)
        if chunk.text or chunk.thought or chunk.ids:
            self._push(self._spoken(chunk))
        elif chunk.timings is not None and self._cutter is not None and not chunk.finish and chunk.tokens is None:
            self._push(chunk)
        if chunk.finish:
            outcome.reason = "stop" if chunk.stopped else _ENDS.get(chunk.finish, "eos")
            self._over = True
        if self._over or chunk.timings is not None:
            self._last = _joined(self._last, chunk)

    def _spoken(self, chunk: Chunk) -> Chunk:
        """A chunk whose thinking is a part of its text, between tags as the model itself writes them."""
        if not chunk.thought and not self._thinking:
            return chunk
        text = chunk.thought if self._thinking or not chunk.thought else f"{THINK}{chunk.thought}"
        if self._thinking and chunk.text:
            text += "\n</think>\n\n"
        if chunk.thought or chunk.text:
            self._thinking = bool(chunk.thought) and not chunk.text
        return replace(chunk, text=text + chunk.text)

    def _push(self, chunk: Chunk) -> None:
        now = self._loop.time()
        self._first, self._latest = self._first or now, now
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._cutter is None:
            served = self._model.served
            self._cutter = cutter_for(chunk, served.drafts, served.engine == SGLANG)
        self._hand_out(self._cutter.push(chunk, now))
        if self._cutter.due:
            self._timer = self._loop.call_later(self._cutter.due, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._hand_out(self._cutter.flush() if self._cutter is not None else ())

    def _hand_out(self, runs: Iterable[Run]) -> None:
        trail = self._taker.trail
        for run in runs:
            if trail.owed and run.tokens:  # they were counted before
                again = min(trail.owed, len(run.tokens))
                trail.owed, run.tokens = trail.owed - again, run.tokens[again:]
                run.accepted = min(run.accepted, len(run.tokens))
            trail.text += run.text
            trail.tokens += len(run.tokens)
            self._taker.run(run)


def _joined(before: Chunk | None, chunk: Chunk) -> Chunk:
    """The counters of the last events together: engines send them in one or in two."""
    if before is None:
        return chunk
    return Chunk(
        timings=chunk.timings or before.timings,
        tokens=chunk.tokens if chunk.tokens is not None else before.tokens,
        speculation=chunk.speculation or before.speculation,
    )


def _status(body: Any) -> int:
    """The code of an error in a stream; a server's own failure if it has none."""
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500
