"""Answers that servers write: each is a task of one event loop, on another thread, and posts the events of a lane."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, fields
from typing import Any, TypeVar

from ..backends.base import Sampling
from ..backends.grammars.constraint import constraint_of
from ..backends.remote.address import Address, find_server
from ..backends.remote.bodies import ServerRequest
from ..backends.remote.chunks import NO_ID
from ..backends.remote.model import ServerModel, connect
from ..backends.remote.runs import Run
from ..backends.remote.stream import Outcome, Taker
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
    Started,
    StepRecord,
    Steps,
    Switched,
    Work,
    Worked,
)
from .tasks.work import UNMEASURED

POLL_SECONDS = 0.05
"""Interval of checks whether a load was cancelled."""

CLOSE_SECONDS = 2.0
"""Time for connections to close; slower ones end with the process."""

T = TypeVar("T")


class ServerAnswers:
    """The models on servers that are in use, and the answers that they write. Called from the engine's main thread.

    Args:
        post: receives events, from any thread.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The running answers' tasks, by id. This, and the next one, are used on the loop's thread alone."""
        self._lanes: dict[str, int] = {}
        """The running answers, by lane."""
        self._measured: dict[str, ServerModel] = {}
        """Other servers that are measured, by name."""
        self._writers: dict[int, ServerModel] = {}
        """The server of each answer that has begun and not ended, as the main thread knows it."""

    def load(self, address: Address, cancelled: Callable[[], bool]) -> ServerModel:
        """Connect to a server and identify it.

        Raises:
            UserError: it cannot be used; says why.
            Cancelled: `cancelled` answered True.
        """
        return self._result(connect(address), cancelled)

    def _result(self, work: Coroutine[Any, Any, T], cancelled: Callable[[], bool]) -> T:
        """Wait for the result of some work on the loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
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
            options = {name: value for name, value in command.options.items() if name != "at"}
            if at := command.options.get("at"):
                model = self._other_server(str(at["model"]), at["servers"], cancelled)
            result = self._result(measure_answer(model, **options), cancelled)
        except BaseException as error:  # see `failure`
            self._post(failure(command.id, error))
            return
        self._post(Worked(command.id, result))

    def _other_server(self, name: str, servers: Mapping[str, Mapping[str, str]], cancelled: Callable[[], bool]) -> ServerModel:
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
            server_request = make_server_request(request)
        except UserError as error:
            self._post(failure(request.id, error))
            return
        self._writers[request.id] = model
        self._on_loop(self._begin, model, request, server_request)

    def cancel(self, id: int) -> bool:
        """Close the stream of an answer; return whether there is such an answer."""
        if id not in self._writers:
            return False
        self._on_loop(self._cancel, id)
        return True

    def cancel_all(self) -> None:
        """Close every stream and wait for their end."""
        if self._loop is not None:
            self._wait(self._stop(lambda _: True))

    def close_lane(self, lane: str) -> None:
        """Close the stream of a lane."""
        if self._loop is not None:
            self._wait(self._stop(lambda id: self._lanes.get(lane) == id))

    def pause(self, id: int) -> bool:
        """Refuse to pause an answer; return whether there is such an answer."""
        if id not in self._writers:
            return False
        self._refuse(id, "A server's answer cannot be paused. esc stops it.")
        self._post(Paused(id, False))
        return True

    def switch(self, id: int, method: str) -> bool:
        """Refuse to change an answer's method; return whether there is such an answer."""
        if (model := self._writers.get(id)) is None:
            return False
        if method == model.method:
            self._post(Switched(id, method, ""))
        else:
            self._refuse(id, f"{method} is not used there: {model.reason()}")
        return True

    def free(self, model: ServerModel) -> None:
        """Stop a server's answers and disconnect it."""
        answers = {id for id, writer in list(self._writers.items()) if writer is model}
        self._wait(self._stop(answers.__contains__))
        for server in (model, *self._measured.values()):
            self._wait(server.close())
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

    def _begin(self, model: ServerModel, request: Generate, server_request: ServerRequest) -> None:
        if request.lane in self._lanes:
            self._writers.pop(request.id, None)
            self._post(Failed(request.id, "user", "An answer is being written here. Wait for it, or cancel it first."))
            return
        self._lanes[request.lane] = request.id
        self._tasks[request.id] = asyncio.get_running_loop().create_task(self._answer(model, request, server_request))

    def _cancel(self, id: int) -> None:
        if (task := self._tasks.get(id)) is not None:
            task.cancel()

    async def _stop(self, which: Callable[[int], bool]) -> None:
        tasks = [task for id, task in self._tasks.items() if which(id)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, model: ServerModel, request: Generate, server_request: ServerRequest) -> None:
        id, outcome, failed = request.id, Outcome(), None
        taker = Taker(
            lambda run: self._post(Steps(id, [record(run, model.method)])),
            lambda done, total, seconds: self._post(Prefilling(id, done, total, seconds)),
        )
        self._post(Started(id, request.lane, model.method, "", 0, 0, certainty=model.certainty))
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            await model.answer(server_request, taker, outcome)
        except asyncio.CancelledError:
            outcome.reason = "cancelled"
        except BaseException as error:  # see `failure`
            failed = failure(id, error)
        finally:
            self._tasks.pop(id, None)
            self._lanes = {lane: other for lane, other in self._lanes.items() if other != id}
            self._writers.pop(id, None)
        if failed is not None:
            failed.served = served_figures(outcome)
            self._post(failed)
            return
        reason, valid = outcome.reason or "eos", None
        if server_request.constraint is not None and outcome.reason not in ("cancelled", "stop"):
            valid = server_request.constraint.matches(taker.text.strip())
        if valid is False and reason == "eos":
            outcome.doubt = f"{model.served.engine or 'The server'} did not keep to what was asked of its answer."
        self._post(
            Finished(
                id=id,
                reason=reason,
                tail="",
                prefill_seconds=outcome.prefill_seconds,
                busy_seconds=outcome.prefill_seconds + outcome.decode_seconds or loop.time() - started,
                thinking=taker.parts.part == THOUGHT,
                valid=valid,
                served=served_figures(outcome),
            )
        )


def make_server_request(request: Generate) -> ServerRequest:
    """Translate a request for a server.

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
        messages,
        request.prompt or "",
        Sampling(**request.sampling),
        request.max_tokens,
        request.stop,
        constraint=constraint,
        think=request.think,
        think_budget=request.think_budget,
        template_vars=request.template_vars,
    )


def served_figures(outcome: Outcome) -> dict[str, Any]:
    """Collect the figures that a server sent, for `Finished.served`."""
    skipped = ("reason", "prompt_ids", "prefill_seconds", "decode_seconds")
    return {name: value for name, value in asdict(outcome).items() if name not in skipped and value not in (None, "")}


def record(run: Run, method: str) -> StepRecord:
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


def describe_server(model: ServerModel) -> dict[str, Any]:
    """Describe a model on a server as the interface shows it."""
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
    """Ask a server for a greedy answer, without its prompt cache if it can be switched off.

    Args:
        model: the server.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.

    Returns:
        The fields of `measuring.measure_answer` that the server sends: `tokens` only with every id; `nodes` and `drafted` 0
        without its drafts; `steps` 0 if passes are not counted. `count`: tokens; `seconds`: by its clock, else by arrival. Also
        `certainty` (whether the runs are known), `engine`, `decodes` (its method), `finish_reason`, and `prompt_ids` if it
        sends them.

    Raises:
        UserError: the server refused, failed or fell silent.
    """
    if messages is None and not raw:
        messages = [{"role": "user", "content": prompt or ""}]
    runs, outcome = list[Run](), Outcome()
    server_request = ServerRequest(messages, prompt or "", max_tokens=max_tokens, afresh=True)
    taker = Taker(runs.append, lambda *_: None)
    await model.answer(server_request, taker, outcome)
    ids = [token for run in runs for token in run.tokens]
    number = outcome.tokens if outcome.tokens is not None else len(ids)
    if not number:
        raise UserError(f"{model.connection.address.host} answered nothing. Try it again, or name another model.")
    passes = [run for run in runs if run.tokens]
    steps = outcome.steps or (len(passes) if outcome.certainty == "exact" else 0)
    drafted, accepted = outcome.drafted, outcome.accepted
    if drafted is None:
        drafted, accepted = 0, 0
    seconds = outcome.prefill_seconds + outcome.decode_seconds
    tokens = ids if NO_ID not in ids and len(ids) == number else []
    return {
        **UNMEASURED,
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
