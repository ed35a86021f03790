"""Races on a real engine: what their tests share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.methods import known_methods
from specchat.app.race.race import Race
from specchat.app.race.record import RaceRecord
from specchat.engine.client import EngineClient
from specchat.engine.options import AnswerOptions

from ..cases import FULL

LENGTH = 64 if FULL else 32
"""What beam search answers otherwise than greedy."""


def until(dialogue: Dialogue, enough: Callable[[], bool], seconds: float = 120) -> None:
    """Take in what the engine says until something has come about."""
    deadline = time.monotonic() + seconds
    while not enough():
        assert time.monotonic() < deadline, "it did not come about"
        dialogue.drain()
        time.sleep(0.002)


def finished(race: Race) -> RaceRecord:
    """The record of a race that has been waited for, every near tie judged."""
    until(race.dialogue, lambda: not race.running and not any(racer.judging for racer in race.racers))
    return race.record()


@contextmanager
def opened(folder: Path) -> Iterator[Dialogue]:
    """A chat with the built-in model loaded."""
    with EngineClient(log=folder / "engine.log") as client:
        made = Dialogue(client, "builtin", known_methods(), "lookup", options=AnswerOptions(max_tokens=LENGTH))
        client.load("builtin", device="cpu", dtype="float32")
        until(made, lambda: made.phase == "ready")
        yield made
