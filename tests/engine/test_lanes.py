"""Lanes share the device fairly, and one's failure costs that one alone; the outbox makes no caller wait."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import ContextFull, UserError
from specchat.backends.info import Capabilities, ModelInfo, ServerInfo, Thinking
from specchat.engine import wire
from specchat.engine.failures import ending, failure
from specchat.engine.lanes import Lanes
from specchat.engine.messages import (
    Event,
    Failed,
    Finished,
    GapMeasured,
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
    Paused,
    Prefilling,
    ScoreStep,
    Started,
    StepRecord,
    Steps,
    StepScores,
    Switch,
    Switched,
    Worked,
)
from specchat.engine.options import ModelSelection
from specchat.engine.wire import INTERVAL, Outbox, dump, parse

from ..cases import cases
from ..fakes.engines import failures, steps_of, text_of
from ..fakes.recorded import RecordedModel, RecordedSession

TEXT = "the quick brown fox jumps over the lazy dog " * 8


class Clock:
    """Seconds that pass only when a pass is said to take them: how turns are shared must not depend on the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_of(self, seconds: float) -> Callable[[int], float]:
        """The cost of a pass that takes `seconds` by this clock and none by the wall's."""

        def cost(nodes: int) -> float:
            self.now += seconds
            return 0.0

        return cost


class Desk:
    """Lanes, with what they posted."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.clock = Clock()
        self.lanes = Lanes(self.events.append, clock=self.clock)

    def model(self, pace: float) -> RecordedModel:
        """A model whose every pass takes `pace` seconds."""
        return model(cost=self.clock.pass_of(pace))

    def run(self, turns: int | None = None) -> None:
        while (rest := self.lanes.rest) is not None and turns != 0:
            self.clock.now += rest
            self.lanes.run_pass()
            turns = None if turns is None else turns - 1


@pytest.fixture
def desk() -> Desk:
    return Desk()


def model(prompt: str = "hi", answer: str = TEXT, **options: Any) -> RecordedModel:
    out = RecordedModel(**options)
    out.add(out.encode(prompt), out.encode(answer), text=prompt)
    return out


def test_an_answer_from_start_to_finish(desk: Desk) -> None:
    desk.lanes.start(model(), Generate(5, prompt="hi"))
    desk.run()
    first, *_, last = desk.events
    assert first == Started(5, "main", "greedy", "identical", 2, 0)
    assert isinstance(last, Finished)
    assert last.reason == "eos"
    assert text_of(desk.events, 5) == TEXT
    desk.lanes.start(None, Generate(6, prompt="hi"))
    assert desk.events[-1] == Failed(6, "user", "No model is loaded. Load one first.")


def test_busy_time_is_shared_evenly(desk: Desk) -> None:
    """Passes of 1 s and of 4 s: the quick lane gets four turns to the slow one's one, and both the same time."""
    desk.lanes.start(desk.model(1), Generate(1, lane="a", prompt="hi"))
    desk.lanes.start(desk.model(4), Generate(2, lane="b", prompt="hi"))
    desk.run(turns=120)
    desk.lanes.cancel_all()
    quick, slow = [event for event in desk.events if isinstance(event, Finished)]
    assert quick.busy_seconds == pytest.approx(slow.busy_seconds, abs=4)
    assert len(steps_of(desk.events, 1)) == pytest.approx(4 * len(steps_of(desk.events, 2)), abs=4)


def test_who_joins_late_or_was_paused_has_no_claim_on_the_time_before(desk: Desk) -> None:
    def written(id: int, turns: int) -> int:
        before = len(steps_of(desk.events, id))
        desk.run(turns)
        return len(steps_of(desk.events, id)) - before

    desk.lanes.start(desk.model(1), Generate(1, lane="a", prompt="hi"))
    assert written(1, 40) == 40
    desk.lanes.start(desk.model(1), Generate(2, lane="b", prompt="hi"))
    assert written(2, 20) == pytest.approx(10, abs=1)
    desk.lanes.pause(Pause(1))
    assert written(2, 20) == 20
    desk.lanes.pause(Pause(1, False))
    assert written(1, 20) == pytest.approx(10, abs=1)


def test_prefill_progress_and_reuse(desk: Desk) -> None:
    target = model(prompt="x" * 1500)
    desk.lanes.start(target, Generate(1, prompt="x" * 1500, max_tokens=3))
    desk.run()
    assert [event for event in desk.events if isinstance(event, Prefilling)] == [
        Prefilling(1, 500, 1499), Prefilling(1, 1000, 1499), Prefilling(1, 1499, 1499),
    ]  # fmt: skip
    desk.events.clear()
    desk.lanes.start(target, Generate(2, prompt="x" * 1500, max_tokens=3))
    desk.run()
    assert desk.events[0] == Started(2, "main", "greedy", "identical", 1500, 1499)
    assert not any(isinstance(event, Prefilling) for event in desk.events)


@pytest.mark.parametrize("compare", [False, True])
def test_plain_steps_are_timed_at_the_end_and_undone(compare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for share in ("LEAST_SHARE", "EVEN_SHARE"):  # whatever else runs on this machine
        monkeypatch.setattr(f"specchat.engine.lanes.{share}", 0.0)
    events = list[Event]()
    lanes, target = Lanes(events.append), model()
    for id, method in ((1, "lookup"), (2, "greedy"), (3, "recompute")):
        lanes.start(target, Generate(id, prompt="hi", method=method, compare=compare))
        while lanes.rest is not None:
            lanes.run_pass()
    ends = {event.id: event for event in events if isinstance(event, Finished)}
    assert [ends[id].plain_seconds > 0 for id in (1, 2, 3)] == [compare, False, compare]
    assert [event.reused for event in events if isinstance(event, Started)] == [0, 1, 1]
    assert {text_of(events, id) for id in ends} == {TEXT}


@pytest.mark.parametrize(("request_", "words"), [
    (Generate(2, prompt="hi", method="lokup"), "lookup"), (Generate(2, prompt="hi", settings={"k": 3}), "no setting 'k'"),
    (Generate(2, prompt="hi", sampling={"top_p": 3}), "top_p must be"), (Generate(2, prompt="hi", max_tokens=0), "at least 1"),
    (Generate(2, prompt=""), "empty"), (Generate(2, messages=[{"role": "system", "content": "x"}]), "user's message"),
    (Generate(2, prompt="x" * 300), "context"), (Generate(2, prompt="hi", stop=("",)), "Stop strings have 1 to"),
])  # fmt: skip
def test_bad_requests_are_sentences(desk: Desk, request_: Generate, words: str) -> None:
    target = model(context=200)
    desk.lanes.start(target, request_)
    (failed,) = failures(desk.events)
    assert (failed.id, failed.cause) == (2, "user")
    assert words in failed.sentence
    desk.lanes.start(target, Generate(3, prompt="hi", max_tokens=4))
    desk.run()
    assert isinstance(desk.events[-1], Finished)


def test_one_answer_a_lane(desk: Desk) -> None:
    target = model()
    desk.lanes.start(target, Generate(1, prompt="hi"))
    desk.lanes.start(target, Generate(2, prompt="hi"))
    assert failures(desk.events)[0].id == 2
    desk.run()
    assert text_of(desk.events, 1) == TEXT


class Breaking(RecordedModel):
    """Raises `error` at the twentieth pass of a session."""

    error: BaseException

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> RecordedSession:
        outer = self

        class Session(RecordedSession):
            passes = 0

            def evaluate(self, *args: Any, **options: Any) -> Any:
                Session.passes += 1
                if Session.passes == 20:
                    raise outer.error
                return super().evaluate(*args, **options)

        return Session(self, 10_000)


class RustPanic(BaseException):
    """A panic as pyo3 raises it."""


def breaking(error: BaseException) -> Breaking:
    out = Breaking()
    out.error = error
    out.add(out.encode("hi"), out.encode(TEXT), text="hi")
    return out


@pytest.mark.parametrize(("error", "cause"), [
    (UserError("Do this."), "user"), (ContextFull("Do that."), "user"), (MemoryError(), "memory"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "memory"),
    (ZeroDivisionError("x"), "bug"), (RustPanic("index out of bounds\nsecond line"), "bug"), (SystemExit(3), "bug"),
])  # fmt: skip
def test_errors_end_one_answer(
    desk: Desk, error: BaseException, cause: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_LOG", "/var/log/here.log")
    broken = breaking(error)
    desk.lanes.start(broken, Generate(1, lane="a", prompt="hi"))
    desk.lanes.start(model(), Generate(2, lane="b", prompt="hi"))
    desk.run()
    (failed,) = failures(desk.events)
    assert (failed.id, failed.cause) == (1, cause)
    assert failed.sentence.count("\n") == 0
    assert text_of(desk.events, 2) == TEXT
    assert TEXT.startswith(text_of(desk.events, 1))
    logged = capfd.readouterr().err
    assert ("Traceback" in logged) == (cause != "user")
    if cause == "bug":
        assert "/var/log/here.log" in failed.sentence
    # The lane is there again, with a new cache if the old one cannot be trusted.
    desk.events.clear()
    desk.lanes.start(broken, Generate(3, lane="a", prompt="hi", max_tokens=10))
    assert isinstance(desk.events[0], Started)
    assert desk.events[0].reused == (1 if cause == "user" else 0)
    desk.run()
    assert len(text_of(desk.events, 3)) == 10
    assert TEXT.startswith(text_of(desk.events, 3))


def test_closing_a_lane_cancels_its_answer(desk: Desk) -> None:
    target = model()
    desk.lanes.start(target, Generate(1, lane="a", prompt="hi"))
    desk.run(turns=5)
    desk.lanes.close_lane("a")
    desk.lanes.close_lane("never")
    desk.lanes.start(target, Generate(2, lane="a", prompt="hi"))
    assert isinstance(desk.events[-2], Finished)
    assert desk.events[-1:] == [Started(2, "a", "greedy", "identical", 2, 0)]
    desk.lanes.close_model(target)
    assert desk.lanes.rest is None


def test_a_paused_answer_takes_no_turn_until_it_goes_on(desk: Desk) -> None:
    desk.lanes.start(model(), Generate(1, lane="a", prompt="hi"))
    desk.run(3)
    desk.lanes.pause(Pause(1))
    assert desk.events[-1] == Paused(1, True)
    assert desk.lanes.rest is None
    written = len(steps_of(desk.events, 1))
    desk.lanes.grant_passes(GrantPasses(1, 2))
    desk.run()
    assert len(steps_of(desk.events, 1)) == written + 2
    desk.lanes.pause(Pause(1, False))
    desk.run()
    assert text_of(desk.events, 1) == TEXT


def test_a_pace_is_kept_between_passes_and_no_clock_counts_it(desk: Desk) -> None:
    """Two lanes whose passes take 10 and 50 ms, at four passes a second: each keeps that, and its figures are its passes'."""
    for id, cost in ((1, 0.01), (2, 0.05)):
        desk.lanes.start(desk.model(cost), Generate(id, lane=str(id), prompt="hi", pace=4, compare=True, method="lookup"))
    desk.run(20)
    assert [len(steps_of(desk.events, id)) for id in (1, 2)] == [10, 10]
    assert 2.25 <= desk.clock.now <= 2.4
    desk.lanes.pace(Pace(1, 0))
    desk.lanes.pace(Pace(2, 20))
    desk.run()
    ends = {event.id: event for event in desk.events if isinstance(event, Finished)}
    for id, cost in ((1, 0.01), (2, 0.05)):
        assert ends[id].busy_seconds == pytest.approx(cost * len(steps_of(desk.events, id)), rel=0.1)
        assert (ends[id].rested, ends[id].plain_seconds, ends[id].contended) == (True, 0, False)
    assert text_of(desk.events, 1) == text_of(desk.events, 2) == TEXT


def test_a_paused_step_tells_all_of_its_text(desk: Desk) -> None:
    text = "cafe\u0301 found 👩\u200d🚀 at the end"
    teller = model(answer=text)
    desk.lanes.start(teller, Generate(1, prompt="hi"))
    desk.lanes.pause(Pause(1))
    grown = 0
    for _ in range(len(text.encode())):
        desk.lanes.grant_passes(GrantPasses(1))
        desk.run()
        steps = steps_of(desk.events, 1)
        written = "".join(step.text for step in steps) + steps[-1].held
        decoded = teller.decode([token for step in steps for token in step.tokens])
        assert written == decoded.rstrip("\ufffd")  # what is missing is half a character at most
        grown += bool(steps[-1].held) and not text.startswith(written + " ")
    assert grown > 9
    desk.lanes.pause(Pause(1, False))
    desk.run()
    assert text_of(desk.events, 1) == text


def test_a_watched_answer_tells_probabilities_of_every_node(desk: Desk) -> None:
    desk.lanes.start(model(), Generate(1, prompt="hi", method="lookup", record_probabilities=True))
    desk.run()
    steps = steps_of(desk.events, 1)
    assert any(step.tree_tokens for step in steps)
    for step in steps:
        assert len(step.probs) == max(0, len(step.tree_tokens) - 1) + 1
        accepted = [step.probs[node - 1] for node in step.path[1:]]
        assert all(p >= 0.89 for p in (*accepted, step.probs[-1])), "the record is sure of its own text"
        refused = [p for node, p in enumerate(step.probs[:-1], 1) if node not in step.path and step.tree_parents[node] == 0]
        assert all(p < 0.1 for p in refused)


@pytest.mark.parametrize("method", ["lookup", "greedy"])
def test_an_answer_that_was_not_watched_is_weighed_afterwards(desk: Desk, method: str) -> None:
    target = model()
    for id, record in ((1, True), (2, False)):
        desk.lanes.start(target, Generate(id, prompt="hi", method=method, record_probabilities=record, fresh=True))
        desk.run()
    watched, steps = (steps_of(desk.events, id) for id in (1, 2))
    assert not any(step.probs for step in steps)
    starts = [sum(len(step.tokens) for step in steps[:i]) for i in range(len(steps))]
    order = [*range(len(steps))[::-3], *range(len(steps))]  # there and back
    for i in order:
        step = steps[i]
        desk.lanes.score_step(ScoreStep(2, starts[i], step.tokens[-1], step.tree_tokens, step.tree_parents, step.path))
        event = desk.events[-1]
        assert isinstance(event, StepScores)
        assert (event.id, event.before) == (2, starts[i])
        assert event.probs == pytest.approx(watched[i].probs)
    desk.lanes.start(target, Generate(3, prompt="hi", method=method))
    desk.run()
    assert text_of(desk.events, 3) == TEXT


def test_a_judge_says_how_far_two_tokens_are_apart(desk: Desk) -> None:
    recorded = model()
    desk.lanes.start(recorded, Generate(1, lane="a", prompt="hi"))
    desk.run()
    tokens = [token for step in steps_of(desk.events, 1) for token in step.tokens]
    before = list(desk.events)
    desk.lanes.measure_gap(MeasureGap(7, "a", 4, tokens[4]))
    assert desk.events[-1] == GapMeasured(7, "a", 4, tokens[4], tokens[4], 0.0)
    desk.lanes.measure_gap(MeasureGap(8, "a", 4, tokens[4] + 1))
    last = desk.events[-1]
    assert isinstance(last, GapMeasured)
    assert last.gap > 1
    assert desk.events[: len(before)] == before
    for wrong in (MeasureGap(9, "a", 10_000, 3), MeasureGap(9, "b", 0, 3), MeasureGap(9, "a", 0, 10**7)):
        desk.lanes.measure_gap(wrong)
        failed = desk.events[-1]
        assert isinstance(failed, Failed)
        assert not failed.ended
        assert failed.cause == "user"


@pytest.mark.parametrize("fresh", [True, False])
def test_a_fresh_answer_begins_with_empty_pools(desk: Desk, fresh: bool) -> None:
    target = model(answer="".join(chr(97 + n * n * 7 % 26) + chr(65 + n % 23) for n in range(200)))
    for id in (1, 2):
        desk.lanes.start(target, Generate(id, prompt="hi", method="recycle", fresh=fresh and id == 2))
        desk.run()
    assert text_of(desk.events, 1) == text_of(desk.events, 2)
    first, second = (len(steps_of(desk.events, id)) for id in (1, 2))
    assert second == first if fresh else second < first
    assert [event.reused for event in desk.events if isinstance(event, Started)] == [0, 1], "the cache stays"


class Pipe:
    def __init__(self) -> None:
        self.read_end, write_end = os.pipe()
        self.outbox = Outbox(write_end)
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
        Steps(1, [step(0)]), Steps(2, [step(10)]), Steps(1, [step(1)]), Switched(1, "lookup", "identical"),
        Steps(1, [step(2)]), Steps(2, [step(11)]), Steps(1, [step(3)]), end,
    ]  # fmt: skip
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


def test_a_full_pipe_makes_no_caller_wait_and_no_step_is_lost(pipe: Pipe) -> None:
    for i in range(20_000):  # nothing is read until all is posted: a caller that waits for the pipe waits for ever
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
models = st.builds(
    ModelInfo,
    name=texts,
    parameters=numbers,
    pass_seconds=st.just(((1, 0.5), (4, 0.75))),
    capabilities=st.builds(
        Capabilities, most=st.none() | numbers, equal=st.just((2, 3)), reasons=st.dictionaries(texts, texts)
    ),
    thinking=st.none() | st.builds(Thinking, words=st.just(("on", "off")), sentence=texts),
    server=st.none() | st.builds(ServerInfo, engine=texts, method=texts),
)
selections = st.builds(
    ModelSelection,
    texts,
    draft_model=st.lists(texts, max_size=3).map(tuple),
    context=st.none() | numbers,
    servers=st.dictionaries(texts, st.dictionaries(texts, texts, max_size=2), max_size=2),
)
names = st.dictionaries(texts, plain, max_size=4)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "str": texts, "int": numbers, "float": seconds, "Sequence[int]": st.lists(numbers, max_size=8),
    "Sequence[float]": st.lists(seconds, max_size=8), "Sequence[str]": st.lists(texts, max_size=8),
    "Sequence[Sequence[int]]": st.lists(st.lists(numbers, max_size=3), max_size=4),
}  # fmt: skip
steps = st.builds(StepRecord, **{field.name: KINDS[str(field.type)] for field in fields(StepRecord)})
messages = st.one_of(
    st.builds(Load, id=numbers, selection=selections),
    st.builds(Generate, id=numbers, prompt=st.none() | texts, settings=names, sampling=names, stop=st.lists(texts).map(tuple)),
    st.builds(Generate, id=numbers, messages=st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=3)),
    st.builds(Switch, id=numbers, method=texts, settings=names),
    st.builds(LoadSecondary, id=numbers, key=texts, selection=selections, lanes=numbers),
    st.builds(LoadedSecondary, id=numbers, key=texts, model=models, tokenizer=texts, primary_tokenizer=texts),
    st.builds(Loaded, id=numbers, model=models, drafts=st.lists(models, max_size=2), trained_drafter=texts),
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


NO_MESSAGES = [
    b"", b"\n", b"null", b"[]", b"7", b'"Load"', b"{}", b"{", b"\xff\xfe", b"llama_model_loader: loaded",
    b'{"kind":"Nothing"}', b'{"kind":[]}', b'{"kind":{}}', b'{"kind":"Load"}', b'{"kind":"StepRecord"}',
    b'{"kind":"Steps","id":1,"steps":7}', b'{"kind":"Steps","id":1,"steps":[7]}', b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("line", NO_MESSAGES, ids=lambda line: repr(line[:40]))
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a message"):
        parse(line)


@pytest.mark.parametrize("error", [
    MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"), OSError(12, "Cannot allocate memory"),
])  # fmt: skip
def test_lacking_memory_is_reported_as_the_cause(error: Exception) -> None:
    event = failure(1, error, "m")
    assert (event.cause, "not enough memory for m" in event.sentence) == ("memory", True)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("/src/ggml/ops.cpp:13: unsupported types\n\n", "(unsupported types; see"),
        ("terminate called after throwing an instance of 'std::out_of_range'\n  what():  no such key\n", "(no such key; see"),
        ("/src/ggml/ops.cpp:13: older\n" + "x\n" * 2000, "(signal 6, Aborted; see"),
    ],
)
def test_the_last_words_of_a_library_are_the_cause(words: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{words}Fatal Python error: Aborted\n  File 1\n")
    assert cause in ending(-6, True, tmp_path / "log", "model.gguf")
