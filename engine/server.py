"""The engine's main loop: commands come in on one thread, events leave on another, models run on the main one."""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import UserError
from .failures import failure
from .logfile import log, log_path, redirect
from .messages import (
    Cancel,
    CloseLane,
    Count,
    Failed,
    Generate,
    GrantPasses,
    Load,
    Loaded,
    LoadedSecondary,
    Loading,
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
    Unloaded,
    UnloadSecondary,
    Work,
)
from .past import PastAnswers
from .wire import Outbox
from .wire import parse as parse_message

if TYPE_CHECKING:
    from ..backends.base import Model
    from ..backends.remote.address import Address
    from ..backends.remote.model import ServerModel
    from .drafts import Drafters
    from .lanes import Lanes
    from .remote import ServerAnswers
    from .secondary import SecondaryModels

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
        self._model: Model | None = None
        self._drafts: Drafters | None = None
        self._lanes: Lanes | None = None
        self._secondary: SecondaryModels
        self._remote: ServerModel | None = None
        """The server that takes the model's place, if one does."""
        self._past = PastAnswers(self._outbox.post)
        self._secondary_servers: dict[str, ServerModel] = {}
        """Servers used next to the chat's model, by key."""
        self._answers: ServerAnswers | None = None
        """The servers' answers; created, with httpx imported, when the first server is named."""

    def run(self) -> None:
        """Serve for ever; the process ends from the reading thread."""
        self._outbox.post(Ready(os.getpid(), __version__))
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        die_with_parent()
        # Deferred: everything above has to be up within a tenth of a second, and this imports the decoders.
        from .lanes import Lanes
        from .secondary import SecondaryModels

        self._lanes = lanes = Lanes(self._outbox.post)
        self._secondary = SecondaryModels(self._outbox.post)
        while True:
            # One pass at most lies between a command's arrival and its effect.
            if (rest := lanes.rest) == 0 and self._commands.empty():
                lanes.run_pass()
                continue
            with suppress(queue.Empty):  # an answer has rested long enough
                self._serve(self._commands.get(timeout=rest), lanes)

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

    def _serve(self, command: Any, lanes: Lanes) -> None:
        match command:
            case Load():
                self._load(command, lanes)
            case LoadSecondary():
                self._load_beside(command, lanes)
            case UnloadSecondary():
                self._free_servers(command.key)
                self._secondary.free(lanes, command.key)
            case Generate() if command.id in self._cancelled:
                self._start(command, lanes)
                self._cancel(command.id, lanes)
            case Generate():
                self._start(command, lanes)
            case Switch():
                if self._answers is None or not self._answers.switch(command.id, command.method):
                    lanes.switch(command)
            case Cancel():
                self._cancel(command.id, lanes)
                self._cancelled.discard(command.id)
            case Pause():
                if self._answers is None or not self._answers.pause(command.id):
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
                model = self._model
                if command.model:
                    secondary = self._secondary.get(command.model)
                    model = secondary.model if secondary is not None else None
                self._outbox.post(PieceTable(command.id, model.pieces() if model is not None else []))
            case Remember():
                self._past.remember(command, self._model)
            case Count():
                from .requests import count

                self._outbox.post(count(self._model, command, lambda: not self._commands.empty()))
            case CloseLane():
                lanes.close_lane(command.lane)
                if self._answers is not None:
                    self._answers.close_lane(command.lane)
            case Work():
                self._work(command, lanes)
            case _:
                log(f"ignored a message that is not a command: {command!r}")

    def _start(self, command: Generate, lanes: Lanes) -> None:
        model, drafts = self._model, self._drafts
        remote = self._secondary_servers.get(command.model) if command.model else self._remote
        if remote is not None and self._answers is not None:
            self._answers.start(remote, command)
            return
        if command.model:
            secondary = self._secondary.get(command.model)
            if secondary is None:
                sentence = f"{command.model} is not loaded next to the chat's model. Run the race again."
                self._outbox.post(Failed(command.id, "user", sentence))
                return
            model, drafts = secondary.model, secondary.drafts
        past = self._past.get(model, command.past) if command.past else None
        lanes.start(model, command, drafts, self._cancel_check(command.id), past)

    def _cancel(self, id: int, lanes: Lanes) -> None:
        if self._answers is None or not self._answers.cancel(id):
            lanes.cancel(id)

    def _work(self, command: Work, lanes: Lanes) -> None:
        from .tasks.work import run

        lanes.cancel_all()
        cancelled = self._cancel_check(command.id)
        if self._remote is not None and self._answers is not None and command.task != "replay":
            self._answers.measure(self._remote, command, cancelled)
        else:
            run(command, self._model, self._drafts, self._outbox.post, cancelled)
        self._cancelled.discard(command.id)

    def _load(self, command: Load, lanes: Lanes) -> None:
        from ..backends.remote.address import find_server

        redirect(log_path())  # a long-lived engine's log is moved aside here too, once it is full
        lanes.cancel_all()
        if self._answers is not None:
            self._answers.cancel_all()
        try:
            address = find_server(command.selection.model, command.selection.servers)
        except UserError as error:
            self._outbox.post(failure(command.id, error, loading=command.selection.model))
            return
        if address is None:
            self._load_here(command, lanes)
        else:
            self._load_server(command, address, lanes)

    def _load_server(self, command: Load, address: Address, lanes: Lanes) -> None:
        """Identify a server, then free the loaded model."""
        from .remote import describe_server, refusals

        start = time.perf_counter()
        try:
            remote = self._connect(command.id, address)
        except BaseException as error:  # see `failure`
            self._outbox.post(failure(command.id, error, loading=command.selection.model))
            return
        self._free(lanes)
        self._remote = remote
        info = replace(describe_server(remote), load_seconds=time.perf_counter() - start)
        self._outbox.post(Loaded(command.id, info, refusals(remote)))

    def _connect(self, id: int, address: Address) -> ServerModel:
        """Identify a server, for a load of this id."""
        from .remote import ServerAnswers

        self._outbox.post(Loading(id, "connect"))
        self._answers = self._answers or ServerAnswers(self._outbox.post)
        return self._answers.load(address, self._cancel_check(id))

    def _cancel_check(self, id: int) -> Callable[[], bool]:
        return lambda: id in self._cancelled

    def _load_beside(self, command: LoadSecondary, lanes: Lanes) -> None:
        from ..backends.remote.address import find_server
        from .remote import describe_server, refusals

        self._free_servers(command.key)
        try:
            address = find_server(command.selection.model, command.selection.servers)
            if address is None:
                self._secondary.load(command, self._model, lanes, self._cancel_check(command.id))
                return
            self._secondary.free(lanes, command.key)
            remote = self._secondary_servers[command.key] = self._connect(command.id, address)
        except BaseException as error:  # see `failure`
            self._outbox.post(failure(command.id, error, loading=command.selection.model))
            return
        self._outbox.post(LoadedSecondary(command.id, command.key, describe_server(remote), refusals(remote)))

    def _free_servers(self, key: str = "") -> None:
        """Disconnect the secondary server of a key, or (empty) all of them."""
        for name in [name for name in self._secondary_servers if key in ("", name)]:
            remote = self._secondary_servers.pop(name)
            if self._answers is not None:
                self._answers.free(remote)

    def _load_here(self, command: Load, lanes: Lanes) -> None:
        from ..backends.loading import load_model
        from .drafts import Drafters, refusals

        self._outbox.post(Loading(command.id, "import"))

        def progress(stage: str, done: int, total: int) -> None:
            if stage == "weights":
                self._free(lanes)
            self._outbox.post(Loading(command.id, stage, done, total))

        def draft_progress(stage: str, done: int, total: int) -> None:
            self._outbox.post(Loading(command.id, f"draft {stage}", done, total))

        cancelled = self._cancel_check(command.id)
        start, had_model = time.perf_counter(), self._loaded
        # Importing torch and transformers makes a million objects that stay: scanning them again and again takes a fifth of
        # the import (4.3 instead of 5.2 CPU seconds without), and would slow every later collection.
        gc.disable()
        model = None
        try:
            drafts = Drafters(command.selection, draft_progress, cancelled)
            model = load_model(command.selection.model, drafts.target_options, progress=progress, cancelled=cancelled)
            self._free(lanes)
            drafts.join(model)
        except BaseException as error:  # see `failure`
            if model is not None:
                model.close()
            failed = failure(command.id, error, loading=command.selection.model)
            if had_model and not self._loaded:
                failed.sentence += " The previous model is no longer loaded. Load one again."
            self._outbox.post(failed)
            return
        finally:
            gc.freeze()
            gc.enable()
        self._model = model
        self._drafts = drafts
        info = replace(
            model.info,
            load_seconds=model.info.load_seconds or time.perf_counter() - start,
            notes=(*model.info.notes, *drafts.notes),
        )
        head = drafts.head.info.name if drafts.head else ""
        self._outbox.post(Loaded(command.id, info, refusals(model, drafts), [draft.info for draft in drafts.models], head))

    @property
    def _loaded(self) -> bool:
        return self._model is not None or self._remote is not None

    def _free(self, lanes: Lanes) -> None:
        """Free the loaded model and its lanes, if there are any, and post Unloaded."""
        self._free_servers()
        self._secondary.free(lanes)
        lanes.clear()
        loaded = self._loaded
        if self._remote is not None and self._answers is not None:
            self._answers.free(self._remote)
            self._remote = None
        if self._model is not None:
            for part in (self._drafts, self._model):
                try:
                    if part is not None:
                        part.close()
                except BaseException as error:  # see `failure`
                    self._outbox.post(Failed(0, "bug", failure(0, error).sentence))
            self._past.close()
            self._model = self._drafts = None
            gc.unfreeze()
            gc.collect()
        if loaded:
            self._outbox.post(Unloaded())


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
