"""The client: starts the engine process, talks to it and survives its end. Imports nothing heavy, never blocks its caller."""

from __future__ import annotations

import atexit
import contextlib
import io
import itertools
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from ..plain_file import stand_somewhere
from .failures import STUCK, ending
from .logfile import LOG_VARIABLE, log_path, open_log
from .messages import (
    Cancel,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    LoadedSecondary,
    LoadSecondary,
    Quit,
    Work,
    Worked,
)
from .options import ModelSelection
from .wire import dump, parse

QUIT_SECONDS = 1.0
"""Time that `close` gives the engine to end on its own."""

PATIENCE_SECONDS = 10.0
"""Time after a Cancel from which on a second one ends the process, which may hang in a chat template or a library."""


class EngineClient:
    """Runs one engine process at a time: starts it at the first command (or by `start`), and again when a prompt needs it.

    All methods may be called from any thread and return at once, except `wait`, `stream` and `close`. When the process ends
    unexpectedly, the events that it had sent are delivered, then exactly one Failed with cause "died": its `id` is that of the
    oldest running answer, else of the load, else 0, and `other_ids` has the ids that ended with it. The next Load or
    Generate starts a new process; before a Generate the last model is loaded again (its events carry the id of its Load).
    """

    def __init__(self, *, log: Path | None = None, patience: float = PATIENCE_SECONDS) -> None:
        """Make a client without a process; `log` is the engine's log file, None for the usual one."""
        self._log = log
        self._patience = patience
        self._ids = itertools.count(1)
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        """Guards everything below; notified when events arrive and when the client closes."""
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._running: dict[int, Command] = {}
        """Answers and loads that were sent to the living process and have not ended, oldest first."""
        self._cancelled: dict[int, float] = {}
        """The time of the first Cancel of each of them."""
        self._stuck = False
        """Whether the process was killed because it did not take a Cancel."""
        self._model: Load | None = None
        """The load to repeat in a new process."""
        self._closed = False
        self._outgoing: queue.SimpleQueue[Command | Callable[[], object] | None] = queue.SimpleQueue()
        self._quit_sent = threading.Event()
        self._writer = threading.Thread(target=self._write_all, name="engine-writer", daemon=True)
        self._writer.start()
        atexit.register(self.close)

    def __enter__(self) -> EngineClient:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id of the engine; None while there is none."""
        process = self._process
        return process.pid if process else None

    @property
    def log_path(self) -> Path:
        return self._log or log_path()

    # Commands

    def next_id(self) -> int:
        """Return a fresh id for a command."""
        return next(self._ids)

    def start(self) -> None:
        """Start the process ahead of the first command, so that app and engine load at the same time."""
        self._outgoing.put(self._spawn)

    def send(self, command: Command) -> None:
        """Send a command; without a process Load and Generate start one, and other commands are dropped."""
        self._outgoing.put(command)

    def load(self, selection: ModelSelection) -> int:
        """Send a Load. Returns its id."""
        command = Load(self.next_id(), selection)
        self.send(command)
        return command.id

    def generate(
        self, prompt: str | None = None, *, messages: Sequence[Mapping[str, str]] | None = None, **options: Any
    ) -> int:
        """Send a Generate for a text or a chat; options are its fields. Returns its id."""
        chat = None if messages is None else [dict(message) for message in messages]
        command = Generate(self.next_id(), prompt=prompt, messages=chat, **options)
        self.send(command)
        return command.id

    def work(self, task: str, **options: Any) -> int:
        """Send a Work; options are the task's. Returns its id."""
        command = Work(self.next_id(), task, options)
        self.send(command)
        return command.id

    def cancel(self, id: int) -> None:
        self.send(Cancel(id))

    # Events

    def drain(self) -> list[Event]:
        """Return the events that have come in since the last call."""
        with self._changed:
            events = list(self._events)
            self._events.clear()
        return events

    def wait(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; None after `timeout` seconds without one, or once the client is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._closed, timeout)
            return self._events.popleft() if self._events else None

    def stream(self, id: int) -> Iterator[Event]:
        """Yield events (of every id) up to the one that ends the load or answer `id`, or up to the end of the process."""
        while (event := self.wait()) is not None:
            yield event
            if ends(event) and (getattr(event, "id", 0) == id or (isinstance(event, Failed) and id in event.other_ids)):
                return

    # The end

    def close(self) -> None:
        """End the process, by force if it takes more than QUIT_SECONDS, and the client with it. May be called again."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        atexit.unregister(self.close)
        deadline = time.monotonic() + QUIT_SECONDS
        self._outgoing.put(Quit())
        # Only after the writer has run: it may be starting a process at this moment.
        self._quit_sent.wait(QUIT_SECONDS)
        process, reader = self._process, self._reader
        if process is not None:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        if reader is not None:
            reader.join(QUIT_SECONDS)
        self._outgoing.put(None)
        self._writer.join(QUIT_SECONDS)

    # The writing thread. It also starts the processes: Linux ties a child's life (PR_SET_PDEATHSIG) to the thread that
    # started it, and this one lives as long as the client.

    def _write_all(self) -> None:
        while (item := self._outgoing.get()) is not None:
            if not isinstance(item, Command):
                item()
            elif isinstance(item, Quit):
                if self._process is not None:
                    self._write(self._process, item)
                if self._closed:
                    self._quit_sent.set()
            elif not self._closed:
                self._send_now(item)

    def _send_now(self, command: Command) -> None:
        process = self._register(command)
        if process is None:
            if not isinstance(command, Load | LoadSecondary | Generate | Work):
                return
            if not self._spawn(reload=not isinstance(command, Load), needed_by=command.id):
                return
            process = self._register(command)
        if process is not None:
            self._write(process, command)
        elif isinstance(command, Load | LoadSecondary | Generate | Work):  # it ended as soon as it had started
            self._deliver(Failed(command.id, "died", f"The engine keeps stopping. {self.log_path} says why."))

    def _register(self, command: Command) -> subprocess.Popen[bytes] | None:
        """Return the process to write the command to. From now on the command ends with the process, if that ends first."""
        with self._changed:
            if self._process is not None and isinstance(command, Load | LoadSecondary | Generate | Work):
                self._running[command.id] = command
            if self._process is not None and isinstance(command, Cancel) and command.id in self._running:
                waited = time.monotonic() - self._cancelled.setdefault(command.id, time.monotonic())
                if waited >= self._patience:
                    self._stuck = True
                    self._process.kill()
            return self._process

    def _write(self, process: subprocess.Popen[bytes], command: Command) -> None:
        assert process.stdin is not None
        # A broken pipe is the end of the process: the reading thread reports it.
        with contextlib.suppress(OSError):
            view = memoryview(dump(command))
            while view:
                view = view[process.stdin.write(view) :]

    def _spawn(self, reload: bool = False, needed_by: int = 0) -> bool:
        """Start a process unless one runs; return whether one runs now."""
        if self._process is not None or self._closed:
            return not self._closed
        stand_somewhere()
        stderr = open_log(self.log_path)
        try:
            process = subprocess.Popen(
                # -P: never import from the working folder, where anything may lie under the name of a library.
                [sys.executable, "-P", "-m", "specchat.engine"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                env={**os.environ, LOG_VARIABLE: str(self.log_path)},
                # Out of the terminal's foreground group: Ctrl-C and Ctrl-Z are the app's.
                process_group=0,
            )
        except OSError as error:
            self._deliver(Failed(needed_by, "died", f"Could not start the engine: {error}."))
            return False
        finally:
            os.close(stderr)
        reader = threading.Thread(target=self._read_all, args=(process,), name="engine-reader", daemon=True)
        with self._changed:
            self._process = process
            self._reader = reader
        reader.start()
        if reload and self._model is not None:
            self._send_now(self._model)
        return True

    # The reading thread, one for each process

    def _read_all(self, process: subprocess.Popen[bytes]) -> None:
        ready = False
        with io.BufferedReader(cast(io.RawIOBase, process.stdout)) as lines:
            for line in lines:
                try:
                    event = parse(line)
                except ValueError:
                    continue  # the last line of a killed process may be cut
                ready = True
                self._deliver(event)
        try:
            code = process.wait(QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        assert process.stdin is not None
        self._outgoing.put(process.stdin.close)  # on the writing thread, so that no write can meet a closed descriptor
        self._report_end(code, ready)

    def _report_end(self, code: int, ready: bool) -> None:
        with self._changed:
            self._process = None
            lost, stuck = dict(self._running), self._stuck
            self._running.clear()
            self._cancelled.clear()
            self._stuck = False
            if self._model is None:  # it ended during this load, which the next prompt tries again
                self._model = next((command for command in lost.values() if isinstance(command, Load)), None)
            if self._closed:
                return
            answers = [id for id, command in lost.items() if isinstance(command, Generate)]
            id = next(iter([*answers, *lost]), 0)
            # Under the lock, so that no event of the next process can come before it.
            loading = next(filter(None, map(models_to_load, lost.values())), "")
            sentence = STUCK if stuck else ending(code, ready, self.log_path, loading)
            self._events.append(Failed(id, "died", sentence, other_ids=[other for other in lost if other != id]))
            self._changed.notify_all()

    def _deliver(self, event: Event) -> None:
        with self._changed:
            if ends(event):
                self._cancelled.pop(getattr(event, "id", 0), None)
                match event, self._running.pop(getattr(event, "id", 0), None):
                    case Loaded(), Load() as command:
                        self._model = command
            self._events.append(event)
            self._changed.notify_all()


def models_to_load(command: Command) -> str:
    """Name the models that a command loads; "" if it loads none."""
    match command:
        case Load(selection=selection):
            return " with ".join((selection.model, *selection.draft_model))
        case LoadSecondary():
            return command.selection.model
    return ""


def ends(event: Event) -> bool:
    """Return whether the event is the last one of its id."""
    return isinstance(event, Loaded | LoadedSecondary | Finished | Worked) or (isinstance(event, Failed) and event.ended)
