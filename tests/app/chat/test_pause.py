"""Pausing an answer and taking it step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specchat.app.chat.dialogue import Dialogue
from specchat.engine.messages import (
    Advance,
    Cancel,
    Generate,
    Pause,
    Paused,
    ScoreStep,
    StepRecord,
    Steps,
    StepScores,
    Switch,
    Switched,
    Watch,
)

from ...fakes.pilots import ask as asked
from ...fakes.pilots import rows, settle, shown, status, toasts

Make = Callable[..., Any]
SIZE = (110, 30)


def ask(dialogue: Dialogue, engine: Any, records: Any = ()) -> int:
    """An answer under way; its id."""
    dialogue.submit("Hello")
    id: int = engine.begin(records)
    dialogue.drain()
    return id


def test_without_an_answer_the_next_one_begins_paused(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    assert dialogue.pause()
    assert not any(isinstance(command, Pause) for command in engine.sent)
    id = ask(dialogue, engine)
    assert engine.asked.paused
    assert dialogue.step()
    assert engine.sent[-1] == Advance(id, 1)
    engine.finish()
    dialogue.drain()
    ask(dialogue, engine)
    assert not engine.asked.paused


def test_a_paused_answer_can_be_switched_and_cancelled(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = ask(dialogue, engine, make_steps()[:3])
    dialogue.pause()
    dialogue.switch("greedy")
    assert engine.sent[-1] == Switch(id, "greedy", {})
    engine.events = [Switched(id, "greedy", "identical")]
    dialogue.drain()
    assert dialogue.method == "greedy"
    assert dialogue.paused
    assert dialogue.cancel()
    assert engine.sent[-1] == Cancel(id)
    assert not dialogue.pause()  # it is being stopped: nothing to hold
    engine.finish("cancelled")
    dialogue.drain()
    assert not dialogue.paused
    assert dialogue.transcript.answers()[0].reason == "cancelled"


def test_watching(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    dialogue.watch(True)
    assert not any(isinstance(command, Watch) for command in engine.sent)
    id = ask(dialogue, engine, make_steps()[:3])
    assert engine.asked.watch
    dialogue.watch(True)  # said already
    dialogue.watch(False)
    assert engine.sent[-1] == Watch(id, False)
    assert sum(isinstance(command, Watch) for command in engine.sent) == 1
    engine.finish()
    dialogue.drain()
    ask(dialogue, engine)
    assert isinstance(engine.asked, Generate)
    assert not engine.asked.watch


def test_probabilities_are_asked_for_once_when_the_answer_has_ended(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = ask(dialogue, engine, make_steps()[:3])
    answer = dialogue.answer
    assert answer is not None
    assert not dialogue.score_step(answer, 1), "it is being written"
    engine.finish()
    dialogue.drain()
    before = len(answer.log.record(0).tokens)
    assert dialogue.score_step(answer, 1)
    assert dialogue.score_step(answer, 1)
    assert [command for command in engine.sent if isinstance(command, ScoreStep)] == [
        ScoreStep(id, before, answer.log.record(1).tokens[-1])
    ]
    engine.events = [StepScores(id, before, [0.5])]
    dialogue.drain()
    assert answer.log.record(1).probs == [0.5]
    assert not dialogue.score_step(answer, 1)
    assert dialogue.score_step(answer, 2)
    engine.events = [StepScores(id, answer.log.tokens_before(2), [])]
    dialogue.drain()
    assert not dialogue.score_step(answer, 2), "it cannot be had"
    answer.id = 0
    assert not dialogue.score_step(answer, 0), "of another sitting"


# The keys


def bar(app: Any) -> str:
    return str(app.chat_screen.query_one("#keys").render().plain)


async def test_pause_key(make_chat: Make, engine: Any, make_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        id = await asked(pilot, engine, "Hello", make_steps()[:4], finish=False)
        assert "tokens/s" in status(app)
        await pilot.press("d", "f8")
        assert engine.sent[-1] == Pause(id, True)
        engine.events = [Paused(id, True)]
        await settle(app, pilot)
        assert "paused" in status(app)
        assert "F9 one pass   F8 continue   esc stop" in bar(app)
        await pilot.press("f8")
        assert engine.sent[-1] == Pause(id, False)
        engine.events = [Paused(id, False)]
        await settle(app, pilot)
        assert "tokens/s" in status(app)
        assert app.chat_screen.input.text == "d"


async def test_step_key_shows_each_step(make_chat: Make, engine: Any, make_steps: Make) -> None:
    app = make_chat(panel="tree")
    async with app.run_test(size=SIZE) as pilot:
        records = make_steps()
        id = await asked(pilot, engine, "Hello", records[:2], finish=False)
        for count in range(3, 6):
            await pilot.press("f9")
            assert engine.sent[-1] == Advance(id, 1)
            engine.events = [Paused(id, True), Steps(id, records[count - 1 : count])]
            await settle(app, pilot)
            panel = "\n".join(rows(app.chat_screen.panel.query_one("LineView")))
            assert f"pass {count} of {count}" in panel
        assert sum(isinstance(command, Pause) for command in engine.sent) == 1
        await pilot.press("escape")
        assert engine.sent[-1] == Cancel(id)


async def test_a_paused_step_shows_its_last_character(make_chat: Make, engine: Any) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        id = await asked(pilot, engine, "Hello", [StepRecord("lookup", [1, 2], "They foun", 3, 1, 4, held="d")], finish=False)
        await pilot.press("f8")
        engine.events = [Paused(id, True)]
        await settle(app, pilot)
        view, answer = app.chat_screen.view, app.dialogue.answer
        assert "They found" in shown(app)
        await pilot.press("f7")
        assert view.cursor.spot.run == 0
        assert answer.own_text(0) == "They found"
        # It was no plain letter: the mark joins the same run, and a cell later the next one begins.
        engine.events = [Steps(id, [StepRecord("lookup", [3], "d\u0301 i", carried=2, held="t")])]
        await settle(app, pilot)
        assert "They found\u0301 it" in shown(app)
        assert [answer.own_text(index) for index in (0, 1)] == ["They found\u0301", " it"]
        engine.finish("cancelled", "t")
        await settle(app, pilot)
        assert "They found\u0301 it" in shown(app)
        assert answer.text == "They found\u0301 it"
        assert [answer.own_text(index) for index in (0, 1)] == ["They found\u0301", " it"]


async def test_a_pause_before_the_first_step(make_chat: Make, engine: Any) -> None:
    app = make_chat(panel="tree")
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        engine.loaded()
        await settle(app, pilot)
        await pilot.press("f9")
        assert "No answer is being written" in toasts(app)
        await pilot.press("f8")
        assert "The next answer will be paused before its first pass." in toasts(app)
        assert "the next answer begins paused" in status(app)
        await pilot.press("f8", "f8")
        app.chat_screen.input.put("Hello")
        await pilot.press("enter")
        assert engine.asked.paused
        engine.begin()
        await settle(app, pilot)
        assert "paused" in status(app)
        panel = "\n".join(rows(app.chat_screen.panel.query_one("LineView")))
        assert "Paused before the first pass: F9 one pass, F8 continue." in " ".join(panel.split())
