"""Measurements in the engine: the tasks of Work messages. Each is a function of a module."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ...backends.base import Model
from ...errors import Cancelled, UserError
from ..failures import failure
from ..messages import Event, Work, Worked, Working

if TYPE_CHECKING:
    from ..drafts import Drafters

TASKS = {
    "answer": "measuring:measure_answer",
    "blocks": "block_search:find_blocks",
    "past": "measuring:open_past",
    "peer": "peers:prepare",
    "prove": "measuring:prove",
    "replay": "replaying:replay_records",
}
"""Task → module of this package and function in it."""


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The models and callbacks of a task."""

    loaded: Model | None
    drafts: Drafters | None
    report: Callable[[dict[str, Any]], None]
    """Sends a part of the result."""
    cancelled: Callable[[], bool]

    @property
    def model(self) -> Model:
        """The target.

        Raises:
            UserError: none is loaded.
        """
        if self.loaded is None:
            raise UserError("No model is loaded. Load one first.")
        return self.loaded

    def check(self) -> None:
        """Raise Cancelled if the task was cancelled. Tasks call it between two passes."""
        if self.cancelled():
            raise Cancelled


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured answer. What an implementation or a server does not say is 0 or None."""

    tokens: Sequence[int]
    """Ids, EOS included; empty where a server sends none."""
    text: str
    prompt_tokens: int
    prompt_ids: Sequence[int] = ()
    count: int | None = None
    """Tokens, where their ids are unknown."""
    seconds: float
    """Time of the whole answer, prefill included."""
    cpu_seconds: float = 0.0
    prefill_seconds: float = 0.0
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    other_seconds: float = 0.0
    steps: int
    drafted: int
    accepted: int
    nodes: int
    grammar: int = 0
    """Forced tokens."""
    certainty: str | None = None
    """Whether a server's runs are known."""
    engine: str | None = None
    decodes: str | None = None
    """The server and its method."""
    finish_reason: str | None = None


class Timer:
    """A context that measures its time. No garbage is collected meanwhile: in the middle of an answer it would count against
    the method."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Timer:
        gc.collect()
        gc.disable()
        self.cpu_seconds = time.process_time()
        self.seconds = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.seconds
        self.cpu_seconds = time.process_time() - self.cpu_seconds
        gc.enable()


def result_fields(result: object) -> dict[str, Any]:
    """Return the known fields of a task's result."""

    def known(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in pairs if value is not None}

    return asdict(cast(Any, result), dict_factory=known) if result is not None else {}


def run(
    command: Work, model: Model | None, drafts: Drafters | None, post: Callable[[Event], None], cancelled: Callable[[], bool]
) -> None:
    """Run a task to its end; post its parts and its result, or its error."""
    job = TaskContext(model, drafts, lambda data: post(Working(command.id, data)), cancelled)
    try:
        module, name = TASKS[command.task].split(":")
        result = getattr(import_module(f".{module}", __package__), name)(job, **command.options)
    except BaseException as error:  # see `failure`
        post(failure(command.id, error))
        return
    post(Worked(command.id, result_fields(result)))
