"""Models beside the chat's own: loaded, raced, refused, cancelled, freed; the chat's model and its cache stay."""

from __future__ import annotations

import os
import signal
from itertools import chain
from pathlib import Path

import pytest

from specchat.backends.loading import builtin_path
from specchat.engine.client import EngineClient
from specchat.engine.messages import (
    CloseLane,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    LoadedSecondary,
    LoadSecondary,
    PieceTable,
    ReadPieces,
    Started,
    Unloaded,
    UnloadSecondary,
)

from ..fakes.engines import ANSWER, BareEngine, recorded, text_of, until

needs_builtin = pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent")


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, str]:
    """Names of two models that answer `hello` differently, with tokens of their own."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    return recorded(tmp_path / "one"), recorded(tmp_path / "two", more={"hello": "Something else entirely 🙂 " * 20})


def load(engine: BareEngine, own: str, **guests: str) -> list[Event]:
    """The chat's model and some beside it; their events."""
    engine.send(Load(1, own))
    engine.until(1, Loaded)
    events = []
    for id, (key, model) in enumerate(guests.items(), 2):
        engine.send(LoadSecondary(id, key, model))
        events += engine.until(id, LoadedSecondary, Failed)
    return events


def said(engine: BareEngine, id: int, prompt: str = "hello", **more: str) -> str:
    """What a lane answers."""
    engine.send(Generate(id, prompt=prompt, **more))  # type: ignore[arg-type]
    events = engine.until(id, Finished, Failed)
    assert isinstance(events[-1], Finished), events[-1]
    return text_of(events, id)


def test_lanes_of_two_models_answer_each_with_its_own(engine: BareEngine, models: tuple[str, str]) -> None:
    loaded = load(engine, models[0], guest=models[1])[-1]
    assert isinstance(loaded, LoadedSecondary)
    assert (loaded.key, loaded.info["name"]) == ("guest", models[1])
    assert loaded.unavailable["draft"]
    assert loaded.tokenizer != loaded.primary_tokenizer
    engine.send(Generate(10, lane="race-1", prompt="hello", method="lookup"))
    engine.send(Generate(11, lane="race-2", prompt="hello", method="lookup", model="guest"))
    events: list[Event] = []
    while len([e for e in events if isinstance(e, Finished)]) < 2:
        events.append(next(engine.events()))
    assert text_of(events, 10) == ANSWER
    assert text_of(events, 11).startswith("Something else entirely 🙂 Something")
    engine.send(ReadPieces(12), ReadPieces(13, "guest"), ReadPieces(14, "nobody"))
    tables = [engine.until(id, PieceTable)[-1] for id in (12, 13, 14)]
    assert [len(table.pieces) > 0 for table in tables if isinstance(table, PieceTable)] == [True, True, False]
    assert tables[0].pieces != tables[1].pieces  # type: ignore[attr-defined]


def test_the_chats_cache_survives_a_race(engine: BareEngine, models: tuple[str, str]) -> None:
    load(engine, models[0], guest=models[1])
    chat = [{"role": "user", "content": "hello"}]
    engine.send(Generate(10, messages=chat))
    text = text_of(engine.until(10, Finished), 10)
    engine.send(Generate(11, lane="race-1", messages=chat, model="guest"))
    engine.until(11, Finished)
    engine.send(CloseLane("race-1"), UnloadSecondary())
    chat += [{"role": "assistant", "content": text}, {"role": "user", "content": "short"}]
    engine.send(Generate(12, messages=chat))
    events = engine.until(12, Finished)
    start = next(event for event in events if isinstance(event, Started))
    assert start.reused > 50
    assert not [event for event in events if isinstance(event, Unloaded)]
    engine.send(Generate(13, lane="race-1", messages=chat, model="guest"))
    failed = engine.until(13, Failed)[-1]
    assert isinstance(failed, Failed)
    assert "is not loaded next to" in failed.sentence


def test_freeing_a_model_ends_its_answers_alone(engine: BareEngine, models: tuple[str, str]) -> None:
    # The guest's passes take 10 ms: it is far from its end when it is freed.
    load(engine, models[0], guest=models[1].replace("pace=0.0", "pace=0.01"), other=models[1])
    for id, key in ((10, ""), (11, "guest"), (12, "other")):
        engine.send(Generate(id, lane=f"race-{id}", prompt="long", model=key))
    begun = engine.until(12, Started)
    engine.send(UnloadSecondary("guest"))
    reasons: dict[int, str] = {}
    for event in chain(begun, engine.events()):
        if isinstance(event, Finished):
            reasons[event.id] = event.reason
        if len(reasons) == 3:
            break
    assert reasons == {10: "eos", 11: "cancelled", 12: "eos"}
    assert said(engine, 20, lane="race-12", model="other")


def test_a_model_that_cannot_be_loaded_leaves_what_is_there(
    engine: BareEngine, models: tuple[str, str], tmp_path: Path
) -> None:
    load(engine, models[0], guest=models[1])
    for id, name in enumerate((str(tmp_path / "none.gguf"), str(tmp_path), "recorded:nowhere.jsonl"), 20):
        engine.send(LoadSecondary(id, f"bad-{id}", name))
        failed = engine.until(id, Failed, LoadedSecondary)[-1]
        assert isinstance(failed, Failed)
        assert failed.cause == "user"
        assert "\n" not in failed.sentence
    assert said(engine, 30) == ANSWER
    assert said(engine, 31, lane="race-1", model="guest").startswith("Something")


@needs_builtin
def test_a_killed_engine_loads_the_chats_model_first_and_then_its_guest(log: Path, models: tuple[str, str]) -> None:
    with EngineClient(log=log) as client:
        assert isinstance(list(client.stream(client.load(models[0])))[-1], Loaded)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        seen: list[Event] = []
        until(client, seen, lambda seen: any(isinstance(e, Failed) and e.cause == "died" for e in seen))
        id = client.next_id()
        client.send(LoadSecondary(id, "guest", models[1]))
        events = list(client.stream(id))
        assert [type(e) for e in events if isinstance(e, Loaded | LoadedSecondary)] == [Loaded, LoadedSecondary]
        answer = client.generate("hello", model="guest", lane="race-1")
        assert text_of(list(client.stream(answer)), answer).startswith("Something")
