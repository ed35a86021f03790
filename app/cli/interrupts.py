"""Ctrl-C and SIGTERM while a command works."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Self

from ...engine.client import EngineClient
from .exit_codes import CANCELLED, ENDED

POLL_SECONDS = 0.1
"""Time between two looks for Ctrl-C while no event comes."""


class Interrupts:
    """Handler of Ctrl-C and SIGTERM: the first signal asks for an end, the second ends this process and the engine."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self.signal = 0
        """The number of the first signal; 0 before there is one."""

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def code(self) -> int:
        """Exit code of a command that a signal ended."""
        return ENDED if self.signal == signal.SIGTERM else CANCELLED

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.signal:
            self.signal = number
            return
        if pid := self._client.pid:
            os.kill(pid, signal.SIGKILL)
        os._exit(128 + number)
