"""Runs what strangers wrote, a template or a tokenizer, in a process whose memory and computing time are limited. What exceeds
them ends that process and nothing else."""

from __future__ import annotations

import atexit
import math
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from ..errors import Cancelled

T = TypeVar("T")

POLL_SECONDS = 0.05
"""Waiting between two looks whether an answer is still wanted."""

TOO_MUCH = "it needs too much memory"


class Broken(Exception):
    """A call exceeded a limit or ended its process; the message says which, in a few words."""


class Confined:
    """A process that runs calls, one after the other. It starts with the first call, and again after a call that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process, unless it runs. It takes some 0.2 s to be ready, which calls wait for."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            atexit.register(self.close)
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # Each thread would reserve address space of its own.
                env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "MALLOC_ARENA_MAX": "1"},
            )
        return self._process

    def call(
        self,
        function: Callable[..., T],
        *values: Any,
        seconds: float,
        memory: int,
        cancelled: Callable[[], bool] | None = None,
    ) -> T:
        """Call a module's function in the process.

        Args:
            function, values: what can be pickled.
            seconds: of computing that it may take, rounded up.
            memory: bytes of address space that it may add. Only Linux keeps to that.
            cancelled: polled; answering True ends the process.

        Raises:
            Broken: it took more, or ended the process.
            Cancelled: `cancelled` answered True.
            Exception: the function's own.
        """
        with self._lock:
            process = self.start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with suppress(BrokenPipeError):
                    pickle.dump((function, values, seconds, memory), process.stdin)
                    process.stdin.flush()
                while not select.select([process.stdout], [], [], POLL_SECONDS)[0]:
                    if cancelled is not None and cancelled():
                        raise Cancelled
                done, answer = pickle.load(process.stdout)
            except (EOFError, pickle.UnpicklingError):
                raise Broken(self._cause(process.wait(), seconds)) from None
            except BaseException:
                self.close()
                raise
        if not done:
            raise answer
        return answer  # type: ignore[no-any-return]

    def _cause(self, code: int, seconds: float) -> str:
        """Name the cause of the process's end, in a few words."""
        assert self._errors is not None
        self._errors.seek(0)
        output = self._errors.read().decode("utf-8", "replace").strip()
        if code == -signal.SIGXCPU:
            return f"it did not finish within {seconds:.0f} seconds"
        if "memory allocation" in output or "MemoryError" in output or code == -signal.SIGKILL:
            return TOO_MUCH
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"reading it ended with {how}" + (f": {output.splitlines()[-1][:200]}" if output else "")

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, self._errors):
                if stream is not None:
                    with suppress(OSError):  # what it never read
                        stream.close()


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def serve() -> None:
    """Take pickled calls on the standard input until it is closed, and answer them on the standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c in a terminal is for the one who asks
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while True:
        try:
            function, values, seconds, memory = pickle.load(calls)
        except EOFError:
            return
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))
        with suppress(OSError):  # only Linux tells
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
        answer: tuple[bool, Any]
        try:
            answer = True, function(*values)
        except MemoryError:
            answer = False, Broken(TOO_MUCH)
        except BaseException as error:  # a Rust panic is no Exception
            answer = False, error if isinstance(error, Exception) else Broken(str(error).strip().splitlines()[0][:200])
        try:
            data = pickle.dumps(answer)
        except Exception as error:
            data = pickle.dumps((False, Broken(f"{type(error).__name__}: {error}"[:200])))
        answers.write(data)
        answers.flush()
