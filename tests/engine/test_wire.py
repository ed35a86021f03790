"""Messages come out as they went in; the outbox merges what waits, keeps the order of each id, and makes no caller wait. Clock
and idleness of the outbox are private."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.engine import wire
from specchat.engine.failures import ending, failure
from specchat.engine.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    LoadedSecondary,
    Loading,
    LoadSecondary,
    Prefilling,
    Started,
    StepRecord,
    Steps,
    Switch,
    Switched,
    Worked,
)
from specchat.engine.wire import INTERVAL, Outbox, dump, parse

from ..cases import cases


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


# All of Unicode, lone surrogates and control characters included.
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
numbers = st.integers(-(2**63), 2**63)
seconds = st.floats(allow_nan=False)
plain = st.recursive(st.none() | st.booleans() | numbers | seconds | texts, lambda inner: st.lists(inner, max_size=3))
names = st.dictionaries(texts, plain, max_size=4)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "int": numbers,
    "float": seconds,
    "Sequence[int]": st.lists(numbers, max_size=8),
    "Sequence[float]": st.lists(seconds, max_size=8),
    "Sequence[str]": st.lists(texts, max_size=8),
    "Sequence[Sequence[int]]": st.lists(st.lists(numbers, max_size=3), max_size=4),
}
steps = st.builds(StepRecord, **{each.name: KINDS[str(each.type)] for each in fields(StepRecord)})
messages = st.one_of(
    st.builds(Load, id=numbers, model=texts, context=st.none() | numbers),
    st.builds(Generate, id=numbers, prompt=st.none() | texts, settings=names, sampling=names, stop=st.lists(texts)),
    st.builds(Generate, id=numbers, messages=st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=3)),
    st.builds(Switch, id=numbers, method=texts, settings=names),
    st.builds(LoadSecondary, id=numbers, key=texts, model=texts, options=names, lanes=numbers),
    st.builds(LoadedSecondary, id=numbers, key=texts, info=names, tokenizer=texts, primary_tokenizer=texts),
    st.builds(Loaded, id=numbers, info=names, unavailable=st.dictionaries(texts, texts, max_size=3)),
    st.builds(Steps, id=numbers, steps=st.lists(steps, max_size=4)),
    st.builds(Finished, id=numbers, reason=texts, tail=texts, prefill_seconds=seconds, busy_seconds=seconds),
    st.builds(Failed, id=numbers, cause=texts, sentence=texts, ended=st.booleans(), other_ids=st.lists(numbers, max_size=3)),
)


@cases(500)
@given(messages)
def test_round_trip(message: Any) -> None:
    line = dump(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert parse(line) == message


def test_a_huge_text_survives() -> None:
    message = Generate(1, prompt="\x00\ud800🤷🏽‍♀️\u2028\r\n" * 500_000)
    assert parse(dump(message)) == message


def test_unknown_fields_are_ignored() -> None:
    body = {"kind": "Switch", **asdict(Switch(3, "lookup")), "tomorrow": 1}
    assert parse(json.dumps(body).encode()) == Switch(3, "lookup")
    wide = StepRecord("greedy", [1], "a")
    assert parse(dump(Steps(1, [wide])).replace(b"[]]]", b"[],9]]")) == Steps(1, [wide])


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"null", b"[]", b"7", b'"Load"', b"{}", b"{", b"\xff\xfe", b"llama_model_loader: loaded"),
        *(b'{"kind":"Nothing"}', b'{"kind":[]}', b'{"kind":{}}', b'{"kind":"Load"}', b'{"kind":"StepRecord"}'),
        *(b'{"kind":"Steps","id":1,"steps":7}', b'{"kind":"Steps","id":1,"steps":[7]}', b"[" * 100_000),
    ],
    ids=lambda line: repr(line[:40]),
)
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a message"):
        parse(line)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_what_memory_is_lacking_for_is_told_as_memory(error: Exception) -> None:
    told = failure(1, error, "m")
    assert (told.cause, "not enough memory for m" in told.sentence) == ("memory", True)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/src/ggml/ops.cpp:13: unsupported types\n\n", "(unsupported types; see"),
        ("terminate called after throwing an instance of 'std::out_of_range'\n  what():  no such key\n", "(no such key; see"),
        ("/src/ggml/ops.cpp:13: older\n" + "x\n" * 2000, "(signal 6, Aborted; see"),
    ],
)
def test_the_last_words_of_a_library_are_the_cause(said: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{said}Fatal Python error: Aborted\n  File 1\n")
    assert told in ending(-6, True, tmp_path / "log", "model.gguf")
