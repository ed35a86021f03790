"""The dialogue with the engine, without a screen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specchat.app.chat.compare import comparison
from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Notice
from specchat.app.chat.methods import known_methods
from specchat.app.render.verdict import verdict_text
from specchat.engine.messages import (
    Cancel,
    Failed,
    Finished,
    Generate,
    Load,
    Loading,
    Pace,
    Prefilling,
    ScoreStep,
    Steps,
    StepScores,
    Switch,
    Switched,
    Unloaded,
)
from specchat.engine.options import ModelSelection

from ...fakes.pilots import Make, chatting, settle, status
from ...fakes.pilots import ask as asked
from ..conftest import under_way


def phase(dialogue: Dialogue) -> str:
    """Read the phase through a call, as a type checker takes what was asserted before to hold still."""
    return dialogue.phase


def notices(dialogue: Dialogue) -> list[str]:
    return [entry.text for entry in dialogue.transcript.entries if isinstance(entry, Notice)]


def test_an_answer(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    assert dialogue.submit("Hello")
    assert phase(dialogue) == "prefill"
    assert engine.asked.messages == [{"role": "user", "content": "Hello"}]
    engine.begin(make_steps())
    engine.events.insert(1, Prefilling(engine.asked.id, 20, 31))
    assert dialogue.drain()
    assert phase(dialogue) == "writing"
    assert not dialogue.submit("too early")
    engine.events.append(Prefilling(engine.asked.id, 512, 1030))  # the text is read again
    dialogue.drain()
    assert phase(dialogue) == "prefill"
    engine.events.append(Steps(engine.asked.id, make_steps()[:1]))
    dialogue.drain()
    assert phase(dialogue) == "writing"
    engine.finish(tail="!")
    dialogue.drain()
    (answer,) = dialogue.transcript.answers()
    assert (answer.reason, answer.text[-1], dialogue.phase) == ("eos", "!", "ready")
    assert answer.figures.decode_seconds == pytest.approx(1.2)
    dialogue.submit("And then?")
    assert engine.asked.messages is not None
    assert engine.asked.messages[1] == {"role": "assistant", "content": answer.text}


def test_what_is_typed_while_loading_goes_out_when_loaded(engine: Any) -> None:
    from specchat.app.chat.methods import Method

    dialogue = Dialogue(engine, ModelSelection("builtin"), {"greedy": Method("greedy")}, "greedy")
    engine.events = [Loading(1, "weights", 3, 9)]
    dialogue.drain()
    assert dialogue.submit("early")
    assert not dialogue.submit("a second one")
    assert not any(isinstance(command, Generate) for command in engine.sent)
    engine.loaded()
    dialogue.drain()
    assert engine.asked.messages == [{"role": "user", "content": "early"}]


def test_cancelling(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    assert not dialogue.cancel()
    id = under_way(dialogue, engine, make_steps()[:3])
    assert dialogue.cancel()
    assert engine.sent[-1] == Cancel(id)
    assert dialogue.submit("next")  # goes out as soon as the engine has stopped
    engine.finish("cancelled")
    dialogue.drain()
    assert dialogue.transcript.answers()[0].reason == "cancelled"
    assert engine.asked.messages is not None
    assert engine.asked.messages[-1]["content"] == "next"


def test_switching_in_the_middle(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = under_way(dialogue, engine, make_steps()[:3])
    dialogue.settings["greedy"] = {}
    dialogue.switch("soft")
    assert engine.sent[-1] == Switch(id, "soft", {})
    assert (dialogue.method, dialogue.switching) == ("lookup", "soft")
    assert dialogue.next_method() == "greedy"  # before the first is in force; soft is not worth a try, so from the beginning
    engine.events = [Switched(id, "greedy", "identical"), Steps(id, make_steps(method="greedy", drafts=False))]
    dialogue.drain()
    assert (dialogue.method, dialogue.switching) == ("greedy", None)
    engine.finish()
    dialogue.drain()
    assert dialogue.transcript.answers()[0].methods == ["lookup", "greedy"]


def test_a_refused_switch_leaves_the_answer_alone(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = under_way(dialogue, engine, make_steps()[:3])
    dialogue.switch("soft")
    engine.events = [Failed(id, "user", "soft cannot run here.", ended=False)]
    dialogue.drain()
    assert (dialogue.method, dialogue.switching, dialogue.phase) == ("lookup", None, "writing")
    assert notices(dialogue) == ["soft cannot run here."]


def test_a_switch_that_comes_too_late_counts_for_the_next_answer(dialogue: Dialogue, engine: Any) -> None:
    id = under_way(dialogue, engine)
    dialogue.switch("greedy")
    engine.finish()
    engine.events.append(Failed(id, "user", "That answer has already ended.", ended=False))
    dialogue.drain()
    assert dialogue.method == "greedy"
    assert notices(dialogue) == []


def test_a_load_that_fails(engine: Any, dialogue: Dialogue) -> None:
    dialogue.load_model("nowhere/model")
    assert isinstance(engine.sent[-1], Load)
    engine.events = [Unloaded(), Failed(engine.ids, "user", "There is no model nowhere/model.")]
    dialogue.drain()
    assert phase(dialogue) == "unloaded"
    assert dialogue.submit("Hello")  # tries again, and the prompt waits for it
    assert isinstance(engine.sent[-1], Load)
    assert dialogue.take_queued() == "Hello"


def test_a_new_chat_ignores_the_old_answer(dialogue: Dialogue, engine: Any, make_steps: Make) -> None:
    id = under_way(dialogue, engine, make_steps()[:2])
    dialogue.clear()
    assert engine.sent[-1] == Cancel(id)
    assert dialogue.submit("Fresh")  # the engine would refuse it until the old answer has ended
    assert engine.sent[-1] == Cancel(id)
    engine.events = [Steps(id, make_steps()), Finished(id, "cancelled", "", 0, 0)]
    dialogue.drain()
    assert len(dialogue.transcript.entries) == 2
    assert engine.asked.messages == [{"role": "user", "content": "Fresh"}]


def test_a_method_that_nobody_chose_follows_the_model(engine: Any) -> None:
    dialogue = Dialogue(engine, ModelSelection("builtin"), known_methods(), "draft", chosen=False)
    engine.loaded()
    dialogue.drain()
    assert dialogue.method == "draft"
    dialogue.load_model("other")
    engine.loaded(draft="It needs a draft model.")
    dialogue.drain()
    assert (dialogue.method, notices(dialogue)) == ("lookup", [])
    dialogue.load_model("nowhere", draft_model=("small",))
    engine.events.append(Failed(engine.ids, "user", "There is no model nowhere: name another."))
    dialogue.drain()
    assert dialogue.method == "lookup"
    dialogue.load_model("other", draft_model=("small",))
    engine.loaded()
    dialogue.drain()
    assert dialogue.method == "draft"
    dialogue.switch("lookup")  # from now on it is a choice
    dialogue.load_model("builtin")
    engine.loaded()
    dialogue.drain()
    assert dialogue.method == "lookup"
    dialogue.switch(None)
    assert dialogue.method == "draft"


def test_another_model_has_neither_the_draft_model_nor_the_template_of_this_one(engine: Any) -> None:
    selection = ModelSelection("one", draft_model=("small",), revision="v1", device="cpu")
    dialogue = Dialogue(engine, selection, {}, "lookup")
    dialogue.load_model("one", chat_template="mine.jinja")
    dialogue.load_model("two")
    assert engine.sent == [
        Load(1, replace(selection, chat_template="mine.jinja")),
        Load(2, ModelSelection("two", device="cpu")),
    ]


SIZE = (110, 30)


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


async def test_pace_key(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """Step through the paces in the middle of an answer; later answers keep the pace."""
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        before = list(engine.sent)
        await pilot.press("f8", "f9")
        assert engine.sent == before, "there is no answer to pause"
        id = await asked(pilot, engine, "Hello", make_steps()[:4], finish=False)
        await pilot.press("f10", "f10")
        assert engine.sent[-2:] == [Pace(id, 10), Pace(id, 4)]
        app.chat_screen.query_one("#status").hint(None)
        assert "4 passes a second" in status(app)
        assert "tokens/s" not in status(app)
        engine.events = [Finished(id, "eos", "", 0.1, 0.5, rested=True)]
        await settle(app, pilot)
        answer = app.dialogue.transcript.answers()[-1]
        for text in (verdict_text(answer), str(comparison([answer], answer, 80))):
            assert "tokens/s" not in text, "a pass after a rest tells no speed"
            assert "×" not in text
        await asked(pilot, engine, "Once more", make_steps()[:4])
        assert engine.asked.pace == 4
