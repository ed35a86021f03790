"""Answers that servers write: each is a task of one event loop, on another thread, and posts the events of a lane."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import fields, replace
from typing import Any, TypeVar

from ..backends.base import Sampling
from ..backends.grammars.constraint import parse_constraint
from ..backends.info import ModelInfo, ServerInfo
from ..backends.remote.address import Address, find_server
from ..backends.remote.bodies import ServerRequest
from ..backends.remote.events import NO_ID
from ..backends.remote.model import ServerModel, Taker, connect
from ..backends.remote.runs import Outcome, RemoteRun
from ..backends.thinking.split import THOUGHT
from ..decoders import registry
from ..errors import Cancelled, UserError
from .failures import failure
from .messages import (
    Event,
    Failed,
    Finished,
    Generate,
    Paused,
    Prefilling,
    ServedFigures,
    Started,
    StepRecord,
    Steps,
    Switched,
    Work,
    Worked,
)
from .tasks.work import Measured, result_fields

POLL_SECONDS = 0.05
"""Interval of checks whether a load was cancelled."""

CLOSE_SECONDS = 2.0
"""Time for connections to close; slower ones end with the process."""

T = TypeVar("T")


class RemoteAnswer:
    """One answer of a server. Its task is used on the event loop's thread alone.

    Args:
        model: the server.
        request: with the prompt.
        post: receives the events.

    Raises:
        UserError: no server can do it.
    """

    def __init__(self, model: ServerModel, request: Generate, post: Callable[[Event], None]) -> None:
        self.model = model
        self.lane = request.lane
        self._request = make_server_request(request)
        self._id = request.id
        self._post = post
        self._outcome = Outcome()
        self._taker = Taker(
            lambda run: post(Steps(request.id, [record(run, model.method)])),
            lambda done, total, seconds: post(Prefilling(request.id, done, total, seconds)),
        )

    def begin(self, ended: Callable[[int], None]) -> None:
        """Start the task; `ended` is called with the id when it is over, before the last event."""
        started = time.monotonic()
        self._post(Started(self._id, self.lane, self.model.method, "", 0, 0, certainty=self.model.certainty))
        self.task = asyncio.get_running_loop().create_task(self.model.answer(self._request, self._taker, self._outcome))

        def end(task: asyncio.Task[None]) -> None:
            ended(self._id)
            self._post(self._last_event(task, time.monotonic() - started))

        # A task that is cancelled before its first step runs none of its code, but is over too.
        self.task.add_done_callback(end)

    def _last_event(self, task: asyncio.Task[None], seconds: float) -> Event:
        outcome, constraint = self._outcome, self._request.constraint
        if task.cancelled():
            outcome.reason = "cancelled"
        elif (error := task.exception()) is not None:
            failed = failure(self._id, error)
            failed.served = served_figures(outcome)
            return failed
        reason, valid = outcome.reason or "eos", None
        if constraint is not None and outcome.reason not in ("cancelled", "stop"):
            valid = constraint.matches(self._taker.parts.answer.strip())
        if valid is False and reason == "eos":
            outcome.doubt = f"{self.model.served.engine} did not keep to what was asked of its answer."
        return Finished(
            id=self._id,
            reason=reason,
            tail="",
            prefill_seconds=outcome.prefill_seconds,
            busy_seconds=outcome.prefill_seconds + outcome.decode_seconds or seconds,
            thinking=self._taker.parts.part == THOUGHT,
            valid=valid,
            served=served_figures(outcome),
        )


class ServerAnswers:
    """The models on servers that are in use, and the answers that they write. Called from the engine's main thread.

    Args:
        post: receives events, from any thread.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="servers", daemon=True).start()
        self._answers: dict[int, RemoteAnswer] = {}
        """The running answers, by id."""
        self._measured: dict[str, ServerModel] = {}
        """Other servers that are measured, by name."""

    def load(self, address: Address, cancelled: Callable[[], bool]) -> ServerModel:
        """Connect to a server and identify it.

        Raises:
            UserError: it cannot be used; says why.
            Cancelled: `cancelled` answered True.
        """
        return self._result(connect(address), cancelled)

    def _result(self, work: Coroutine[Any, Any, T], cancelled: Callable[[], bool]) -> T:
        """Wait for the result of some work on the loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(POLL_SECONDS)
            if future.done():  # the work's own time limit
                return future.result()
            if cancelled():
                future.cancel()
                raise Cancelled

    def measure(self, model: ServerModel, command: Work, cancelled: Callable[[], bool]) -> None:
        """Run the task `answer` on a server to its end; post its result or its error.

        Args:
            model: the server.
            command: the measurement; its option `at` is the address of another server, as in `Load`.
            cancelled: polled.
        """
        try:
            if command.task != "answer":
                raise UserError(
                    "Methods are measured on a model of this machine: a server decides how it decodes. Name another model."
                )
            options = dict(command.options)
            if (at := options.pop("at", None)) is not None:
                name, address = at["model"], find_server(at["model"], at["servers"])
                if address is None:
                    raise UserError(
                        f"{name} is not a server: give an address like http://localhost:8080, or a name of the settings."
                    )
                if name not in self._measured:
                    self._measured[name] = self.load(address, cancelled)
                model = self._measured[name]
            measured = self._result(measure_answer(model, **options), cancelled)
            self._post(Worked(command.id, result_fields(measured)))
        except BaseException as error:  # see `failure`
            self._post(failure(command.id, error))

    def start(self, model: ServerModel, request: Generate) -> None:
        """Begin an answer."""
        try:
            if any(answer.lane == request.lane for answer in list(self._answers.values())):
                raise UserError("An answer is being written here. Wait for it, or cancel it first.")
            answer = RemoteAnswer(model, request, self._post)
        except UserError as error:
            self._post(failure(request.id, error))
            return
        self._answers[request.id] = answer
        self._loop.call_soon_threadsafe(answer.begin, self._answers.__delitem__)

    def cancel(self, id: int) -> bool:
        """Close the stream of an answer; return whether there is such an answer."""
        if (answer := self._answers.get(id)) is None:
            return False
        self._stop((answer,), wait=False)
        return True

    def cancel_all(self) -> None:
        """Close every stream and wait for their end."""
        self._stop(self._answers.values())

    def close_lane(self, lane: str) -> None:
        """Close the stream of a lane and wait for its end."""
        self._stop(answer for answer in list(self._answers.values()) if answer.lane == lane)

    def pause(self, id: int) -> bool:
        """Refuse to pause an answer; return whether there is such an answer."""
        if id not in self._answers:
            return False
        self._refuse(id, "A server's answer cannot be paused. esc stops it.")
        self._post(Paused(id, False))
        return True

    def switch(self, id: int, method: str) -> bool:
        """Refuse to change an answer's method; return whether there is such an answer."""
        if (answer := self._answers.get(id)) is None:
            return False
        if method == answer.model.method:
            self._post(Switched(id, method, ""))
        else:
            self._refuse(id, f"{method} is not used there: {answer.model.reason()}")
        return True

    def free(self, model: ServerModel) -> None:
        """Stop a server's answers and disconnect it."""
        self._stop(answer for answer in list(self._answers.values()) if answer.model is model)
        for server in (model, *self._measured.values()):
            self._run(server.close())
        self._measured.clear()

    def _refuse(self, id: int, sentence: str) -> None:
        self._post(Failed(id, "user", sentence, ended=False))

    def _stop(self, answers: Iterable[RemoteAnswer], wait: bool = True) -> None:
        """Cancel answers, and wait for their end."""

        async def stop() -> None:
            tasks = [answer.task for answer in stopped]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        stopped = list(answers)
        self._run(stop(), wait)

    def _run(self, work: Coroutine[Any, Any, None], wait: bool = True) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with contextlib.suppress(TimeoutError, CancelledError):
            if wait:
                future.result(CLOSE_SECONDS)


def make_server_request(request: Generate) -> ServerRequest:
    """Translate a request for a server.

    Raises:
        UserError: no server can do it.
    """
    if request.accept != "exact":
        raise UserError("The server decides which draft tokens it accepts. Set accept to exact.")
    constraint = parse_constraint(request.constraint)
    if constraint is not None:
        constraint.check()
    return ServerRequest(
        chat_messages(request.prompt, request.messages, request.raw),
        request.prompt or "",
        Sampling(**request.sampling),
        request.max_tokens,
        request.stop,
        constraint=constraint,
        think=request.think,
        think_budget=request.think_budget,
        template_vars=request.template_vars,
    )


def chat_messages(
    prompt: str | None, messages: Sequence[Mapping[str, str]] | None, raw: bool
) -> Sequence[Mapping[str, str]] | None:
    """Return a chat, or a prompt as a chat; None for a raw prompt."""
    return messages if messages is not None or raw else [{"role": "user", "content": prompt or ""}]


def served_figures(outcome: Outcome) -> ServedFigures:
    """Collect the figures that a server sent."""
    return ServedFigures(**{f.name: getattr(outcome, f.name) for f in fields(ServedFigures)})


def record(run: RemoteRun, method: str) -> StepRecord:
    """Convert a run to a step's record."""
    return StepRecord(
        method=method,
        tokens=run.tokens,
        text=run.text,
        drafted=run.drafted,
        accepted=run.accepted,
        nodes=1 + run.drafted if run.tokens else 0,
        forward_seconds=run.seconds,
        spans=run.spans,
    )


def refusals(model: ServerModel) -> dict[str, str]:
    """List specchat's methods with the reason why they do not decode on a server."""
    return {name: model.reason() for name in registry.methods() if name != model.method}


def describe_server(model: ServerModel) -> ModelInfo:
    """Describe a model on a server as the interface shows it."""
    return replace(model.info, server=ServerInfo(model.served.engine, model.method))


async def measure_answer(
    model: ServerModel,
    prompt: str | None = None,
    messages: Sequence[Mapping[str, str]] | None = None,
    raw: bool = False,
    max_tokens: int = 256,
) -> Measured:
    """Ask a server for a greedy answer, without its prompt cache if it can be switched off.

    Args:
        model: the server.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.

    Returns:
        its figures: `seconds` by the server's clock, else by arrival; `steps` 0 if passes are not counted, `nodes` and
        `drafted` 0 without its drafts.

    Raises:
        UserError: the server refused, failed or fell silent.
    """
    runs, outcome = list[RemoteRun](), Outcome()
    taker = Taker(runs.append, lambda *_: None)
    request = ServerRequest(chat_messages(prompt, messages, raw), prompt or "", max_tokens=max_tokens, fresh=True)
    await model.answer(request, taker, outcome)
    ids = [token for run in runs for token in run.tokens]
    number = outcome.tokens if outcome.tokens is not None else len(ids)
    if not number:
        raise UserError(f"{model.connection.address.host} answered nothing. Try it again, or name another model.")
    passes = [run for run in runs if run.tokens]
    steps = outcome.steps or (len(passes) if outcome.certainty == "exact" else 0)
    drafted = outcome.drafted or 0
    seconds = outcome.prefill_seconds + outcome.decode_seconds
    tokens = ids if NO_ID not in ids and len(ids) == number else []
    return Measured(
        tokens=tokens,
        prompt_ids=list(outcome.prompt_ids),
        text=taker.raw,
        count=number,
        prompt_tokens=outcome.prompt_tokens or 0,
        seconds=seconds,
        prefill_seconds=outcome.prefill_seconds,
        steps=steps,
        drafted=drafted,
        accepted=(outcome.accepted or 0) if drafted else 0,
        nodes=steps + drafted if drafted else 0,
        other_seconds=seconds,
        certainty=outcome.certainty,
        engine=model.served.engine,
        decodes=model.method,
        finish_reason=outcome.reason,
    )
