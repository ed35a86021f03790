"""The race as data: lanes, clocks, identity, places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Prompt
from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import RaceEntry
from specchat.app.race.lane import FULL
from specchat.app.race.race import Race
from specchat.app.race.subject import suggested, talk
from specchat.app.tui.race.state import standings
from specchat.engine.messages import CloseLane, Failed, GapMeasured, Generate, Loaded, Loading, MeasureGap

from ...fakes.races import asked, begin, finish, records, run, started, write
from ..conftest import INFO, METHODS, FakeEngine

PROMPT = [{"role": "user", "content": "Hello"}]


def race(dialogue: Dialogue, *names: str) -> Race:
    """One that has been started."""
    return started(dialogue, [RaceEntry(name) for name in names or ("greedy", "lookup")])


def test_each_method_gets_a_lane_of_its_own_and_the_same_prompt(dialogue: Dialogue, engine: FakeEngine) -> None:
    dialogue.settings["lookup"] = {"max_ngram": 4}
    made = Race(dialogue, "Hello", PROMPT, [RaceEntry("greedy"), RaceEntry("lookup", {"max_ngram": 5})])
    made.start()
    asked_for = [command for command in engine.sent if isinstance(command, Generate)]
    assert [(c.lane, c.method, c.settings) for c in asked_for] == [
        ("race-1", "greedy", {}),
        ("race-2", "lookup", {"max_ngram": 5}),
    ]
    assert all(command.messages == PROMPT for command in asked_for)
    assert not dialogue.transcript.entries


def test_a_rerun_begins_in_lanes_that_remember_nothing(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    run(engine, made, [([1, 2], 1, 1.0), ([1, 2], 2, 0.5)])
    before = len(engine.sent)
    made.start()
    kinds = [type(command) for command in engine.sent[before:]]
    assert kinds == [CloseLane, CloseLane, Generate, Generate]
    assert made.running
    assert not made.racers[0].tokens


def test_tokens_are_compared_as_they_come_whichever_lane_is_ahead(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    first, second = made.racers
    begin(engine, 0)
    begin(engine, 1)
    dialogue.drain()
    assert (made.mark(first), made.mark(second)) == ("reference", "unknown")
    write(engine, 1, records("lookup", [1, 2, 3], 3))
    dialogue.drain()
    assert made.mark(second) == "unknown"
    write(engine, 0, records("greedy", [1, 2]))
    dialogue.drain()
    assert (made.mark(second), second.compared) == ("identical", 2)
    write(engine, 0, records("greedy", [9]))
    dialogue.drain()
    assert (made.mark(second), second.position) == ("unknown", 2)
    question = engine.sent[-1]
    assert isinstance(question, MeasureGap)
    assert question == MeasureGap(question.id, "race-2", 2, 9)
    engine.events.append(GapMeasured(question.id, "race-2", 2, 3, 9, 0.02))
    dialogue.drain()
    assert (made.mark(second), second.gap) == ("near tie", 0.02)


@pytest.mark.parametrize("answer", ["a wide gap", "no answer"])
def test_a_difference_that_is_no_near_tie_is_marked_as_one(dialogue: Dialogue, engine: FakeEngine, answer: str) -> None:
    made = race(dialogue)
    run(engine, made, [([1, 2], 1, 1.0), ([1, 3], 2, 0.5)])
    question = engine.sent[-1]
    assert isinstance(question, MeasureGap)
    id = question.id
    engine.events.append(
        GapMeasured(id, "race-2", 1, 3, 2, 4.5) if answer == "a wide gap" else Failed(id, "user", "Gone.", False)
    )
    dialogue.drain()
    assert made.mark(made.racers[1]) == "lossy"
    assert not dialogue.transcript.entries


def test_nobody_is_asked_about_a_lossy_lane(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue, "greedy", "soft")
    run(engine, made, [([1, 2], 1, 1.0), ([1, 3], 2, 0.5)])
    assert made.mark(made.racers[1]) == "lossy"
    assert not any(isinstance(command, MeasureGap) for command in engine.sent)


@given(
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=20),
    st.booleans(),
)
def test_marks_agree_with_a_comparison_of_the_whole_answers(
    one: list[int], other: list[int], order: list[tuple[bool, int]], finished: bool
) -> None:
    engine = FakeEngine()
    dialogue = Dialogue(engine, "builtin", METHODS, "lookup")
    made = race(dialogue)
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
    assert made.racers[1].position == place
    if place is None:
        assert made.mark(made.racers[1]) == ("identical" if common else "unknown")


def test_places_go_by_the_lanes_own_clocks(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue, "greedy", "lookup", "recompute")
    for i in range(3):
        begin(engine, i)
        write(engine, i, records(("greedy", "lookup", "greedy")[i], [1, 2] if i != 1 else [1], seconds=(0.3, 0.1, 0.4)[i]))
    finish(engine, 0, 0.7)
    dialogue.drain()
    # The second lane has computed less so far: it may still come in before.
    assert made.place(made.racers[0]) is None
    write(engine, 1, records("lookup", [2], seconds=0.1))
    finish(engine, 1, 0.4)
    dialogue.drain()
    assert [made.place(racer) for racer in made.racers] == [2, 1, None]
    assert made.running
    finish(engine, 2, 0.9, reason="cancelled")
    dialogue.drain()
    assert [racer.entry.method for racer in made.ranking()] == ["lookup", "greedy", "recompute"]
    assert made.place(made.racers[2]) is None
    assert made.racers[1].seconds == pytest.approx(0.3)  # its prompt is on no clock


def test_a_lane_that_drafted_nothing_has_no_place(dialogue: Dialogue, engine: FakeEngine) -> None:
    """It decoded plainly under another name, here as fast as greedy; the lanes beside it keep their order."""
    made = race(dialogue, "greedy", "lookup", "suffix")
    for i, name in enumerate(("greedy", "lookup", "greedy")):
        begin(engine, i)
        write(engine, i, records(name, [1, 2], seconds=(2.0, 1.0, 1.99)[i]))
        finish(engine, i, (4.1, 2.1, 4.08)[i])
    dialogue.drain()
    assert [made.place(racer) for racer in made.racers] == [2, 1, None]
    assert {row.name: row.doing for row in standings(made)} == {"greedy": "", "lookup": "", "suffix": "drafted nothing"}
    assert made.speedup(made.racers[2]) == made.record().speedup(made.record().lanes[2]) == 0, "no × and no bar either"


def test_the_prompt_is_one_figure_for_the_lanes_of_a_model(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    for i, prefill in enumerate((0.2, 0.1)):
        begin(engine, i)
        write(engine, i, records("greedy", [1, 2], seconds=2.0))
        finish(engine, i, 4.0 + prefill, prefill)
    dialogue.drain()
    assert [row.prompt_seconds for row in standings(made)] == [0.1, 0.1]


def test_what_goes_wrong_in_one_lane_is_told_there_alone(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    begin(engine, 0)
    engine.events.append(Failed(asked(engine, 1).id, "memory", "There is not enough memory."))
    dialogue.drain()
    write(engine, 0, records("greedy", [1, 2]))
    finish(engine, 0, 1.0, reason="context")
    dialogue.drain()
    assert made.racers[1].error == "There is not enough memory."
    assert made.racers[1].answer.reason == "error"
    assert made.racers[0].error == FULL
    assert made.place(made.racers[0]) == 1
    assert (dialogue.phase, dialogue.transcript.entries) == ("ready", [])


def test_the_engines_end_leaves_the_chat_as_it_was(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    begin(engine, 0)
    write(engine, 0, records("greedy", [1, 2]))
    dialogue.drain()
    one, other = (racer.id for racer in made.racers)
    engine.events.append(Failed(one, "died", "The engine was killed.", other_ids=[other]))
    dialogue.drain()
    assert [racer.answer.reason for racer in made.racers] == ["died", "died"]
    assert made.racers[0].error == "The engine was killed."
    assert (dialogue.phase, dialogue.transcript.entries) == ("ready", [])
    made.start()  # a new engine loads the model first
    engine.events.append(Loading(1, "weights", 1, 2))
    dialogue.drain()
    assert (dialogue.phase, made.loading) == ("ready", Loading(1, "weights", 1, 2))
    engine.events.append(Loaded(1, dict(INFO)))
    begin(engine, 0)
    dialogue.drain()
    assert (dialogue.phase, made.loading) == ("ready", None)


def test_the_record_has_what_the_lanes_wrote(dialogue: Dialogue, engine: FakeEngine) -> None:
    made = race(dialogue)
    run(engine, made, [([1, 2], 1, 1.0), ([1, 3], 2, 0.5)])
    record = made.record()
    assert [lane.answer.log.tokens.tolist() for lane in record.lanes] == [[1, 2], [1, 3]]
    assert [lane.mark for lane in record.lanes] == ["reference", "unknown"]
    assert record.lanes[1].position == 1
    assert record.lanes[1].seconds == pytest.approx(0.4)
    assert record.speedup(record.lanes[1]) == pytest.approx(made.speedup(made.racers[1]))
    assert "path" not in record.info


def test_who_might_race(dialogue: Dialogue) -> None:
    assert suggested(dialogue) == ["greedy", "lookup"]
    dialogue.unavailable = {"lookup": "No trees."}
    assert suggested(dialogue) == ["greedy", "recompute"]  # there is nothing better
    dialogue.methods, dialogue.unavailable = (
        known_methods(),
        dict.fromkeys(("eagle", "medusa", "dflash", "mtp", "pard"), "It needs a trained drafter."),
    )
    assert suggested(dialogue) == ["greedy", "lookup", "draft"]
    dialogue.method = "tree"
    assert suggested(dialogue) == ["greedy", "tree", "draft"]
    dialogue.method = "recompute"
    assert suggested(dialogue) == ["greedy", "draft", "lookup"]


def test_what_is_raced_on(dialogue: Dialogue) -> None:
    assert talk(dialogue, None) is None
    answer = Answer("greedy", "identical")
    answer.add(records("greedy", [1])[0])
    dialogue.transcript.entries += [Prompt("One"), answer, Prompt("Two"), answer]
    dialogue.transcript.system = "Be brief."
    found = talk(dialogue, None)
    assert found is not None
    assert found[0] == "Two"
    assert [message["content"] for message in found[1]] == ["Be brief.", "One", "1 ", "Two"]
    found = talk(dialogue, "Three")
    assert found is not None
    assert [message["content"] for message in found[1]] == ["Be brief.", "One", "1 ", "Two", "1 ", "Three"]
    assert len(dialogue.transcript.entries) == 4
