"""The engine's main loop: commands come in on one thread, events leave on another, models run on the main one."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import __version__
from .logfile import log, log_path, redirect
from .messages import (
    Cancel,
    CloseLane,
    Count,
    Failed,
    Generate,
    GrantPasses,
    Load,
    LoadSecondary,
    MeasureGap,
    Pace,
    Pause,
    PieceTable,
    Quit,
    ReadPieces,
    Ready,
    RecordProbabilities,
    Remember,
    ScoreStep,
    Switch,
    UnloadSecondary,
    Work,
)
from .past import PastAnswers
from .wire import Outbox
from .wire import parse as parse_message

if TYPE_CHECKING:
    from .lanes import Lanes
    from .models import ModelTable

PARENT_POLL_SECONDS = 0.5
"""Interval of checks whether the parent lives, where the kernel does not report it."""


class Server:
    """The engine's server of one client, over two descriptors, until the client ends."""

    def __init__(self, commands: int, events: int) -> None:
        self._input = commands
        self._outbox = Outbox(events)
        self._commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        """Ids whose Cancel has come in but has not been served yet: loads and queued answers read them at once."""
        self._past = PastAnswers(self._outbox.post)

    def run(self) -> None:
        """Serve for ever; the process ends from the reading thread."""
        self._outbox.post(Ready(os.getpid(), __version__))
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        die_with_parent()
        # Deferred: everything above has to be up within a tenth of a second, and this imports the decoders.
        from .lanes import Lanes
        from .models import ModelTable

        lanes = Lanes(self._outbox.post)
        models = ModelTable(self._outbox.post, lanes, self._past, self._cancelled.__contains__)
        while True:
            # One pass at most lies between a command's arrival and its effect.
            if (rest := lanes.rest) == 0 and self._commands.empty():
                lanes.run_pass()
                continue
            with suppress(queue.Empty):  # an answer has rested long enough
                self._serve(self._commands.get(timeout=rest), lanes, models)

    def _read(self) -> None:
        """Read commands. The end of the stream ends the process, even while the main thread is busy."""
        with os.fdopen(self._input, "rb", closefd=False) as lines:
            for line in lines:
                try:
                    command = parse_message(line)
                except ValueError as error:
                    log(f"ignored a line: {error}")
                    continue
                if isinstance(command, Quit):
                    break
                if isinstance(command, Cancel):
                    self._cancelled.add(command.id)
                self._commands.put(command)
        # Not sys.exit: it would wait for the main thread, which may be in the middle of a long pass.
        os._exit(0)

    def _serve(self, command: Any, lanes: Lanes, models: ModelTable) -> None:
        answers = models.answers
        match command:
            case Load():
                redirect(log_path())  # a long-lived engine's log is moved aside here too, once it is full
                lanes.cancel_all()
                if answers is not None:
                    answers.cancel_all()
                models.load(command)
            case LoadSecondary():
                models.load(command)
            case UnloadSecondary():
                models.free_secondary(command.key)
            case Generate():
                self._start(command, lanes, models)
                if command.id in self._cancelled:
                    self._cancel(command.id, lanes, models)
            case Switch():
                if answers is None or not answers.switch(command.id, command.method):
                    lanes.switch(command)
            case Cancel():
                self._cancel(command.id, lanes, models)
                self._cancelled.discard(command.id)
            case Pause():
                if answers is None or not answers.pause(command.id):
                    lanes.pause(command)
            case GrantPasses():
                lanes.grant_passes(command)
            case Pace():
                lanes.pace(command)
            case RecordProbabilities():
                lanes.record_probabilities(command)
            case MeasureGap():
                lanes.measure_gap(command)
            case ScoreStep():
                lanes.score_step(command)
            case ReadPieces():
                model, _ = models.local(command.model)
                self._outbox.post(PieceTable(command.id, model.pieces() if model is not None else []))
            case Remember():
                self._past.remember(command, models.local()[0])
            case Count():
                from .requests import count

                self._outbox.post(count(models.local()[0], command))
            case CloseLane():
                lanes.close_lane(command.lane)
                if answers is not None:
                    answers.close_lane(command.lane)
            case Work():
                self._work(command, lanes, models)
            case _:
                log(f"ignored a message that is not a command: {command!r}")

    def _start(self, command: Generate, lanes: Lanes, models: ModelTable) -> None:
        if (server := models.server(command.model)) is not None and models.answers is not None:
            models.answers.start(server, command)
            return
        model, drafts = models.local(command.model)
        if model is None and command.model:
            sentence = f"{command.model} is not loaded next to the chat's model. Run the race again."
            self._outbox.post(Failed(command.id, "user", sentence))
            return
        past = self._past.get(model, command.past) if command.past else None
        lanes.start(model, command, drafts, past)

    def _cancel(self, id: int, lanes: Lanes, models: ModelTable) -> None:
        if models.answers is None or not models.answers.cancel(id):
            lanes.cancel(id)

    def _work(self, command: Work, lanes: Lanes, models: ModelTable) -> None:
        from .tasks.work import run

        def cancelled() -> bool:
            return command.id in self._cancelled

        lanes.cancel_all()
        if (server := models.server()) is not None and models.answers is not None and command.task != "replay":
            models.answers.measure(server, command, cancelled)
        else:
            model, drafts = models.local()
            run(command, model, drafts, self._outbox.post, cancelled)
        self._cancelled.discard(command.id)


def die_with_parent() -> None:
    """End with the parent even while a library holds the GIL, when the reading thread could not.

    Linux kills the process itself. Elsewhere a thread watches for a new parent (the end of the command stream comes sooner,
    unless another process holds the stream open).
    """
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    parent = os.getppid()

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os._exit(0)

    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
