"""A server as a model: identified once, then asked for answers. Each is a stream of events, which becomes runs and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from ...errors import UserError
from ..info import Capabilities, ModelInfo
from .address import Address
from .bodies import SAMPLING_FIELDS, ServerRequest, build_body, without_refused
from .connection import Connection, Refused
from .dialects import LLAMA_SERVER, VLLM
from .events import DONE, Chunk, Counters, EventStream, parse_chunk, parse_ids
from .identify import Served, identify
from .refusals import error_status, error_text, find_error, parse_wait
from .runs import ByIds, ByTimings, Certainty, Cutter, Outcome, RemoteRun, Uncut
from .thoughts import INFO, Parts
from .values import count, dig, parse_json, string

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

MOST_REASON = 40
"""Characters of a reason that is shown as it is."""


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
        self._refused: set[str] = set()
        """Fields that the server does not take."""
        self._renamed: dict[str, str] = {}
        """Fields that the server takes by another name, with that name."""
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
        host = self.connection.address.host
        if lost := [name for name in SAMPLING_FIELDS if name in body and name in self._refused]:
            outcome.doubt = f"{host} does not take {' and '.join(lost)}: its own default counts."
        body = {self._renamed.get(name, name): value for name, value in body.items() if name not in self._refused}
        removed, added = list[str](), list[str]()
        while True:
            stream = Stream(self, taker, outcome)
            try:
                await stream.follow(path, body)
                break
            except Refused as refused:
                reduced = without_refused(body, refused.body, request.max_tokens is not None)
                if reduced.keys() == body.keys() or stream.begun:
                    retried = f" It was sent again without {' and '.join(removed)}." if removed else ""
                    raise UserError(f"{refused}{retried}") from None
                added += reduced.keys() - body.keys()
                removed += [name for name in body if name not in reduced]
                body = reduced
            finally:
                stream.end()
        if removed:
            if added:
                self._renamed["max_tokens"] = added[0]
            self._refused |= {*removed} - {*self._renamed}
            instead = f"with {' and '.join(added)}" if added else "without"
            sentence = f"{host} refused {' and '.join(removed)}, so the request was sent again {instead}."
            outcome.doubt = f"{sentence} {outcome.doubt}".rstrip()
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
        self._host = model.connection.address.host
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
        host, patience, stray = self._host, self._model.patience, ""
        try:
            async with asyncio.timeout(patience.first) as limit, self._connection.stream(path, body) as response:

                def extend() -> None:
                    if not self._over:  # until then a comment is a sign of life too
                        limit.reschedule(self._loop.time() + (patience.next if self.begun else patience.first))

                events = EventStream(response, extend)
                async for data in events:
                    if data.strip() == DONE:
                        self._over = True
                        break
                    self._read(data, broken=events.ended)
                    extend()
                    if self._over:
                        limit.reschedule(self._loop.time() + patience.end)
                stray = events.stray
        except TimeoutError:
            if not self._over and self.begun:
                raise UserError(
                    f"{host} sent nothing for {patience.next:,.0f} s in the middle of the answer, so the stream was closed. "
                    "What came is kept; send the message again."
                ) from None
            if not self._over:
                raise UserError(
                    f"{host} has not begun to answer after {patience.first:,.0f} s, so the stream was closed. It may be busy; "
                    "send the message again later."
                ) from None
        except (ValueError, httpx2.SSEError) as error:
            advice = self._advice("send the message again.") if self.begun else "Check the address."
            reason = self._connection.quote(error)
            raise UserError(f"{host} sent something in the stream that cannot be read ({reason}). {advice}") from None
        except (httpx2.HTTPError, OSError) as error:
            if not self._over:
                raise self._connection.broken(error, self.begun) from None
        self._judge(stray)

    def _read(self, data: str, broken: bool) -> None:
        """Add an event; one that is `broken` off at the stream's end is dropped."""
        event = parse_json(data)
        if isinstance(event, dict):
            self._add(event)
        elif not isinstance(event, str) or (event[:1] in ("{", "[") and not broken):
            raise ValueError(event if isinstance(event, str) else "not an object")

    def _judge(self, stray: str) -> None:
        """Check that the stream was an answer, and complete; `stray` came between its events."""
        host, outcome = self._host, self._outcome
        if not self._over:
            quoted = f" ({self._connection.quote(stray)})" if stray else ""
            if stray and not self.begun:
                raise UserError(f"{host} sent something that is no stream of an answer{quoted}. Check the address.")
            advice = self._advice("check whether the server still runs, then send the message again.")
            raise UserError(f"{host} ended the stream before the answer was complete{quoted}. {advice}")
        reason, word = REASONS.get(self._finish, ""), self._connection.quote(self._finish)[:MOST_REASON]
        if self._finish in INTERRUPTIONS:
            raise UserError(f"{host} broke the answer off ({word}). {self._advice('send the message again.')}")
        if not self._taker.raw.strip():
            if reason == "length":
                raise UserError(f"{host} came to its limit of tokens before it sent any text. Raise max_tokens.")
            raise UserError(f"{host} ended the answer without any text. Send the message again, or ask another model.")
        if word and not reason:
            outcome.add_doubt(f"{host} gives a reason for the end that specchat does not know: {word}.")
        outcome.reason = "stop" if self._counters.stopped and reason == "eos" else reason or word

    def _advice(self, advice: str) -> str:
        return f"What came is kept; {advice}" if self._taker.raw else f"{advice[0].upper()}{advice[1:]}"

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
        if (error := find_error(body)) is not None:
            if not (taker.raw and self._finish in REASONS):
                raise self._connection.refusal(error_status(error), error, parse_wait({}, error))
            words = self._connection.quote(error_text(error))
            outcome.add_doubt(f"After the answer, {self._host} reported an error: {words}.")

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
