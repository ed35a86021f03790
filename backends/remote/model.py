"""A server as a model: identified once, then asked for answers. Each is a stream of events, which becomes runs and figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from ...errors import UserError
from ..info import Capabilities, ModelInfo
from .address import Address
from .bodies import LLAMA_SERVER, SAMPLING_FIELDS, VLLM, Served, ServerRequest, build_body, refused_fields
from .connection import Connection, Refused, error_text
from .events import DONE, MOST_EVENT, Chunk, Counters, count, dig, parse_chunk, parse_ids, string
from .identify import identify
from .runs import ByIds, ByTimings, Certainty, Cutter, Outcome, RemoteRun, Uncut
from .thoughts import INFO, Parts

LONGEST_DRAFT = 64
"""Most tokens that engines draft."""

NOT_SHOWN = "A server sends text, not what it drafted."
"""The reason why there is no tree and no rejected token."""

BURST_SECONDS = 0.05
"""An answer whose text arrived within less was held back on its way."""

REASONS = {"stop": "eos", "tool_calls": "eos", "length": "length"}
"""Servers' reasons for the end of an answer → ours."""

INTERRUPTIONS = ("abort", "error", "content_filter")
"""Reasons of answers that were broken off."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of waiting, in seconds."""

    first: float = 1800.0
    """For the first token, behind a long prompt or a queue."""
    next: float = 120.0
    """For the next token."""
    end: float = 5.0
    """For the last counters, once the answer is complete."""


@dataclass(slots=True)
class Taker:
    """The receiver of an answer while it comes."""

    run: Callable[[RemoteRun], None]
    prefilling: Callable[[int, int, float], None]
    """Called with the prompt tokens read, all of them, and the seconds so far."""
    raw: str = ""
    """Thought and answer as the server sent them."""
    parts: Parts = field(default_factory=Parts)


class ServerModel:
    """A model that a server runs.

    Args:
        connection: to the server.
        served: facts about the server.
        patience: limits of waiting for an answer.
    """

    def __init__(self, connection: Connection, served: Served, patience: Patience | None = None) -> None:
        self.connection = connection
        self.served = served
        self.patience = patience or Patience()
        self._instead: dict[str, str] = {}
        """Fields that the server refused, and the names that it takes for them; "" if it takes none."""
        self.certainty: Certainty = "exact" if served.engine in (LLAMA_SERVER, VLLM) else "unknown"
        """Whether its next answer will show its passes, as far as is known."""
        self.thought_field = ""
        """The field that its thoughts have come in."""
        address, notes = connection.address, list[str]()
        if not address.model and (number := len(served.models)) > 1:
            notes = [f"{address.host} serves {number} models; this is {served.model}. #NAME behind the address chooses."]
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
            notes=tuple(notes),
            thinking=INFO,
        )

    @property
    def method(self) -> str:
        """Its way of decoding, as far as it says."""
        return self.served.method

    def reason(self) -> str:
        """Explain that none of our methods decodes here."""
        return f"{self.connection.address.host} decodes, and it decides how."

    async def close(self) -> None:
        """Close the connections."""
        await self.connection.close()

    async def answer(self, request: ServerRequest, taker: Taker, outcome: Outcome) -> None:
        """Ask for an answer and hand it on as it comes. Cancelling the task closes the stream, and the server stops.

        Args:
            request: the prompt and its options.
            taker: called with each run, and with the rest of an answer that breaks off.
            outcome: filled in as the figures become known.

        Raises:
            UserError: the server refused, failed, fell silent or is gone.
        """
        path, body = build_body(self.served, request, self.thought_field)
        while True:
            sent = {name: value for field, value in body.items() if (name := self._instead.get(field, field))}
            stream = Stream(self, taker, outcome)
            try:
                await stream.follow(path, sent)
                break
            except Refused as refused:
                instead = refused_fields(sent, refused.body, request.max_tokens is not None)
                if not instead or stream.begun:
                    raise
                self._instead |= instead
            finally:
                stream.end()
        if lost := [name for name in SAMPLING_FIELDS if name in body and name not in sent]:
            outcome.add_doubt(f"{stream.host} does not take {' and '.join(lost)}: its own default counts.")
        if outcome.silent or outcome.certainty == "exact":
            self.certainty = outcome.certainty
        size, context = (outcome.prompt_tokens or 0) + (outcome.tokens or 0), self.served.context
        limited = request.max_tokens is not None and (outcome.tokens or request.max_tokens) >= request.max_tokens
        # A pass that might give more tokens than there is room for is not begun.
        if outcome.reason == "length" and not limited and (stream.truncated or size >= context - LONGEST_DRAFT > 0):
            outcome.reason = "context"


async def connect(address: Address, patience: Patience | None = None) -> ServerModel:
    """Connect to a server and identify it.

    Raises:
        UserError: it cannot be reached, wants a key, or has no such model.
    """
    connection = Connection(address)
    try:
        return ServerModel(connection, await identify(connection), patience)
    except BaseException:
        await connection.close()
        raise


class Stream:
    """Reads one answer: gives its runs to a taker and fills in an outcome."""

    def __init__(self, model: ServerModel, taker: Taker, outcome: Outcome) -> None:
        self._model = model
        self._connection = model.connection
        self.host = model.connection.address.host
        self._taker = taker
        self._outcome = outcome
        self._loop = asyncio.get_running_loop()
        self._cutter: Cutter | None = None
        self._counters = Counters()
        self._asked = self._loop.time()
        self._first = self._latest = 0.0
        """Times of the first and the latest text."""
        self._over = False
        """Whether the answer is complete."""
        self._finish = ""
        """The server's reason for the end."""
        self.truncated = False
        """Whether llama-server's context ended it."""

    @property
    def begun(self) -> bool:
        """Whether any of the answer has come."""
        return bool(self._first)

    async def follow(self, path: str, body: dict[str, Any]) -> None:
        """Read the stream to its end.

        Raises:
            UserError: the server refused, failed, fell silent, broke off or sent what cannot be read.
        """
        patience = self._model.patience
        try:
            async with asyncio.timeout(patience.first) as limit, self._connection.stream(path, body) as response:
                if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                    page = await self._connection.read_body(response)
                    text = self._connection.quote(error_text(page) or page)
                    raise UserError(f"{self.host} sent something that is no stream of an answer ({text}). Check the address.")
                async for event in httpx2.EventSource(response, MOST_EVENT):
                    if event.data.strip() == DONE:
                        self._over = True
                        break
                    if event.data:
                        self._add(json.loads(event.data))
                    wait = patience.next if self.begun else patience.first
                    limit.reschedule(self._loop.time() + (patience.end if self._over else wait))
        except TimeoutError:
            if not self._over:
                seconds = patience.next if self.begun else patience.first
                raise self._broken(f"sent nothing for {seconds:,.0f} s, so the stream was closed") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.PoolTimeout) as error:
            raise self._connection.unreachable(error) from None
        except ValueError as error:
            raise self._broken(f"sent an event that cannot be read ({self._connection.quote(error)})") from None
        except (httpx2.HTTPError, OSError) as error:
            if not self._over:
                raise self._broken(f"broke the answer off ({self._connection.quote(error)})") from None
        self._judge()

    def _broken(self, what: str) -> UserError:
        advice = "What came is kept; send the message again." if self._taker.raw else "Send the message again."
        return UserError(f"{self.host} {what}. {advice}")

    def _judge(self) -> None:
        """Check that the answer is complete."""
        outcome, reason = self._outcome, REASONS.get(self._finish, "")
        word = self._connection.quote(self._finish)[:40] if self._finish else ""
        if not self._over:
            raise self._broken("ended the stream before the answer was complete")
        if self._finish in INTERRUPTIONS:
            raise self._broken(f"broke the answer off ({word})")
        if not self._taker.raw.strip():
            if reason == "length":
                raise UserError(f"{self.host} came to its limit of tokens before it sent any text. Raise max_tokens.")
            raise UserError(f"{self.host} ended the answer without any text. Send the message again, or ask another model.")
        outcome.reason = "stop" if self._counters.stopped and reason == "eos" else reason or word

    def end(self) -> None:
        """Hand out the rest and complete the figures, however the stream ended."""
        if rest := self._taker.parts.push("", "", over=True):
            self._push(Chunk(rest))
        outcome = self._outcome
        if self.begun:
            arrival = self._latest - self._first
            if not outcome.decode_seconds and arrival < BURST_SECONDS:  # its arrival shows no speed
                outcome.decode_seconds = self._latest - self._asked
            else:
                outcome.prefill_seconds = outcome.prefill_seconds or self._first - self._asked
                outcome.decode_seconds = outcome.decode_seconds or arrival
        if self._cutter is None:
            return
        complete = self._over or self._counters.timings is not None
        self._hand_out(self._cutter.finish(self._counters if complete else None))
        if outcome.certainty == "unknown" and outcome.tokens and outcome.steps is None and outcome.accepted is not None:
            outcome.steps = max(1, outcome.tokens - outcome.accepted)  # a pass gives one token more than were accepted
        if self._over and not self._finish:
            outcome.reason = outcome.reason or "eos"

    def _add(self, body: Mapping[str, Any]) -> None:
        """Add an event.

        Raises:
            UserError: it is an error.
            ValueError: it is no object.
        """
        if not isinstance(body, dict):
            raise ValueError("it is not an object")
        if body.get("error") or body.get("object") == "error":
            code = dig(body, "error", "code") or body.get("code")
            raise self._connection.refusal(code if isinstance(code, int) and 400 <= code < 600 else 500, body)
        outcome, taker = self._outcome, self._taker
        chunk, choice = parse_chunk(body), dig(body, "choices", 0)
        timings, finish = chunk.timings, string(dig(choice, "finish_reason"))
        read, size = (count(dig(body, "prompt_progress", name)) for name in ("processed", "total"))
        if read is not None and size is not None:
            taker.prefilling(min(read, size), size, self._loop.time() - self._asked)
        outcome.prompt_ids = parse_ids(body.get("prompt_token_ids", dig(choice, "prompt_token_ids"))) or outcome.prompt_ids
        prompt = count(dig(body, "usage", "prompt_tokens")) or outcome.prompt_tokens or len(outcome.prompt_ids)
        outcome.prompt_tokens = prompt or None
        reused = count(dig(body, "usage", "prompt_tokens_details", "cached_tokens"))
        outcome.reused = outcome.reused if reused is None else reused
        if timings is not None:
            outcome.prompt_tokens = timings.prompt + timings.cached
            outcome.reused = timings.cached
            outcome.prefill_seconds = timings.prompt_milliseconds / 1000
            outcome.decode_seconds = timings.milliseconds / 1000
        taker.raw += chunk.thought + chunk.text
        self._model.thought_field = chunk.thought_field or self._model.thought_field
        if chunk.text or chunk.thought or chunk.ids:
            self._push(replace(chunk, text=taker.parts.push(chunk.thought, chunk.text)))
        elif timings is not None and self._cutter is not None and not finish and dig(body, "usage") is None:
            self._push(chunk)
        self._finish = finish or self._finish
        self._over = self._over or bool(finish)
        verbose = body.get("__verbose")
        self._counters.stopped |= isinstance(dig(choice, "stop_reason"), str) or dig(verbose, "stop_type") == "word"
        self.truncated |= dig(verbose, "truncated") is True
        if self._over or timings is not None:
            self._counters.update(body, chunk)

    def _push(self, chunk: Chunk) -> None:
        self._latest = self._loop.time()
        self._first = self._first or self._latest
        self._cutter = self._cutter or choose_cutter(chunk, self._model.served, self._outcome, self._model.certainty)
        self._hand_out(self._cutter.push(chunk, self._latest))

    def _hand_out(self, runs: Iterable[RemoteRun]) -> None:
        for run in runs:
            run.spans = self._taker.parts.spans(len(run.text), len(run.tokens))
            self._taker.run(run)


def choose_cutter(chunk: Chunk, served: Served, outcome: Outcome, certainty: Certainty) -> Cutter:
    """Choose the cutter of a stream.

    Args:
        chunk: the first with text or tokens.
        served: facts about the server.
        outcome: of the answer.
        certainty: of the server's answers so far.
    """
    if chunk.timings is not None:
        return ByTimings(outcome)
    return ByIds(outcome, served.drafts, certainty) if chunk.ids is not None and served.engine == VLLM else Uncut(outcome)
