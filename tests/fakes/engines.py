"""Recorded answers for the engine's tests, and an engine without the client in front of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from specchat.engine.client import EngineClient
from specchat.engine.messages import Command, Event, Failed, Finished, StepRecord, Steps
from specchat.engine.wire import dump, parse

from .records import recorded_model

ANSWER = " ".join(f"wort{i % 50} 🤷🏽‍♀️{i}" for i in range(60))
"""Text whose characters span several tokens."""
SHORT = "A short answer 🙂"
LONG = " ".join(f"{'alpha beta gamma delta'.split()[i % 4]} {i % 12}" for i in range(2000))
"""4,000 tokens that a lookup finds again soon."""
COUNTING = " ".join(map(str, range(1000)))
"""An answer that something breaks off: at 0.2 s a token it would take minutes."""


def recorded(folder: Path, pace: float = 0.0, more: dict[str, str] | None = None) -> str:
    """A model's name: the prompts `hello`, `short` and `long` have their answers, and so do those in `more`."""
    return recorded_model(folder, {"hello": ANSWER, "short": SHORT, "long": LONG, **(more or {})}, pace)


def steps_of(events: Iterable[Event], id: int) -> list[StepRecord]:
    return [step for event in events if isinstance(event, Steps) and event.id == id for step in event.steps]


def text_of(events: list[Event], id: int) -> str:
    """An answer's text as it was streamed, tail included."""
    tail = "".join(event.tail for event in events if isinstance(event, Finished) and event.id == id)
    return "".join(step.text for step in steps_of(events, id)) + tail


def answer(client: EngineClient, id: int) -> list[Event]:
    """Events up to the end of an answer or load."""
    return list(client.stream(id))


def until(client: EngineClient, events: list[Event], enough: Callable[[list[Event]], bool]) -> None:
    while not enough(events):
        event = client.wait(120)
        assert event is not None, f"nothing comes; the last were {events[-3:]}"
        events.append(event)


def wait_until(holds: Callable[[], object]) -> None:
    """Wait for what a thread or another process brings about."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def ended(*ids: int) -> Callable[[list[Event]], bool]:
    def check(events: list[Event]) -> bool:
        over = {event.id for event in events if isinstance(event, Finished) or (isinstance(event, Failed) and event.ended)}
        return over >= set(ids)

    return check


def failures(events: Iterable[Event]) -> list[Failed]:
    return [event for event in events if isinstance(event, Failed)]


class BareEngine:
    """An engine process on two pipes that the test holds itself."""

    def __init__(self, log: Path, code: str | None = None) -> None:
        how = ["-m", "specchat.engine"] if code is None else ["-c", code]
        self.process = subprocess.Popen(
            [sys.executable, *how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "SPECCHAT_LOG": str(log)}
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin
        self.stdout = self.process.stdout

    def send(self, *lines: Command | bytes) -> None:
        for line in lines:
            self.stdin.write(line if isinstance(line, bytes) else dump(line))
        self.stdin.flush()

    def events(self) -> Iterator[Event]:
        for line in self.stdout:
            yield parse(line)

    def until(self, id: int, *kinds: type[Event]) -> list[Event]:
        """Events up to the first of one of these kinds for `id`."""
        out = []
        for event in self.events():
            out.append(event)
            if isinstance(event, kinds) and getattr(event, "id", 0) == id:
                return out
            assert not (isinstance(event, Failed) and event.id == id and event.ended), event.sentence
        raise AssertionError(f"the engine ended after {out[-3:]}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


def paced() -> dict[str, str]:
    """Environment in which time passes only in a recorded model's passes, at that model's pace."""
    folders = [str(Path(__file__).parent / "paced"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(folders)}


def wait_gone(pid: int) -> None:
    """Wait until no process has this id any more (a zombie counts as gone)."""
    wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    psutil = pytest.importorskip("psutil")  # which has no types of its own
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
