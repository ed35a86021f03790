"""The race as data: lanes, clocks, identity, places."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Prompt
from specchat.app.chat.methods import known_methods
from specchat.app.export.formats import export
from specchat.app.export.html import Look
from specchat.app.export.race_html import photo_finish, remarks
from specchat.app.race.entry import RaceEntry, race_prompt, split_prompt, suggest_methods
from specchat.app.race.lane import FULL
from specchat.app.race.race import MOST_ROUNDS, Race
from specchat.app.theming.themes import load_themes
from specchat.app.tui.race.photo_finish import headline
from specchat.app.tui.race.state import lane_figures, standings
from specchat.engine.messages import (
    Cancel,
    CloseLane,
    Failed,
    Finished,
    GapMeasured,
    Generate,
    Loaded,
    LoadedSecondary,
    Loading,
    LoadSecondary,
    MeasureGap,
    PieceTable,
    Prefilling,
    ReadPieces,
    Started,
    Steps,
    UnloadSecondary,
)
from specchat.engine.options import ModelSelection

from ...fakes.races import begin, finish, records, request_of, run_lanes, started, write
from ..conftest import INFO, METHODS, FakeEngine


def start_race(dialogue: Dialogue, *lanes: str | RaceEntry) -> Race:
    """Start a race of these methods, else of greedy and lookup."""
    return started(dialogue, [RaceEntry(lane) if isinstance(lane, str) else lane for lane in lanes or ("greedy", "lookup")])


def test_a_rerun_begins_in_lanes_that_remember_nothing(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue)
    run_lanes(engine, race, [([1, 2], 1, 1.0), ([1, 2], 2, 0.5)])
    before = len(engine.sent)
    race.start()
    kinds = [type(command) for command in engine.sent[before:]]
    assert kinds == [CloseLane, CloseLane, Generate, Generate]
    assert race.running
    assert not race.racers[0].tokens


def test_tokens_are_compared_as_they_come_whichever_lane_is_ahead(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue)
    first, second = race.racers
    begin(engine, 0)
    begin(engine, 1)
    dialogue.drain()
    assert (race.mark(first), race.mark(second)) == ("reference", "unknown")
    write(engine, 1, records("lookup", [1, 2, 3], 3))
    dialogue.drain()
    assert race.mark(second) == "unknown"
    write(engine, 0, records("greedy", [1, 2]))
    dialogue.drain()
    assert (race.mark(second), second.compared) == ("identical", 2)
    write(engine, 0, records("greedy", [9]))
    dialogue.drain()
    assert (race.mark(second), second.position) == ("unknown", 2)
    question = engine.sent[-1]
    assert isinstance(question, MeasureGap)
    assert question == MeasureGap(question.id, "race-2", 2, 9)
    engine.events.append(GapMeasured(question.id, "race-2", 2, 3, 9, 0.02))
    dialogue.drain()
    assert (race.mark(second), second.gap) == ("near tie", 0.02)


@pytest.mark.parametrize("answer", ["a wide gap", "no answer"])
def test_a_difference_that_is_no_near_tie_is_marked_as_one(dialogue: Dialogue, engine: FakeEngine, answer: str) -> None:
    race = start_race(dialogue)
    run_lanes(engine, race, [([1, 2], 1, 1.0), ([1, 3], 2, 0.5)])
    question = engine.sent[-1]
    assert isinstance(question, MeasureGap)
    id = question.id
    engine.events.append(
        GapMeasured(id, "race-2", 1, 3, 2, 4.5) if answer == "a wide gap" else Failed(id, "user", "Gone.", False)
    )
    dialogue.drain()
    assert race.mark(race.racers[1]) == "lossy"
    assert not dialogue.transcript.entries


@given(
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=20),
    st.booleans(),
)
def test_marks_agree_with_whole_answers(
    one: list[int], other: list[int], order: list[tuple[bool, int]], finished: bool
) -> None:
    engine = FakeEngine()
    dialogue = Dialogue(engine, ModelSelection("builtin"), METHODS, "lookup")
    race = start_race(dialogue)
    begin(engine, 0)
    begin(engine, 1)
    sent, texts = [0, 0], (one, other)
    for which, size in [*order, (False, 99), (True, 99)]:
        part = texts[which][sent[which] : sent[which] + size]
        sent[which] += len(part)
        if part:
            write(engine, which, records("greedy", part, len(part)))
            dialogue.drain()
    if finished:
        finish(engine, 0, 1.0)
        finish(engine, 1, 1.0)
        dialogue.drain()
    common = min(len(one), len(other))
    place = next((i for i in range(common) if one[i] != other[i]), None)
    if place is None and finished and len(one) != len(other):
        place = common
    assert race.racers[1].position == place
    if place is None:
        assert race.mark(race.racers[1]) == ("identical" if common else "unknown")


def test_places_go_by_the_lanes_own_clocks(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue, "greedy", "lookup", "recompute")
    for i in range(3):
        begin(engine, i)
        write(engine, i, records(("greedy", "lookup", "greedy")[i], [1, 2] if i != 1 else [1], seconds=(0.3, 0.1, 0.4)[i]))
    finish(engine, 0, 0.7)
    dialogue.drain()
    assert race.place(race.racers[0]) is None, "others are still running"
    write(engine, 1, records("lookup", [2], seconds=0.1))
    finish(engine, 1, 0.4)
    dialogue.drain()
    assert race.running
    finish(engine, 2, 0.9, reason="cancelled")
    dialogue.drain()
    assert [racer.entry.method for racer in race.ranking()] == ["lookup", "greedy", "recompute"]
    assert [race.place(racer) for racer in race.racers] == [2, 1, None]
    assert race.racers[1].clock.seconds == pytest.approx(0.3)  # its prompt is on no clock


def test_a_lane_that_drafted_nothing_has_no_place(dialogue: Dialogue, engine: FakeEngine) -> None:
    """It decoded plainly under another name, here as fast as greedy; the other lanes keep their order."""
    race = start_race(dialogue, "greedy", "lookup", "suffix")
    for i, name in enumerate(("greedy", "lookup", "greedy")):
        begin(engine, i)
        write(engine, i, records(name, [1, 2], seconds=(2.0, 1.0, 1.99)[i]))
        finish(engine, i, (4.1, 2.1, 4.08)[i])
    dialogue.drain()
    assert [race.place(racer) for racer in race.racers] == [2, 1, None]
    assert {row.name: row.doing for row in standings(race)} == {"greedy": "", "lookup": "", "suffix": "drafted nothing"}
    assert race.speedup(race.racers[2]) == race.record().speedup(race.record().lanes[2]) == 0, "no × and no bar either"


def test_what_goes_wrong_in_one_lane_is_told_there_alone(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue)
    begin(engine, 0)
    engine.events.append(Failed(request_of(engine, 1).id, "memory", "There is not enough memory."))
    dialogue.drain()
    write(engine, 0, records("greedy", [1, 2]))
    finish(engine, 0, 1.0, reason="context")
    dialogue.drain()
    assert race.racers[1].error == "There is not enough memory."
    assert race.racers[1].answer.reason == "error"
    assert race.racers[0].error == FULL
    assert race.place(race.racers[0]) == 1
    assert (dialogue.phase, dialogue.transcript.entries) == ("ready", [])


def test_the_engines_end_leaves_the_chat_as_it_was(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue)
    begin(engine, 0)
    write(engine, 0, records("greedy", [1, 2]))
    dialogue.drain()
    one, other = (racer.id for racer in race.racers)
    engine.events.append(Failed(one, "died", "The engine was killed.", other_ids=[other]))
    dialogue.drain()
    assert [racer.answer.reason for racer in race.racers] == ["died", "died"]
    assert race.racers[0].error == "The engine was killed."
    assert (dialogue.phase, dialogue.transcript.entries) == ("ready", [])
    race.start()  # a new engine loads the model first
    engine.events.append(Loading(1, "weights", 1, 2))
    dialogue.drain()
    assert (dialogue.phase, race.loading) == ("ready", Loading(1, "weights", 1, 2))
    engine.events.append(Loaded(1, INFO))
    begin(engine, 0)
    dialogue.drain()
    assert (dialogue.phase, race.loading) == ("ready", None)


def test_who_might_race(dialogue: Dialogue) -> None:
    assert suggest_methods(dialogue) == ["greedy", "lookup"]
    dialogue.unavailable = {"lookup": "No trees."}
    assert suggest_methods(dialogue) == ["greedy", "recompute"]  # there is nothing better
    dialogue.methods = known_methods()
    dialogue.unavailable = dict.fromkeys(("eagle", "medusa", "dflash", "mtp", "pard"), "It needs a trained drafter.")
    assert suggest_methods(dialogue) == ["greedy", "lookup", "draft"]
    dialogue.method = "tree"
    assert suggest_methods(dialogue) == ["greedy", "tree", "draft"]
    dialogue.method = "recompute"
    assert suggest_methods(dialogue) == ["greedy", "draft", "lookup"]


def test_what_is_raced_on(dialogue: Dialogue) -> None:
    assert race_prompt(dialogue, None) is None
    answer = Answer("greedy", "identical")
    answer.add(records("greedy", [1])[0])
    dialogue.transcript.entries += [Prompt("One"), answer, Prompt("Two"), answer]
    dialogue.transcript.system = "Be brief."
    subject = race_prompt(dialogue, None)
    assert subject is not None
    assert subject[0] == "Two"
    assert [message["content"] for message in subject[1]] == ["Be brief.", "One", "1 ", "Two"]
    subject = race_prompt(dialogue, "Three")
    assert subject is not None
    assert [message["content"] for message in subject[1]] == ["Be brief.", "One", "1 ", "Two", "1 ", "Three"]
    assert len(dialogue.transcript.entries) == 4


def run_rounds(race: Race, dialogue: Dialogue, engine: Any, clocks: list[tuple[float, float]]) -> None:
    """Answer every round that is asked for, the last clocks again and again."""
    at = 0
    while True:
        requests = [command for command in engine.sent if isinstance(command, Generate)][-2:]
        for command, seconds in zip(requests, clocks[min(at, len(clocks) - 1)], strict=True):
            engine.events += [
                Started(command.id, command.lane, command.method, "identical", 3, 0),
                Prefilling(command.id, 3, 3, 0.0),
                Steps(command.id, records(command.method, [1, 2, 3, 4], seconds=seconds / 4)),
                Finished(command.id, "eos", "", 0.0, seconds),
            ]
        dialogue.drain()
        at += 1
        if not race.settling:
            return


@pytest.mark.parametrize(
    ("clocks", "rounds", "sentence"),
    [
        ([(0.04, 0.01)], 1, "lookup wins: 10 ms of decoding"),  # no doubt
        ([(6.0, 4.0)], 1, "lookup wins: 4.00 s of decoding"),  # too long for another
        ([(6.0, 6.2)], 1, "greedy and lookup: too close to call"),
        ([(2.0, 1.5)], 2, "lookup wins: 1.50 s of decoding"),  # long
        ([(1.5, 2.0), (1.7, 1.6)], 2, "greedy and lookup: too close to call"),  # the clocks of the two rounds overlap
        ([(0.04, 0.03), (0.04, 0.031), (0.041, 0.03)], 3, "lookup wins: 30 ms of decoding"),
        ([(0.03, 0.04), (0.04, 0.03)], None, "lookup wins: 30 ms of decoding"),  # the first round was chance
        ([(0.03, 0.03)], MOST_ROUNDS, "greedy and lookup: too close to call"),
    ],
)
def test_rounds(dialogue: Dialogue, engine: Any, clocks: list[tuple[float, float]], rounds: int | None, sentence: str) -> None:
    race = start_race(dialogue)
    run_rounds(race, dialogue, engine, clocks)
    assert race.round == rounds or rounds is None
    name, what, _ = headline(standings(race))
    assert name + what == sentence
    assert not race.running
    assert race.record().tied == ((1,) if "close" in sentence else ())


def test_the_same_passes_share_a_place(dialogue: Dialogue, engine: Any) -> None:
    """Chance alone sets two lanes of one method apart: they are not run again, and neither wins."""
    race = start_race(dialogue, "greedy", "greedy")
    run_rounds(race, dialogue, engine, [(6.0, 3.0)])
    assert (race.round, [race.place(racer) for racer in race.racers]) == (1, [1, 1])


SMALL = replace(INFO, name="small.gguf", backend="llama.cpp", dtype="Q4_0", path="/secret/small.gguf")


SMALL_GREEDY = RaceEntry("greedy", model="models/small.gguf")


def loads(engine: FakeEngine) -> list[LoadSecondary]:
    return [command for command in engine.sent if isinstance(command, LoadSecondary)]


def loaded(engine: FakeEngine, tokenizer: str = "same", index: int = 0) -> None:
    """The engine has loaded a model that was asked for."""
    command = loads(engine)[index]
    engine.events.append(LoadedSecondary(command.id, command.key, SMALL, {}, tokenizer, "same"))


def test_a_model_is_loaded_once_for_all_its_lanes_and_before_them(dialogue: Dialogue, engine: FakeEngine) -> None:
    machine: dict[str, Any] = {"device": "cpu", "context": 512}
    dialogue.selection = ModelSelection("builtin", draft_model=("d",), revision="r", backend="transformers", **machine)
    race = start_race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m.gguf"), RaceEntry("lookup", model="m.gguf"))
    sent = [command for command in engine.sent if isinstance(command, LoadSecondary | Generate)]
    assert [type(command) for command in sent] == [LoadSecondary, Generate, Generate, Generate]
    (load,) = loads(engine)
    # The draft model, the revision and the runtime are the chat's model's own business.
    assert (load.key, load.selection, load.lanes) == ("m.gguf", ModelSelection("m.gguf", **machine), 2)
    assert [request_of(engine, i).model for i in range(3)] == ["", "m.gguf", "m.gguf"]
    race.start()
    assert len(loads(engine)) == 1


def test_models_go_with_the_race(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="a"), RaceEntry("greedy", model="b"))
    loaded(engine)
    dialogue.drain()
    race.close()
    assert [command.key for command in engine.sent if isinstance(command, UnloadSecondary)] == ["a", "b"]
    assert Cancel(loads(engine)[0].id) not in engine.sent
    assert Cancel(loads(engine)[1].id) in engine.sent  # it was still being loaded
    assert not any(isinstance(command, CloseLane) and command.lane == "main" for command in engine.sent)


@pytest.mark.parametrize(("cause", "reason", "error"), [("user", "error", "It is broken."), ("cancelled", "cancelled", "")])
def test_a_failed_load_costs_its_own_panes(dialogue: Dialogue, engine: FakeEngine, cause: str, reason: str, error: str) -> None:
    race = start_race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m"), RaceEntry("lookup"))
    engine.events.append(Failed(loads(engine)[0].id, cause, "It is broken."))
    dialogue.drain()
    assert [racer.answer.reason for racer in race.racers] == [None, reason, None]
    assert race.racers[1].error == error
    # What the engine says of the lane is no news then.
    engine.events.append(Failed(request_of(engine, 1).id, "user", "m is not loaded."))
    for i in (0, 2):
        begin(engine, i)
        write(engine, i, records("greedy", [1, 2]))
        finish(engine, i, 1.0)
    dialogue.drain()
    assert race.racers[1].error == error
    assert [race.mark(racer) for racer in race.racers] == ["reference", "another model", "identical"]
    assert not dialogue.transcript.entries
    race.start()
    assert len(loads(engine)) == 2  # tried again


def test_other_tokens_are_asked_for_and_make_characters_the_unit(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue, "greedy", SMALL_GREEDY)
    units: list[str] = [race.unit]
    loaded(engine, "other")
    dialogue.drain()
    units.append(race.unit)
    assert units == ["tokens", "characters"]
    (request,) = [command for command in engine.sent if isinstance(command, ReadPieces) and command.model]
    engine.events.append(PieceTable(request.id, ["uno", "due"]))
    run_lanes(engine, race, [([1, 2, 3, 4], 1, 1.1), ([10000, 10001], 1, 0.6)])
    # Eight characters each by then: half of greedy's answer after 0.5 s of decoding, and the other's first token.
    assert race.racers[1].answer.pieces.raw(1) == "due"
    assert dialogue.pieces.raw(1) == ""
    assert [racer.clock.amount("characters") for racer in race.racers] == [8, 12]
    assert race.speedup(race.racers[1]) == pytest.approx(1.0 / 0.5)
    state = lane_figures(race, race.racers[1])
    assert (state.amount, state.unit, state.model) == (12, "characters", "small.gguf")
    assert state.speed == pytest.approx(12 / 0.5)


def test_being_done_sooner_with_less_is_not_being_faster(dialogue: Dialogue, engine: FakeEngine) -> None:
    race = start_race(dialogue, RaceEntry("greedy"), RaceEntry("soft"))
    # Ten tokens in 0.1 + 1.0 s; four in 0.1 + 0.8 s. At four tokens the first lane had decoded for 0.4 s.
    run_lanes(engine, race, [(list(range(10)), 1, 1.1), ([0, 1, 2, 3], 1, 0.9)])
    assert race.finish_line == 4
    assert [race.place(racer) for racer in race.racers] == [1, 2]
    assert race.speedup(race.racers[1]) == pytest.approx(0.4 / 0.8)
    rows = standings(race)
    assert [(row.name, row.line) for row in rows] == [("greedy", 4), ("soft", 4)]
    name, what, more = headline(rows)
    assert (name, what) == ("greedy", " wins: 4 tokens in 400 ms")
    assert more[0] == "soft was done sooner but wrote 4 of 10"
    assert "400 ms ahead of soft" in more


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


def test_a_race_of_models_is_a_file_of_version_2(dialogue: Dialogue, engine: FakeEngine, tmp_path: Path) -> None:
    race = start_race(dialogue, RaceEntry("greedy"), RaceEntry("greedy", model="m"), RaceEntry("lookup", model="m"))
    loaded(engine, "other")
    run_lanes(engine, race, [([1, 2, 3, 4], 1, 1.1), ([100, 101], 1, 0.6), ([100, 101], 2, 0.4)])
    record, look = race.record(), Look(load_themes()[0]["dark"])
    text = export(record, tmp_path / "race.json", look).read_text()
    assert "/secret" not in text
    file = json.loads(text)
    assert (file["version"], file["unit"]) == (2, "characters")
    assert [(lane["lane"], lane["model"], lane["mark"]) for lane in file["lanes"]] == [
        ("greedy", "", "reference"),
        ("greedy", "m", "another model"),
        ("lookup", "m", "identical"),
    ]
    assert [lane.get("info", {}).get("name") for lane in file["lanes"]] == [None, "small.gguf", "small.gguf"]
    assert [record.speedup(lane) for lane in record.lanes] == pytest.approx([race.speedup(racer) for racer in race.racers])
    finishes = photo_finish(record)
    assert [finish.name for finish in finishes] == ["greedy on builtin", "greedy on m", "lookup on m"]
    assert finishes[2].figures[1] == "26.7 chars/s"
    assert "compared in characters" in remarks(record)[0]
    page = export(record, tmp_path / "race.html", look).read_text()
    for part in ("greedy on builtin", "another model", "chars/s"):
        assert part in page
