"""Pausing an answer and taking it step by step."""

from __future__ import annotations

from typing import Any

from specchat.app.chat.compare import table
from specchat.app.chat.dialogue import Dialogue
from specchat.app.render.numbers_page import Curve, numbers_lines
from specchat.app.render.verdict import verdict_text
from specchat.engine.messages import (
    Finished,
    Generate,
    Pace,
    Pause,
    Paused,
    RecordProbabilities,
    ScoreStep,
    Steps,
    StepScores,
    Switched,
)

from ...fakes.pilots import Make, chatting, command, settle, status, toasts
from ...fakes.pilots import ask as asked
from ..conftest import under_way

SIZE = (110, 30)


def test_watching(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    dialogue.watch(True)
    assert not any(isinstance(command, RecordProbabilities) for command in engine.sent)
    id = under_way(dialogue, engine, make_steps()[:3])
    assert engine.asked.record_probabilities
    dialogue.watch(True)  # said already
    dialogue.watch(False)
    assert engine.sent[-1] == RecordProbabilities(id, False)
    assert sum(isinstance(command, RecordProbabilities) for command in engine.sent) == 1
    engine.finish()
    dialogue.drain()
    under_way(dialogue, engine)
    assert isinstance(engine.asked, Generate)
    assert not engine.asked.record_probabilities


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


async def test_without_an_answer_nothing_is_paused_or_stepped(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await asked(pilot, engine, "Hello", make_steps()[:4])
        before = list(engine.sent)
        await pilot.press("f8", "f9")
        assert engine.sent == before
        assert toasts(app).startswith("No answer is being written. F10 slows the next one down.")
        await asked(pilot, engine, "Once more", make_steps()[:4], finish=False)
        assert not app.dialogue.paused


async def test_pace_key(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """From ten passes a second to one, and back to full speed, in the middle of an answer and in those after it."""
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        id = await asked(pilot, engine, "Hello", make_steps()[:4], finish=False)
        await pilot.press("f10", "f10")
        assert engine.sent[-2:] == [Pace(id, 10), Pace(id, 4)]
        line = app.chat_screen.query_one("#status").render()
        bold = {str(line)[span.start : span.end].strip() for span in line.spans if span.style == "bold $foreground"}
        assert "4" in bold, "the one in force"
        assert "10" not in bold
        app.chat_screen.query_one("#status").hint(None)
        assert "4 passes a second" in status(app)
        assert "ctrl+n switches the method now" in status(app)
        assert "tokens/s" not in status(app)
        assert "F10 pace" in bar(app)
        engine.events = [Finished(id, "eos", "", 0.1, 0.5, rested=True)]
        await settle(app, pilot)
        answer = app.dialogue.transcript.answers()[-1]
        page = numbers_lines(answer, "lookup", Curve(), 60)
        (row,) = [row for row in table([answer], answer, 80) if "lookup" in row[0].text]
        for told in (verdict_text(answer), str(page), str(row)):
            assert "a pass" in told or told == str(row)
            assert "tokens/s" not in told, "a pass after a rest tells no speed"
            assert "×" not in told
        await asked(pilot, engine, "Once more", make_steps()[:4])
        assert engine.asked.pace == 4
        await command(pilot, "/pace 21")
        assert "/pace must be at most 20, not 21." in toasts(app)
        await command(pilot, "/pace 0")
        await asked(pilot, engine, "At full speed", make_steps()[:4])
        assert engine.asked.pace == 0


async def test_the_builtin_models_starters_begin_plainly_and_slowly(make_chat: Make, engine: Any, make_steps: Make) -> None:
    app = make_chat()
    app.dialogue.chosen = False
    async with chatting(app, engine, size=SIZE) as (app, pilot):
        own = app.dialogue.method
        await pilot.press("tab", "2")
        assert (engine.asked.method, engine.asked.pace) == ("greedy", 4)
        id = engine.begin(make_steps(method="greedy", drafts=False)[:3])
        await settle(app, pilot)
        assert "4 passes a second   1.0 tokens a pass   ctrl+n switches the method now" in status(app)
        await pilot.press("ctrl+n")
        engine.events = [Switched(id, "lookup", "identical"), Steps(id, make_steps()[:2])]
        engine.finish()
        await settle(app, pilot)
        assert (own, app.dialogue.method, app.dialogue.pace) == ("lookup", "lookup", 0)
        await pilot.press("ctrl+l", "tab", "3")
        assert (engine.asked.method, engine.asked.pace) == ("lookup", 4), "the one that was chosen since"
