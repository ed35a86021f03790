"""One answer that servers write: by one of them, or by one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, get_args

from ...backends.servers.bodies import ServerRequest
from ...backends.servers.model import ServerModel
from ...backends.servers.remote import RemoteModel
from ...backends.servers.runs import Certainty, Run
from ...backends.servers.seam import can_go_on, seam
from ...backends.servers.stream import Outcome, Taker
from ...backends.thinking.split import THOUGHT
from ...errors import UserError
from ..messages import Event, Failed, Prefilling, StepRecord, Steps, Switched

_SURE = get_args(Certainty)
"""Degrees of certainty, from the best to the worst."""


class Writing:
    """An answer. Used on the loop of the servers.

    Args:
        post: takes events.
        id: of the answer.
        remote: who may write it.
        method: with which it begins.
        request: what is asked.
    """

    def __init__(
        self, post: Callable[[Event], None], id: int, remote: RemoteModel, method: str, request: ServerRequest
    ) -> None:
        self._post, self._id, self.remote, self._request = post, id, remote, request
        self.method = method
        self.outcome = Outcome()
        """The outcome of all that was written."""
        self._taker = Taker(self._take, self._prefilling)
        self._stream: asyncio.Task[None] | None = None
        self._next = ""
        """The method to go on with, until it does."""
        self._parts = self._shown = self._owed = 0
        """Servers that wrote something, tokens of theirs, and how many of the last one's come once more."""

    @property
    def model(self) -> ServerModel:
        """Who writes."""
        return self.remote.methods[self.method]

    @property
    def thinking(self) -> bool:
        """Whether a thought is what came last."""
        return self._taker.trail.parts.part == THOUGHT

    def valid(self) -> bool | None:
        """Whether what was written behind the thoughts matches the constraint; None without one."""
        constraint = self._request.constraint
        return None if constraint is None else constraint.matches(self._taker.trail.text.strip())

    def switch(self, method: str) -> None:
        """Go on with another method from the tokens so far."""
        if method not in self.remote.methods:
            self._refuse(f"{method} is not used there: {self.remote.reason()}")
            return
        if self._request.constraint is not None:
            self._refuse(f"Another server would begin the schema anew. Switch to {method} when this answer has ended.")
            return
        if method == (self._next or self.method):
            self._post(Switched(self._id, method, ""))
            return
        engine = self.remote.methods[method].served.engine
        if not can_go_on(engine):
            self._refuse(f"{engine} cannot go on in the middle of an answer. Switch to {method} when this one has ended.")
            return
        self._next = method
        if self._stream is not None:
            self._stream.cancel()

    async def run(self) -> None:
        """Write it.

        Raises:
            UserError: a server refused, failed, fell silent or is gone.
        """
        request, back = self._request, ""
        while True:
            before, part = self._taker.trail.tokens, Outcome()
            self._stream = asyncio.ensure_future(self.model.answer(request, self._taker, part))
            try:
                await self._stream
            except asyncio.CancelledError:
                if not self._next or _stopped():
                    raise
            except UserError as error:
                if not back or self._taker.trail.tokens > before:
                    raise
                self._refuse(f"{error} {back} goes on.")
                self._next = back
            finally:
                self._stream = None
                self._add(part, self._taker.trail.tokens - before)
            if part.reason or not self._next:
                return
            limit = self._request.max_tokens
            if limit is not None and self._taker.trail.tokens >= limit:
                self.outcome.reason = "length"
                return
            back = "" if self._next == back else self.method
            request = await self._go_on()

    async def _go_on(self) -> ServerRequest:
        """Let the next server begin where the answer has come to, or the one before where another cannot; what it is asked."""
        trail = self._taker.trail
        while True:
            method = self._next
            try:
                model = self.remote.methods[method]
                found = await seam(model.connection, model.served, self._request, trail)
            except UserError as error:
                if method == self.method:
                    raise
                self._refuse(f"{error} {self.method} goes on.")
                self._next = self.method
                continue
            if method == self._next:  # else another one was asked for meanwhile
                break
        self.method, self._next, self._owed = method, "", found.owed
        if trail.tokens:
            self.outcome.seams = " ".join(filter(None, (self.outcome.seams, f"{method} went on {found.how}.")))
        self.outcome.doubt = self.outcome.doubt or found.doubt
        self._post(Switched(self._id, method, "", found.doubt))
        return found.request

    def _add(self, part: Outcome, shown: int) -> None:
        """Add how one server's part went.

        Args:
            part: as far as it got.
            shown: tokens of it.
        """
        total, first = self.outcome, not self._parts
        total.reason, total.doubt = part.reason, total.doubt or part.doubt
        total.prefill_seconds += part.prefill_seconds
        total.decode_seconds += part.decode_seconds
        if total.prompt_tokens is None:
            total.prompt_tokens, total.reused = part.prompt_tokens, part.reused
        if not shown and not part.reason:
            return
        told = part.tokens - self._owed if part.tokens is not None else None
        if first:
            total.certainty, total.tokens = part.certainty, told
        else:
            total.certainty = max(total.certainty, part.certainty, key=_SURE.index)
            if total.tokens is not None or told is not None:
                total.tokens = (self._shown if total.tokens is None else total.tokens) + (shown if told is None else told)
        for name in ("steps", "drafted", "accepted"):
            one, two = getattr(total, name), getattr(part, name)
            setattr(total, name, two if first else one + two if None not in (one, two) else None)
        self._parts, self._shown = self._parts + 1, self._shown + shown

    def _take(self, run: Run) -> None:
        self._post(Steps(self._id, [record(run, self.method)]))

    def _prefilling(self, done: int, total: int, seconds: float) -> None:
        if not self._parts:  # what another server reads again is not the prompt
            self._post(Prefilling(self._id, done, total, seconds))

    def _refuse(self, sentence: str) -> None:
        self._post(Failed(self._id, "user", sentence, ended=False))


def _stopped() -> bool:
    """Whether the answer itself was cancelled, and not only a server's part of it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def told(outcome: Outcome) -> dict[str, Any]:
    """What a server told of an answer, as it crosses."""
    skipped = ("reason", "prompt_ids", "prefill_seconds", "decode_seconds")
    return {name: value for name, value in asdict(outcome).items() if name not in skipped and value not in (None, "")}


def record(run: Run, method: str) -> StepRecord:
    """A run as it crosses."""
    nodes = 1 + run.drafted if run.tokens else 0
    return StepRecord(
        method, run.tokens, run.text, run.drafted, run.accepted, nodes, forward_seconds=run.seconds, spans=run.spans
    )
