"""Measurements in the engine: the tasks that a Work message may name. Each is a function of a module."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...backends.base import Model
from ...errors import Cancelled, UserError
from ..failures import failure
from ..messages import Event, Work, Worked, Working

if TYPE_CHECKING:
    from ..drafts import Drafts

TASKS = {
    "answer": "measuring:measure_answer",
    "blocks": "block_search:find_blocks",
    "past": "measuring:open_past",
    "peer": "peers:prepare",
    "prove": "proving:prove",
    "replay": "replaying:replay_records",
}
"""Task → module of this package and function in it."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a task works with."""

    loaded: Model | None
    drafts: Drafts | None
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
        """Raise Cancelled if the task is no longer wanted. Tasks call it between two passes."""
        if self.cancelled():
            raise Cancelled


UNTOLD: Mapping[str, Any] = dict.fromkeys(
    ("cpu_seconds", "prefill_seconds", "draft_seconds", "forward_seconds", "other_seconds"), 0.0
)
"""What `measuring.measure_answer` gives, where another implementation or a server does not tell it."""


class Timed:
    """How long what runs inside takes. No garbage is collected meanwhile: in the middle of one answer it would count against
    its method."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Timed:
        gc.collect()
        gc.disable()
        self.cpu_seconds, self.seconds = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.cpu_seconds = time.perf_counter() - self.seconds, time.process_time() - self.cpu_seconds
        gc.enable()


def run(
    command: Work, model: Model | None, drafts: Drafts | None, post: Callable[[Event], None], cancelled: Callable[[], bool]
) -> None:
    """Run a task to its end; post its parts and its result, or what went wrong."""
    job = Job(model, drafts, lambda data: post(Working(command.id, data)), cancelled)
    try:
        module, name = TASKS[command.task].split(":")
        result: dict[str, Any] = getattr(import_module(f".{module}", __package__), name)(job, **command.options)
    except BaseException as error:  # see `failure`
        post(failure(command.id, error))
        return
    post(Worked(command.id, result))
