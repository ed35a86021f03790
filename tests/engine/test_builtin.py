"""The engine with the model that ships with specchat."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.backends.loading import builtin_path
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Loaded, Loading, Started, Switched

from ..cases import FULL
from ..fakes.engines import answer, ended, failures, steps_of, text_of, until

pytestmark = pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent")

COPY = "Repeat this text: " + "The red boat crosses the wide river at noon. " * 6


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    """A client with the built-in model loaded."""
    with EngineClient(log=tmp_path_factory.mktemp("logs") / "engine.log") as client:
        events = answer(client, client.load("builtin", device="cpu", dtype="float32"))
        assert isinstance(events[-1], Loaded), events[-1]
        assert next(event.stage for event in events if isinstance(event, Loading)) == "import"
        yield client


def tokens(events: list[Event], id: int) -> list[int]:
    return [token for step in steps_of(events, id) for token in step.tokens]


def test_methods_and_sampling_give_one_text(client: EngineClient) -> None:
    for sampling in ({}, {"temperature": 0.8, "seed": 7}):
        results = []
        for method in ("greedy", "lookup", "recompute"):
            id = client.generate(COPY, raw=True, method=method, sampling=sampling, max_tokens=48)
            events = answer(client, id)
            assert isinstance(events[-1], Finished), events[-1]
            results.append((tokens(events, id), text_of(events, id)))
        assert results[0] == results[1] == results[2]


def test_a_switch_changes_no_token(client: EngineClient) -> None:
    plain = client.generate(COPY, raw=True, max_tokens=96)
    expected = answer(client, plain)
    id = client.generate(COPY, raw=True, max_tokens=96)
    seen: list[Event] = []
    until(client, seen, lambda seen: len(steps_of(seen, id)) >= 5)
    client.switch(id, "lookup")
    until(client, seen, ended(id))
    assert tokens(seen, id) == tokens(expected, plain)
    assert any(isinstance(event, Switched) for event in seen) or len(steps_of(seen, id)) < 30


def test_a_second_turn_prefills_only_what_is_new(client: EngineClient) -> None:
    chat = [{"role": "user", "content": "Hello there, who are you?"}]
    id = client.generate(messages=chat, lane="turns", max_tokens=24)
    events = answer(client, id)
    chat += [{"role": "assistant", "content": text_of(events, id)}, {"role": "user", "content": "And what else?"}]
    second = client.generate(messages=chat, lane="turns", max_tokens=4)
    first = answer(client, second)[0]
    assert isinstance(first, Started)
    assert first.reused > 10
    client.close_lane("turns")


def test_stops_are_never_half_shown(client: EngineClient) -> None:
    id = client.generate(COPY, raw=True, max_tokens=64)
    text = text_of(answer(client, id), id)
    assert len(text) > 20
    stop = text[8:14]
    id = client.generate(COPY, raw=True, max_tokens=64, stop=[stop])
    events = answer(client, id)
    assert text_of(events, id) == text[: text.index(stop)]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_a_wrong_name_leaves_the_model(client: EngineClient, tmp_path: Path) -> None:
    (failed,) = failures(answer(client, client.load(str(tmp_path))))
    assert failed.cause == "user"
    id = client.generate("Hello", max_tokens=4)
    assert isinstance(answer(client, id)[-1], Finished)


@pytest.mark.skipif(not FULL, reason="three starts; others kill and cancel lighter ones")
def test_a_load_can_be_cancelled_and_killed(log: Path) -> None:
    with EngineClient(log=log) as client:
        id = client.load("builtin", device="cpu")
        client.cancel(id)
        (failed,) = failures(answer(client, id))
        assert failed == Failed(id, "cancelled", "Loading builtin was cancelled.")
        load = client.load("builtin", device="cpu")
        seen: list[Event] = []
        until(client, seen, lambda seen: isinstance(seen[-1] if seen else None, Loading))
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        until(client, seen, ended(load))
        assert failures(seen)[0].cause == "died"
        id = client.generate("Hello", max_tokens=4)
        assert isinstance(answer(client, id)[-1], Finished)
