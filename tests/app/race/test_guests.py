"""Races of several models as data: what is asked of the engine, what is compared with what, and at which length."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.export.formats import export_race
from specchat.app.export.race_html import photo_finish, remarks
from specchat.app.race.entry import RaceEntry, split_prompt
from specchat.app.race.race import Race
from specchat.app.saved.race_json import read_race
from specchat.app.theming.themes import load_themes
from specchat.app.tui.race.photo_finish import headline
from specchat.app.tui.race.state import doing_of, live_state, mark_words, standings
from specchat.engine.messages import (
    Cancel,
    CloseLane,
    Failed,
    Generate,
    LoadedSecondary,
    Loading,
    LoadSecondary,
    MeasureGap,
    PieceTable,
    ReadPieces,
    UnloadSecondary,
)
from specchat.errors import UserError

from ...fakes.races import asked, begin, finish, records, run, started, write
from ..conftest import INFO, FakeEngine

SMALL = {**INFO, "name": "small.gguf", "backend": "llama.cpp", "dtype": "Q4_0", "path": "/secret/small.gguf"}


def race(dialogue: Dialogue, *entries: RaceEntry) -> Race:
    """One that has been started."""
    return started(dialogue, entries or [RaceEntry("greedy"), RaceEntry("greedy", model="models/small.gguf")])


def loads(engine: FakeEngine) -> list[LoadSecondary]:
    return [command for command in engine.sent if isinstance(command, LoadSecondary)]


def loaded(engine: FakeEngine, tokenizer: str = "same", index: int = 0) -> None:
    """The engine has loaded a model that was asked for."""
    command = loads(engine)[index]
    engine.events.append(LoadedSecondary(command.id, command.key, dict(SMALL), {}, tokenizer, "same"))


def test_a_model_is_loaded_once_for_all_its_lanes_and_before_them(dialogue: Dialogue, engine: FakeEngine) -> None:
    dialogue.load = {"device": "cpu", "context": 512, "draft_model": "d", "revision": "r", "backend": "transformers"}
    made = race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m.gguf"), RaceEntry("lookup", model="m.gguf"))
    sent = [command for command in engine.sent if isinstance(command, LoadSecondary | Generate)]
    assert [type(command) for command in sent] == [LoadSecondary, Generate, Generate, Generate]
    (load,) = loads(engine)
    # The draft model, the revision and the runtime are the chat's model's own business.
    assert (load.key, load.model, load.options, load.lanes) == ("m.gguf", "m.gguf", {"device": "cpu", "context": 512}, 2)
    assert [asked(engine, i).model for i in range(3)] == ["", "m.gguf", "m.gguf"]
    made.start()
    assert len(loads(engine)) == 1


def test_models_go_with_the_race(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="a"), RaceEntry("greedy", model="b"))
    loaded(engine)
    dialogue.drain()
    made.close()
    assert [command.key for command in engine.sent if isinstance(command, UnloadSecondary)] == ["a", "b"]
    assert Cancel(loads(engine)[0].id) not in engine.sent
    assert Cancel(loads(engine)[1].id) in engine.sent  # it was still being loaded
    assert not any(isinstance(command, CloseLane) and command.lane == "main" for command in engine.sent)


@pytest.mark.parametrize(("cause", "reason", "error"), [("user", "error", "It is broken."), ("cancelled", "cancelled", "")])
def test_a_model_that_cannot_be_loaded_costs_its_own_panes_alone(
    dialogue: Dialogue, engine: FakeEngine, cause: str, reason: str, error: str
) -> None:
    made = race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m"), RaceEntry("lookup"))
    engine.events.append(Failed(loads(engine)[0].id, cause, "It is broken."))
    dialogue.drain()
    assert [racer.answer.reason for racer in made.racers] == [None, reason, None]
    assert made.racers[1].error == error
    # What the engine says of the lane is no news then.
    engine.events.append(Failed(asked(engine, 1).id, "user", "m is not loaded."))
    for i in (0, 2):
        begin(engine, i)
        write(engine, i, records("greedy", [1, 2]))
        finish(engine, i, 1.0)
    dialogue.drain()
    assert made.racers[1].error == error
    assert [made.mark(racer) for racer in made.racers] == ["reference", "another model", "identical"]
    assert not dialogue.transcript.entries
    made.start()
    assert len(loads(engine)) == 2  # tried again


def test_the_engines_end_takes_the_models_with_it(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    engine.events.append(Failed(asked(engine, 0).id, "died", "It ended.", other_ids=[loads(engine)[0].id, asked(engine, 1).id]))
    dialogue.drain()
    assert [racer.answer.reason for racer in made.racers] == ["died", "died"]
    made.start()
    assert len(loads(engine)) == 2
    engine.events.append(Loading(1, "weights", 1, 2))  # the chat's model comes first
    dialogue.drain()
    assert doing_of(made, made.racers[1]) == "reloading the model"
    engine.events.append(Loading(loads(engine)[1].id, "import"))
    dialogue.drain()
    assert doing_of(made, made.racers[1]) == "starting the runtime"


def test_tokens_are_compared_among_lanes_of_one_model_only(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(
        dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m"), RaceEntry("lookup", model="m"), RaceEntry("lookup")
    )
    loaded(engine)
    run(engine, made, [([1, 2, 3], 1, 1.0), ([7, 8], 1, 0.8), ([7, 8], 2, 0.5), ([1, 2, 3], 3, 0.6)])
    assert [made.mark(racer) for racer in made.racers] == ["reference", "another model", "identical", "identical"]
    assert [mark_words(made, racer)[1] for racer in made.racers[1:]] == ["another model", "identical to 2", "identical"]
    assert not any(isinstance(command, MeasureGap) for command in engine.sent)


def test_other_tokens_are_asked_for_and_make_characters_the_unit(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    units: list[str] = [made.unit]
    loaded(engine, "other")
    dialogue.drain()
    units.append(made.unit)
    assert units == ["tokens", "characters"]
    (request,) = [command for command in engine.sent if isinstance(command, ReadPieces) and command.model]
    engine.events.append(PieceTable(request.id, ["uno", "due"]))
    run(engine, made, [([1, 2, 3, 4], 1, 1.1), ([10000, 10001], 1, 0.6)])
    # Eight characters each by then: half of greedy's answer after 0.5 s of decoding, and the other's first token.
    assert made.racers[1].answer.pieces.raw(1) == "due"
    assert dialogue.pieces.raw(1) == ""
    assert [racer.track.amount("characters") for racer in made.racers] == [8, 12]
    assert made.speedup(made.racers[1]) == pytest.approx(1.0 / 0.5)
    state = live_state(made, 1)
    assert (state.amount, state.unit, state.model) == (12, "characters", "small.gguf")
    assert state.speed == pytest.approx(12 / 0.5)
    assert state.tokens_per_second == pytest.approx(2 / 0.5)


def test_being_done_sooner_with_less_is_not_being_faster(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue, RaceEntry("greedy"), RaceEntry("soft"))
    # Ten tokens in 0.1 + 1.0 s; four in 0.1 + 0.8 s. At four tokens the first lane had decoded for 0.4 s.
    run(engine, made, [(list(range(10)), 1, 1.1), ([0, 1, 2, 3], 1, 0.9)])
    assert made.finish_line == 4
    assert [made.place(racer) for racer in made.racers] == [1, 2]
    assert made.speedup(made.racers[1]) == pytest.approx(0.4 / 0.8)
    rows = standings(made)
    assert [(row.name, row.line) for row in rows] == [("greedy", 4), ("soft", 4)]
    name, what, more = headline(rows)
    assert (name, what) == ("greedy", " wins: 4 tokens in 400 ms")
    assert more[0] == "soft was done sooner but wrote 4 of 10"
    assert "400 ms ahead of soft" in more


def test_who_was_there_sooner_is_ahead_though_it_still_writes(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue, RaceEntry("greedy"), RaceEntry("soft"))
    for i, count in enumerate((4, 9)):
        begin(engine, i)
        write(engine, i, records(("greedy", "soft")[i], list(range(count)), seconds=(3.0, 1.0)[i]))
    finish(engine, 0, 12.1)
    dialogue.drain()
    assert [made.place(racer) for racer in made.racers] == [2, None]
    finish(engine, 1, 18.1)
    dialogue.drain()
    assert [made.place(racer) for racer in made.racers] == [2, 1]


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("greedy lookup : Hello: you", ("greedy lookup ", ":", " Hello: you")),
        ("greedy lookup: Hello", ("greedy lookup", ":", " Hello")),
        ("greedy lookup:Hello", ("greedy lookup", ":", "Hello")),
        ("greedy@a/b:Q4_0 lookup : Hi", ("greedy@a/b:Q4_0 lookup ", ":", " Hi")),
        ("greedy@ollama:x:latest: Hi", ("greedy@ollama:x:latest", ":", " Hi")),
        ("greedy@'my models: one.gguf' : Hi", ("greedy@'my models: one.gguf' ", ":", " Hi")),
        ("greedy@a/b:Q4_0", ("greedy@a/b:Q4_0", "", "")),
        (": It's", ("", ":", " It's")),
        (":", ("", ":", "")),
        ("", ("", "", "")),
    ],
)
def test_the_colon_that_parts_entries_and_prompt(rest: str, parts: tuple[str, str, str]) -> None:
    assert split_prompt(rest) == parts


def test_a_race_of_models_is_a_file_of_version_2_and_comes_back(dialogue: Dialogue, engine: FakeEngine, tmp_path: Path) -> None:
    made = race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m"), RaceEntry("lookup", model="m"))
    loaded(engine, "other")
    run(engine, made, [([1, 2, 3, 4], 1, 1.1), ([100, 101], 1, 0.6), ([100, 101], 2, 0.4)])
    record = made.record()
    dark = load_themes()[0]["dark"]
    path = export_race(record, tmp_path / "race.json", dark)
    text = path.read_text()
    assert '"version": 2' in text
    assert "/secret" not in text
    back = read_race(path)
    assert back.unit == "characters"
    assert [lane.name for lane in back.lanes] == ["greedy", "greedy on m", "lookup on m"]
    assert [lane.info.get("name") for lane in back.lanes] == [None, "small.gguf", "small.gguf"]
    assert [lane.mark for lane in back.lanes] == ["reference", "another model", "identical"]
    assert [back.speedup(lane) for lane in back.lanes] == pytest.approx([made.speedup(racer) for racer in made.racers])
    finishes = photo_finish(back)
    assert [finish.name for finish in finishes] == ["greedy on builtin", "greedy on m", "lookup on m"]
    assert finishes[2].figures[1] == "26.7 chars/s"
    assert "compared in characters" in remarks(back)[0]
    page = export_race(record, tmp_path / "race.html", dark).read_text()
    assert "greedy on builtin" in page
    assert "another model" in page
    assert "chars/s" in page
    path.write_text(text.replace('"version": 2', '"version": 3'))
    with pytest.raises(UserError, match="version 3"):
        read_race(path)
    path.write_text(text.replace('"unit": "characters"', '"unit": "words"'))
    with pytest.raises(UserError, match="unit is none of tokens, characters"):
        read_race(path)
