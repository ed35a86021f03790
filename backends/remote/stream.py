"""One answer of a server: a stream of events, which becomes runs of text, and how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from ...errors import UserError
from ..thinking.split import ANSWER
from .chunks import Chunk, parse
from .connection import Connection, whole
from .dialects import VLLM
from .encodings import unpacked
from .identify import Served
from .refusals import status_of, wait_of, words_of
from .runs import ByIds, ByTimings, Certainty, Cutter, Run, Uncut
from .thoughts import Parts

MOST_EVENT = 128_000_000
"""Bytes of one event, which a vLLM or llama-server fills with the whole prompt: ten million tokens take some 70 MB."""

MOST_ODD = 2000
"""Characters that are kept of what is no event."""

DONE = "[DONE]"
"""What stands in place of the last event's JSON."""


class Reader:
    """Takes bytes as they come, cut anywhere; gives events as soon as they are whole: the JSON of each, its text where that is
    none.

    Args:
        most: bytes that one event may have.
    """

    def __init__(self, most: int = MOST_EVENT) -> None:
        self.odd = ""
        """The first line of what was no event: a web page, say, or a proxy's message."""
        self._most, self._size = most, 0
        self._parts: list[bytes] = []
        self._after_cr = False
        self._data: list[str] = []

    def take(self, data: bytes) -> Iterator[Any]:
        """Take some bytes; the events that are whole now.

        Raises:
            ValueError: an event is too large.
        """
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        first, *rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._hold(first)
        for part in rest:
            yield from self._line(self._whole_line())
            self._hold(part)

    def end(self) -> Iterator[Any]:
        """The body has ended: what is left of it. Of an event that broke off there is nothing to read."""
        for event in (*self._line(self._whole_line()), *self._complete()):
            if not isinstance(event, str) or event[:1] not in "{[" or event == DONE:
                yield event

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            raise ValueError(f"an event of more than {self._most:,} bytes")

    def _whole_line(self) -> str:
        line = b"".join(self._parts).decode("utf-8", "replace")
        self._parts = []
        return line

    def _line(self, line: str) -> Iterator[Any]:
        field, _, value = line.partition(":")
        if not line:
            yield from self._complete()
        elif field == "data":
            self._data.append(value.removeprefix(" "))
        elif field not in ("", "event", "id", "retry"):
            self.odd = self.odd or line.strip()[:MOST_ODD]

    def _complete(self) -> Iterator[Any]:
        text = "\n".join(self._data)
        self._data, self._size = [], sum(map(len, self._parts))
        if text:
            yield _json(text)


def _json(text: str) -> Any:
    """What a text says as JSON; the text itself where it is none."""
    try:
        return json.loads(text, parse_int=whole)
    except (ValueError, RecursionError):
        return text


async def events(response: httpx2.Response, reader: Reader) -> AsyncIterator[Any]:
    """The events of a response; None for a sign of life: bytes that completed none.

    Raises:
        ValueError: an event is too large.
        httpx2.HTTPError: the connection failed.
    """
    async for data in unpacked(response):
        for event in reader.take(data):
            yield event
        yield None
    for event in reader.end():
        yield event


TELLING_SECONDS = 0.05
"""An answer whose text arrived within less was held back on its way."""

HANG_UP_SECONDS = 0.2
"""For a server to end a stream after its last word: some have more to say."""

_ENDS = {"stop": "eos", "tool_calls": "eos", "length": "length"}
"""How servers say why an answer ended → our reason."""

_CUT_OFF = ("abort", "error", "content_filter")
"""Reasons of answers that were not brought to their end."""

MOST_WORD = 40
"""Characters of a reason that is shown as it is."""


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
    text: str = ""
    """The answer as shown, so far."""
    raw: str = ""
    """Thought and answer as the server sent them."""
    parts: Parts = field(default_factory=Parts)
    """What of it is which."""


class Stream:
    """One answer as it comes: what is told of it goes to its taker, and into its outcome."""

    def __init__(
        self,
        connection: Connection,
        served: Served,
        patience: Patience,
        taker: Taker,
        outcome: Outcome,
        certainty: Certainty = "exact",
    ) -> None:
        self._connection, self._served, self._patience = connection, served, patience
        self._taker, self._outcome, self._certainty = taker, outcome, certainty
        self.untold = False
        """It turned out that the server tells nothing of its passes."""
        self.thoughts_under = ""
        """The field that thoughts came in."""
        self._loop = asyncio.get_running_loop()
        self._cutter: Cutter | None = None
        self._last: Chunk | None = None
        """Its final counters, once the answer is complete."""
        self._asked = self._loop.time()
        self._first = self._latest = 0.0
        self._done = self._over = self._hung_up = False
        """Whether the answer is complete; whether the last word has just come."""
        self._ended = ""
        """Why, in the server's word."""
        self._stopped = self.truncated = False
        """Whether a stop text ended it, or the context."""
        self._beside = ""
        """What came in place of JSON."""

    @property
    def begun(self) -> bool:
        """Whether any of the answer has come."""
        return bool(self._first)

    async def follow(self, path: str, body: dict[str, Any]) -> None:
        """Read the stream to its end."""
        connection, patience = self._connection, self._patience
        host, reader = connection.address.host, Reader()
        try:
            async with asyncio.timeout(patience.first) as limit, connection.stream(path, body) as response:
                async for event in events(response, reader):
                    if event is not None:
                        self._read(event)
                    if self._hung_up:
                        limit.reschedule(self._loop.time() + HANG_UP_SECONDS)
                        self._hung_up = False
                    elif not self._over:  # a comment is a sign of life too
                        limit.reschedule(self._loop.time() + (patience.next if self._first else patience.first))
                    elif event is not None:
                        limit.reschedule(self._loop.time() + patience.end)
        except TimeoutError:
            if not self._over and self._first:
                raise UserError(
                    f"{host} sent nothing for {patience.next:,.0f} s in the middle of the answer, so the stream was closed. "
                    "What came is kept; send the message again."
                ) from None
            if not self._over:
                raise UserError(
                    f"{host} has not begun to answer after {patience.first:,.0f} s, so the stream was closed. It may be busy; "
                    "send the message again later."
                ) from None
        except (httpx2.HTTPError, OSError) as error:
            if not self._over:
                raise connection.broken(error, begun=bool(self._first)) from None
        except ValueError as error:
            advice = self._kept("send the message again.") if self._first else "Check the address."
            raise UserError(
                f"{host} sent something in the stream that cannot be read ({connection.said(error)}). {advice}"
            ) from None
        self._judge(self._beside or reader.odd)

    def _read(self, event: Any) -> None:
        """Take in an event, whatever it is."""
        if event == DONE:
            self._done = self._over = self._hung_up = True
        elif not isinstance(event, str):
            chunk = parse(event)
            if not self._done or chunk.error is not None:  # text behind the end is none of the answer
                self._take(chunk)
        elif event[:1] in ("{", "["):
            raise ValueError(event)
        else:
            self._beside = self._beside or event

    def _judge(self, odd: str) -> None:
        """Whether what came is an answer that was brought to its end.

        Args:
            odd: what came beside the events.
        """
        connection, outcome = self._connection, self._outcome
        host, word = connection.address.host, connection.said(self._ended)[:MOST_WORD]
        if not self._over:
            beside = f" ({connection.said(odd)})" if odd else ""
            if odd and not self._first:
                raise UserError(f"{host} sent something that is no stream of an answer{beside}. Check the address.")
            advice = self._kept("check whether the server still runs, then send the message again.")
            raise UserError(f"{host} ended the stream before the answer was complete{beside}. {advice}")
        ours = _ENDS.get(self._ended, "")
        if self._ended in _CUT_OFF:
            raise UserError(f"{host} broke the answer off ({word}). {self._kept('send the message again.')}")
        if not self._taker.raw.strip():
            if ours == "length":
                raise UserError(f"{host} came to its limit of tokens before it sent any text. Raise max_tokens.")
            raise UserError(f"{host} ended the answer without any text. Send the message again, or ask another model.")
        if word and not ours:
            self._doubt(f"{host} gives a reason for the end that specchat does not know: {word}.")
        outcome.reason = ("stop" if self._stopped and ours == "eos" else ours) or word

    def _kept(self, advice: str) -> str:
        return f"What came is kept; {advice}" if self._taker.raw else f"{advice[0].upper()}{advice[1:]}"

    def _doubt(self, sentence: str) -> None:
        if sentence not in self._outcome.doubt:
            self._outcome.doubt = f"{self._outcome.doubt} {sentence}".lstrip()

    def end(self) -> None:
        """Hand out what is left, and say how it went."""
        if rest := self._taker.parts.push("", "", over=True):
            self._push(Chunk(text=rest))
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
        last = self._last or (Chunk() if self._over else None)
        self._hand_out(cutter.finish(last and replace(last, stopped=self._stopped)))
        outcome.certainty, self.untold = cutter.certainty, cutter.untold
        self._doubt(cutter.doubt)
        told = cutter.told
        outcome.tokens, outcome.steps = told.tokens, told.steps
        outcome.drafted, outcome.accepted = told.drafted, told.accepted
        if cutter.certainty == "unknown" and outcome.tokens and outcome.steps is None and outcome.accepted is not None:
            outcome.steps = max(1, outcome.tokens - outcome.accepted)  # a pass gives one token more than were accepted
        if self._over and not self._ended:
            outcome.reason = outcome.reason or "eos"

    def _take(self, chunk: Chunk) -> None:
        outcome, taker = self._outcome, self._taker
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
        taker.raw += chunk.thought + chunk.text
        if chunk.text or chunk.thought or chunk.ids:
            self.thoughts_under = chunk.under or self.thoughts_under
            self._push(replace(chunk, text=taker.parts.push(chunk.thought, chunk.text), thought=""))
        elif chunk.timings is not None and self._cutter is not None and not chunk.finish and chunk.tokens is None:
            self._push(chunk)
        if chunk.finish:
            self._ended, self._over = chunk.finish, True
        self._stopped, self.truncated = self._stopped or chunk.stopped, self.truncated or chunk.truncated
        if self._over or chunk.timings is not None:
            self._last = _joined(self._last, chunk)
        if chunk.error is not None:
            if not (self._taker.raw and self._ended in _ENDS):
                raise self._connection.refusal(status_of(chunk.error), chunk.error, wait_of({}, chunk.error))
            words = self._connection.said(words_of(chunk.error))
            self._doubt(f"After the answer, {self._connection.address.host} told an error: {words}.")

    def _push(self, chunk: Chunk) -> None:
        now = self._loop.time()
        self._first, self._latest = self._first or now, now
        self._cutter = self._cutter or cutter_for(chunk, self._served, self._certainty)
        self._hand_out(self._cutter.push(chunk, now))

    def _hand_out(self, runs: Iterable[Run]) -> None:
        taker = self._taker
        for run in runs:
            run.spans = taker.parts.spans(len(run.text), len(run.tokens))
            at = 0
            for part, characters, _ in run.spans or [[ANSWER, len(run.text), 0]]:
                if part == ANSWER:
                    taker.text += run.text[at : at + characters]
                at += characters
            taker.run(run)


def _joined(before: Chunk | None, chunk: Chunk) -> Chunk:
    """The counters of the last events together: engines send them in one or in two."""
    if before is None:
        return chunk
    return Chunk(
        timings=chunk.timings or before.timings,
        tokens=chunk.tokens if chunk.tokens is not None else before.tokens,
        speculation=chunk.speculation or before.speculation,
    )


def cutter_for(chunk: Chunk, served: Served, certainty: Certainty) -> Cutter:
    """What cuts a stream that begins with a chunk.

    Args:
        chunk: the first with text or tokens.
        served: what its server is.
        certainty: what is known of the server's answers so far.
    """
    if chunk.timings is not None:
        return ByTimings()
    return ByIds(served.drafts, certainty) if chunk.ids is not None and served.engine == VLLM else Uncut()
