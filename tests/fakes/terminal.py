"""A real pseudo-terminal around a command, its screen kept by pyte."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

PATIENCE = 120.0
"""Seconds before a test gives up: a machine that does much else may be this slow."""

OWNING = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


class Tty(io.StringIO):
    """A stream that claims to be a terminal and keeps what it gets."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Terminal:
    """Runs `command` on a pseudo-terminal, `owned` by it as after a login; killed at the end of the context."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 100,
        lines: int = 30,
        env: Mapping[str, str] | None = None,
        owned: bool = False,
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        """Everything the command wrote."""
        self._parsed = 0
        self.started = time.monotonic()
        # Test runners set a size of their own, which a program would believe rather than the terminal.
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNING, *command] if owned else command, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, close_fds=True,
            env={**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})},
        )  # fmt: skip
        os.close(slave)
        self.master = master

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)

    def pump(self, seconds: float = 0.02) -> bool:
        """Read what the command writes within `seconds`; False at its end."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        return bool(data)

    @property
    def text(self) -> str:
        """The screen's lines. Only now is what came in parsed: that takes more CPU time than drawing it did."""
        self.stream.feed(bytes(self.raw[self._parsed :]))
        self._parsed = len(self.raw)
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, condition: str | Callable[[str], bool], timeout: float = PATIENCE) -> float:
        """Pump until the screen shows a text (or satisfies a condition); seconds since the start."""
        holds: Callable[[str], bool] = (lambda text: condition in text) if isinstance(condition, str) else condition
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            alive = self.pump()
            if holds(self.text):
                return time.monotonic() - self.started
            if not alive:
                break
        raise AssertionError(f"never saw {condition!r}; the screen was:\n{self.text}")

    def wait_raw(self, data: bytes, timeout: float = PATIENCE) -> None:
        """Pump until the command wrote these bytes, without parsing."""
        start, deadline = len(self.raw), time.monotonic() + timeout
        while self.raw.find(data, max(0, start - len(data))) < 0:
            if not self.pump() or time.monotonic() > deadline:
                raise AssertionError(f"never wrote {data!r}")

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def settle(self, seconds: float = 0.3) -> None:
        """Pump until nothing came for `seconds`."""
        last, size = time.monotonic(), len(self.raw)
        while time.monotonic() - last < seconds:
            if not self.pump():
                return
            if len(self.raw) != size:
                last, size = time.monotonic(), len(self.raw)

    def quit(self) -> None:
        """End the chat by its key."""
        self.send("\x11")
        assert self.exit_code() == 0

    def exit_code(self, timeout: float = PATIENCE) -> int:
        """Wait for the command's end, and read what it wrote until then."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < deadline:
            self.pump()
        code = self.process.wait(timeout=0.1)
        size = -1
        while size != len(self.raw) and time.monotonic() < deadline:
            size = len(self.raw)
            if not self.pump():
                break
        return code
