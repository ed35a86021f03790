"""Pausing an answer and taking it step by step."""

from __future__ import annotations

from typing import Any

from specchat.app.chat.dialogue import Dialogue
from specchat.engine.messages import Advance, Generate, Pause, Paused, ScoreStep, StepScores, Watch

from ...fakes.pilots import Make, chatting, settle, status
from ...fakes.pilots import ask as asked
from ..conftest import under_way

SIZE = (110, 30)


def test_without_an_answer_the_next_one_begins_paused(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    assert dialogue.pause()
    assert not any(isinstance(command, Pause) for command in engine.sent)
    id = under_way(dialogue, engine)
    assert engine.asked.paused
    assert dialogue.step()
    assert engine.sent[-1] == Advance(id, 1)
    engine.finish()
    dialogue.drain()
    under_way(dialogue, engine)
    assert not engine.asked.paused


def test_watching(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    dialogue.watch(True)
    assert not any(isinstance(command, Watch) for command in engine.sent)
    id = under_way(dialogue, engine, make_steps()[:3])
    assert engine.asked.watch
    dialogue.watch(True)  # said already
    dialogue.watch(False)
    assert engine.sent[-1] == Watch(id, False)
    assert sum(isinstance(command, Watch) for command in engine.sent) == 1
    engine.finish()
    dialogue.drain()
    under_way(dialogue, engine)
    assert isinstance(engine.asked, Generate)
    assert not engine.asked.watch


def test_probabilities_are_asked_for_once_when_the_answer_has_ended(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = under_way(dialogue, engine, make_steps()[:3])
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


def bar(app: Any) -> str:
    return str(app.chat_screen.query_one("#keys").render().plain)


async def test_pause_key(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
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
