"""Answers that a server writes: each is a task of one event loop, on a thread of its own, and posts the events of a lane."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, fields
from typing import Any, TypeVar

from ...backends.base import Sampling
from ...backends.grammars.constraint import constraint_of
from ...backends.servers.address import Address, find_server
from ...backends.servers.bodies import ServerRequest
from ...backends.servers.chunks import NO_ID
from ...backends.servers.model import ServerModel, connect
from ...backends.servers.runs import Run
from ...backends.servers.stream import Outcome, Taker
from ...backends.thinking.split import THOUGHT
from ...decoders import registry
from ...errors import Cancelled, UserError
from ..failures import failure
from ..messages import (
    Event,
    Failed,
    Finished,
    Generate,
    Paused,
    Prefilling,
    Started,
    StepRecord,
    Steps,
    Switched,
    Work,
    Worked,
)
from ..tasks.work import UNTOLD

POLL_SECONDS = 0.05
"""Between looks whether a load was cancelled."""

CLOSE_SECONDS = 2.0
"""Time for connections to close; what takes longer ends with the process."""

T = TypeVar("T")


class ServerAnswers:
    """The models on servers that are in use, and the answers that they write. Called from the engine's main thread.

    Args:
        post: takes events, from any thread.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The answer's id → its task. This, and the next one, are touched on the loop's thread alone."""
        self._lanes: dict[str, int] = {}
        """The answers that run, by lane."""
        self._measured: dict[str, ServerModel] = {}
        """Models that are measured beside another, by the name that they were given."""
        self._writers: dict[int, ServerModel] = {}
        """Who writes each answer that was begun and has not ended, as the main thread knows it."""

    def load(self, address: Address, cancelled: Callable[[], bool]) -> ServerModel:
        """Find out what a server is.

        Raises:
            UserError: it cannot be used; says why.
            Cancelled: `cancelled` answered True.
        """
        return self._waited(connect(address), cancelled)

    def _waited(self, work: Coroutine[Any, Any, T], cancelled: Callable[[], bool]) -> T:
        """What becomes of some work on the loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(POLL_SECONDS)
            if future.done():  # a time limit of its own
                return future.result()
            if cancelled():
                future.cancel()
                raise Cancelled

    def measure(self, model: ServerModel, command: Work, cancelled: Callable[[], bool]) -> None:
        """Run the task `answer` on a server to its end; post its result, or what went wrong.

        Args:
            model: the server.
            command: what is measured; its option `at` is the address of another server, as in `Load`.
            cancelled: whether it is no longer wanted.
        """

        try:
            if command.task != "answer":
                raise UserError(
                    "Methods are measured on a model of this machine: a server decides how it decodes. Name another model."
                )
            options = {name: value for name, value in command.options.items() if name != "at"}
            if at := command.options.get("at"):
                model = self._beside(str(at["model"]), at["servers"], cancelled)
            result = self._waited(measure_answer(model, **options), cancelled)
        except BaseException as error:  # see `failure`
            self._post(failure(command.id, error))
            return
        self._post(Worked(command.id, result))

    def _beside(self, name: str, servers: Mapping[str, Mapping[str, str]], cancelled: Callable[[], bool]) -> ServerModel:
        """Another server, asked once what it is."""
        if name not in self._measured:
            address = find_server(name, servers)
            if address is None:
                raise UserError(
                    f"{name} is not a server: give an address like http://localhost:8080, or a name of the settings."
                )
            self._measured[name] = self.load(address, cancelled)
        return self._measured[name]

    def start(self, model: ServerModel, request: Generate) -> None:
        """Begin an answer."""
        try:
            asked = asked_of(request)
        except UserError as error:
            self._post(failure(request.id, error))
            return
        self._writers[request.id] = model
        self._on_loop(self._begin, model, request, asked)

    def cancel(self, id: int) -> bool:
        """Close the stream of an answer; whether there is such an answer."""
        if id not in self._writers:
            return False
        self._on_loop(self._cancel, id)
        return True

    def cancel_all(self) -> None:
        """Close every stream, and wait for it."""
        if self._loop is not None:
            self._wait(self._stop(lambda _: True))

    def close_lane(self, lane: str) -> None:
        """Close the stream that runs in a lane."""
        if self._loop is not None:
            self._wait(self._stop(lambda id: self._lanes.get(lane) == id))

    def pause(self, id: int) -> bool:
        """Say that an answer cannot be held; whether there is such an answer."""
        if id not in self._writers:
            return False
        self._refuse(id, "A server's answer cannot be paused. esc stops it.")
        self._post(Paused(id, False))
        return True

    def switch(self, id: int, method: str) -> bool:
        """Say that an answer's method stays; whether there is such an answer."""
        if (model := self._writers.get(id)) is None:
            return False
        if method == model.method:
            self._post(Switched(id, method, ""))
        else:
            self._refuse(id, f"{method} is not used there: {model.reason()}")
        return True

    def free(self, model: ServerModel) -> None:
        """Let a server go, its answers stopped."""
        own = {id for id, writer in list(self._writers.items()) if writer is model}
        self._wait(self._stop(own.__contains__))
        for each in (model, *self._measured.values()):
            self._wait(each.close())
        self._measured.clear()

    def _refuse(self, id: int, sentence: str) -> None:
        self._post(Failed(id, "user", sentence, ended=False))

    # The loop

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="servers", daemon=True).start()
        return self._loop

    def _on_loop(self, call: Callable[..., None], *args: Any) -> None:
        self._running_loop().call_soon_threadsafe(call, *args)

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(TimeoutError, CancelledError):
            asyncio.run_coroutine_threadsafe(work, self._running_loop()).result(CLOSE_SECONDS)

    def _begin(self, model: ServerModel, request: Generate, asked: ServerRequest) -> None:
        if request.lane in self._lanes:
            self._writers.pop(request.id, None)
            self._post(Failed(request.id, "user", "An answer is being written here. Wait for it, or cancel it first."))
            return
        self._lanes[request.lane] = request.id
        self._tasks[request.id] = asyncio.get_running_loop().create_task(self._answer(model, request, asked))

    def _cancel(self, id: int) -> None:
        if (task := self._tasks.get(id)) is not None:
            task.cancel()

    async def _stop(self, which: Callable[[int], bool]) -> None:
        going = [task for id, task in self._tasks.items() if which(id)]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    async def _answer(self, model: ServerModel, request: Generate, asked: ServerRequest) -> None:
        id, outcome, failed = request.id, Outcome(), None
        taker = Taker(
            lambda run: self._post(Steps(id, [record(run, model.method)])),
            lambda done, total, seconds: self._post(Prefilling(id, done, total, seconds)),
        )
        self._post(Started(id, request.lane, model.method, "", 0, 0, certainty=model.certainty))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            await model.answer(asked, taker, outcome)
        except asyncio.CancelledError:
            outcome.reason = "cancelled"
        except BaseException as error:  # see `failure`
            failed = failure(id, error)
        finally:
            self._tasks.pop(id, None)
            self._lanes = {lane: other for lane, other in self._lanes.items() if other != id}
            self._writers.pop(id, None)
        if failed is not None:
            failed.served = told(outcome)
            self._post(failed)
            return
        spent = outcome.prefill_seconds + outcome.decode_seconds or loop.time() - begun
        reason, thinking, valid = outcome.reason or "eos", taker.parts.part == THOUGHT, None
        if asked.constraint is not None and outcome.reason not in ("cancelled", "stop"):
            valid = asked.constraint.matches(taker.text.strip())
        if valid is False and reason == "eos":
            outcome.doubt = f"{model.served.engine or 'The server'} did not keep to what was asked of its answer."
        ended = Finished(id, reason, "", outcome.prefill_seconds, spent, thinking=thinking, valid=valid, served=told(outcome))
        self._post(ended)


def asked_of(request: Generate) -> ServerRequest:
    """What to ask a server for.

    Raises:
        UserError: no server can do it.
    """
    if request.accept != "exact":
        raise UserError("The server decides which draft tokens it accepts. Set accept to exact.")
    messages = request.messages
    if messages is None and not request.raw:
        messages = [{"role": "user", "content": request.prompt or ""}]
    constraint = constraint_of(request.constraint)
    if constraint is not None:
        constraint.check()
    return ServerRequest(
        *(messages, request.prompt or "", Sampling(**request.sampling), request.max_tokens, request.stop),
        constraint=constraint,
        think=request.think,
        think_budget=request.think_budget,
        template_vars=request.template_vars,
    )


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


def refusals(model: ServerModel) -> dict[str, str]:
    """Every method of ours, and why it does not decode here."""
    return {name: model.reason() for name in registry.methods() if name != model.method}


def info_of(model: ServerModel) -> dict[str, Any]:
    """What the interface shows of a model on a server."""
    info = {f.name: getattr(model.info, f.name) for f in fields(model.info)}
    info["capabilities"] = asdict(model.info.capabilities)
    served = model.served
    return info | {"server": {"engine": served.engine, "method": model.method}}


async def measure_answer(
    model: ServerModel,
    prompt: str | None = None,
    messages: Sequence[Mapping[str, str]] | None = None,
    raw: bool = False,
    max_tokens: int = 256,
) -> dict[str, Any]:
    """Ask a server for a greedy answer, without what it kept of earlier prompts where it can be told so.

    Args:
        model: the server.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.

    Returns:
        As the task for methods of ours, as far as the server tells: `tokens` only where it sends every id; `nodes` and
        `drafted` 0 where it does not say what it drafted; `steps` 0 where passes are not counted. `count`: tokens; `seconds`:
        its own clock's, else by arrival. Also `certainty` (whether the runs are known), `engine` and what it
        `decodes` with, `finish_reason`, and `prompt_ids` where it sends them.

    Raises:
        UserError: the server refused, failed or fell silent.
    """
    if messages is None and not raw:
        messages = [{"role": "user", "content": prompt or ""}]
    runs, outcome = list[Run](), Outcome()
    asked = ServerRequest(messages, prompt or "", max_tokens=max_tokens, afresh=True)
    taker = Taker(runs.append, lambda *_: None)
    await model.answer(asked, taker, outcome)
    found = [token for run in runs for token in run.tokens]
    number = outcome.tokens if outcome.tokens is not None else len(found)
    if not number:
        raise UserError(f"{model.connection.address.host} answered nothing. Try it again, or name another model.")
    passes = [run for run in runs if run.tokens]
    steps = outcome.steps or (len(passes) if outcome.certainty == "exact" else 0)
    drafted, accepted = outcome.drafted, outcome.accepted
    if drafted is None:
        drafted, accepted = 0, 0
    seconds = outcome.prefill_seconds + outcome.decode_seconds
    tokens = found if NO_ID not in found and len(found) == number else []
    return {
        **UNTOLD,
        "tokens": tokens,
        "prompt_ids": list(outcome.prompt_ids),
        "text": taker.raw,
        "count": number,
        "prompt_tokens": outcome.prompt_tokens or 0,
        "seconds": seconds,
        "prefill_seconds": outcome.prefill_seconds,
        "steps": steps,
        "drafted": drafted,
        "accepted": accepted or 0,
        "nodes": steps + drafted if drafted else 0,
        "other_seconds": seconds,
        "certainty": outcome.certainty,
        "engine": model.served.engine,
        "decodes": model.method,
        "finish_reason": outcome.reason,
    }
