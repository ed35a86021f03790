"""Pausing an answer and taking it step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specchat.app.dialogue import Dialogue
from specchat.engine.messages import Advance, Cancel, Failed, Generate, Pause, Paused, Steps, Switch, Switched, Watch

Make = Callable[..., Any]


def ask(dialogue: Dialogue, engine: Any, records: Any = ()) -> int:
    """An answer under way; its id."""
    dialogue.submit("Hello")
    id: int = engine.begin(records)
    dialogue.drain()
    return id


def test_an_answer_is_held_and_goes_on(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = ask(dialogue, engine, make_steps()[:3])
    assert dialogue.pause()
    assert engine.sent[-1] == Pause(id, True)
    engine.events = [Paused(id, True)]
    dialogue.drain()
    assert dialogue.paused
    assert not dialogue.pause()
    assert engine.sent[-1] == Pause(id, False)
    engine.finish()
    dialogue.drain()
    assert not dialogue.paused


def test_a_step_pauses_first(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    records = make_steps()
    id = ask(dialogue, engine, records[:3])
    assert dialogue.step()
    assert engine.sent[-2:] == [Pause(id, True), Advance(id, 1)]
    engine.events = [Paused(id, True), Steps(id, records[3:4])]
    dialogue.drain()
    assert dialogue.step(5)
    assert engine.sent[-1] == Advance(id, 5)
    assert dialogue.answer is not None
    assert len(dialogue.answer.log) == 4


def test_there_is_nothing_to_step_without_an_answer(dialogue: Dialogue, engine: Any) -> None:
    before = list(engine.sent)
    assert not dialogue.step()
    assert engine.sent == before


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


def test_a_pause_ends_with_the_engine(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = ask(dialogue, engine, make_steps()[:3])
    dialogue.pause()
    engine.events = [Failed(id, "died", "The engine was killed.")]
    dialogue.drain()
    assert not dialogue.paused


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
