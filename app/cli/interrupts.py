"""ctrl+c while a command works."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Self

from ...engine.client import EngineClient
from .exit_codes import CANCELLED, ENDED

POLL_SECONDS = 0.1
"""How often to look for Ctrl-C while no event comes."""


class Interrupts:
    """What ctrl+c and SIGTERM do: the first asks for an end, the second takes it, the engine with it."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self.asked = 0
        """The signal; 0 while there was none."""

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._press) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @property
    def code(self) -> int:
        """Exit code of a command that was ended so."""
        return ENDED if self.asked == signal.SIGTERM else CANCELLED

    def _press(self, number: int, frame: FrameType | None) -> None:
        if not self.asked:
            self.asked = number
            return
        if pid := self._client.pid:
            os.kill(pid, signal.SIGKILL)
        os._exit(128 + number)
