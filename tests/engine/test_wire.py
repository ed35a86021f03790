"""The outbox merges what waits, keeps the order of each id, and never makes its caller wait."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from specchat.engine import wire
from specchat.engine.messages import Event, Finished, Loading, Prefilling, Started, StepRecord, Steps, Switched, Worked
from specchat.engine.wire import INTERVAL, Outbox, parse


class Pipe:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.outbox = Outbox(self.write_end)
        self.lines = os.fdopen(self.read_end, "rb")

    def fill(self) -> Event:
        """Post what fills the pipe, and wait until the sender has begun with it: everything after it waits together."""
        filler = Switched(99, "x" * 70_000, "identical")
        self.outbox.post(filler)
        select.select([self.read_end], [], [], 120)
        return filler

    def read(self, last: Event) -> list[Any]:
        out: list[Any] = []
        while not out or out[-1] != last:
            out.append(parse(self.lines.readline()))
        return out


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    # The write end stays open: the sender ends its process when nobody reads.
    threading.Thread(target=lambda: list(pipe.lines), daemon=True).start()


def step(i: int) -> StepRecord:
    return StepRecord("greedy", [i], f"{i} ")


END = Finished(1, "eos", "", 0.0, 0.0)


def test_steps_are_merged_and_none_is_lost(pipe: Pipe) -> None:
    filler, started = pipe.fill(), Started(1, "main", "greedy", "identical", 5, 0)
    pipe.outbox.post(started)
    for i in range(2000):
        pipe.outbox.post(Steps(1, [step(i)]))
    pipe.outbox.post(END)
    assert pipe.read(END) == [filler, started, Steps(1, [step(i) for i in range(2000)]), END]


def test_steps_leave_once_per_interval(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(wire, "time", SimpleNamespace(monotonic=lambda: now))
    for first in range(0, 40, 10):
        while not pipe.outbox._idle:
            time.sleep(0.001)
        for i in range(first, first + 10):
            pipe.outbox.post(Steps(1, [step(i)]))
        assert not select.select([pipe.read_end], [], [], 0.02)[0]
        now += INTERVAL
        assert parse(pipe.lines.readline()) == Steps(1, [step(i) for i in range(first, first + 10)])


def test_order_within_an_id_survives_merging(pipe: Pipe) -> None:
    filler, end = pipe.fill(), Finished(2, "eos", "", 0.0, 0.0)
    posted: list[Event] = [
        *(Steps(1, [step(0)]), Steps(2, [step(10)]), Steps(1, [step(1)]), Switched(1, "lookup", "identical")),
        *(Steps(1, [step(2)]), Steps(2, [step(11)]), Steps(1, [step(3)]), end),
    ]
    for event in posted:
        pipe.outbox.post(event)
    assert pipe.read(end) == [
        filler,
        Steps(1, [step(0), step(1)]),
        Steps(2, [step(10), step(11)]),
        Switched(1, "lookup", "identical"),
        Steps(1, [step(2), step(3)]),
        end,
    ]


def test_progress_shows_its_latest_state(pipe: Pipe) -> None:
    pipe.fill()
    for done in range(100):
        pipe.outbox.post(Prefilling(1, done, 100))
        pipe.outbox.post(Loading(7, "weights" if done < 50 else "check", done, 100))
    pipe.outbox.post(END)
    assert pipe.read(END)[1:-1] == [Prefilling(1, 99, 100), Loading(7, "weights", 49, 100), Loading(7, "check", 99, 100)]


def test_a_full_pipe_makes_nobody_wait(pipe: Pipe) -> None:
    for i in range(20_000):  # nobody reads until all is posted: whoever waits for the pipe waits for ever
        pipe.outbox.post(Steps(1, [StepRecord("greedy", [i], "text" * 10)]))
    pipe.outbox.post(END)
    assert [t for event in pipe.read(END)[:-1] for one in event.steps for t in one.tokens] == list(range(20_000))


def test_what_json_cannot_hold_becomes_a_failure(pipe: Pipe) -> None:
    pipe.outbox.post(Worked(4, {"x": object()}))
    pipe.outbox.post(END)
    failed = pipe.read(END)[0]
    assert (failed.id, failed.cause) == (4, "bug")
