"""A thought is a part of an answer beside its text: apart in words and in figures, and sent back beside the answer."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest

from specchat.app.chat.about import variables
from specchat.app.chat.answer_json import answer_json
from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer
from specchat.engine.catalog import Share
from specchat.engine.messages import StepRecord
from specchat.engine.options import AnswerOptions

from ...fakes.thoughts import THINKING, THOUGHT, thinking_steps

TEXT = "It looks for the last few tokens."


def written(*steps: StepRecord, tail: str = "", reason: str = "eos") -> Answer:
    answer = Answer("lookup", "identical")
    for step in steps:
        answer.add(step)
    answer.finish(reason, tail)
    return answer


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_apart_and_add_up(seed: int) -> None:
    steps = thinking_steps(THOUGHT, TEXT, seed=seed)
    answer = written(*steps)
    assert (answer.thought, answer.text) == (THOUGHT, TEXT)
    thought, rest = answer.figures.thought, answer.figures.answer
    whole = Share(answer.figures.tokens, answer.figures.steps, answer.figures.decode_seconds, answer.figures.drafted,
                  answer.figures.accepted)  # fmt: skip
    both = thought.plus(rest)
    assert (both.tokens, thought.tokens) == (whole.tokens, sum(row[2] for step in steps for row in step.spans if row[0]))
    for name in ("passes", "seconds", "drafted", "accepted"):
        assert getattr(both, name) == pytest.approx(getattr(whole, name))
    assert thought.tokens_per_pass > 0
    told = answer_json(answer)
    assert (told["thought"]["text"], told["answer"]["text"], told["text"]) == (THOUGHT, TEXT, TEXT)
    assert told["thought"]["tokens"] + told["answer"]["tokens"] == told["tokens"]
    assert told["thought"]["passes"] + told["answer"]["passes"] == pytest.approx(told["steps"])


def test_a_pass_over_the_seam_is_shared_by_its_tokens() -> None:
    seam = StepRecord("lookup", [1, 2, 3, 4], "so. Yes", 6, 3, 7, forward_seconds=0.4, spans=[[1, 3, 2], [1, 0, 1], [0, 4, 1]])
    answer = written(seam)
    assert (answer.thought, answer.text) == ("so.", " Yes")
    assert astuple(answer.figures.thought) == pytest.approx((3, 0.75, 0.3, 4.5, 2.25))
    assert astuple(answer.figures.answer) == pytest.approx((1, 0.25, 0.1, 1.5, 0.75))


def test_what_is_held_back_is_of_the_part_in_force() -> None:
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [1], "th", held="i", spans=[[1, 2, 1]]))
    assert (answer.thought, answer.text, answer.thinking) == ("thi", "", True)
    answer.add(StepRecord("lookup", [2, 3], "ink", carried=1, held="Y", spans=[[1, 3, 2], [0, 0, 0]]))
    assert (answer.thought, answer.text, answer.thinking) == ("think", "Y", False)
    assert (answer.own_text(0), answer.own_text(1)) == ("thi", "nkY")
    answer.finish("eos", "Yes")
    assert (answer.thought, answer.text) == ("think", "Yes")
    cut = written(StepRecord("lookup", [1], "th", spans=[[1, 2, 1]]), tail="i", reason="length")
    assert (cut.thought, cut.text, cut.thinking) == ("thi", "", True)


def test_messages_bear_the_thought_beside_the_answer(dialogue: Dialogue, engine: Any) -> None:
    assert dialogue.submit("How?")
    engine.begin(thinking_steps(THOUGHT, TEXT))
    engine.finish()
    dialogue.drain()
    assert dialogue.submit("And now?")
    assert engine.asked.messages == [
        {"role": "user", "content": "How?"},
        {"role": "assistant", "content": TEXT, "thought": THOUGHT},
        {"role": "user", "content": "And now?"},
    ]
    engine.begin(thinking_steps(THOUGHT, "", closed=False))
    engine.finish("length")
    dialogue.drain()
    assert dialogue.submit("Well?")
    # A thought without an answer is none: the message that it was for is left out, as where nothing came.
    assert [message["content"] for message in engine.asked.messages] == ["How?", TEXT, "Well?"]


def test_only_what_the_model_knows_is_asked_of_its_template(dialogue: Dialogue, engine: Any) -> None:
    texts = ("date=today", "tools=[1, 2]", "x=true")
    dialogue.options = AnswerOptions(think="low", think_budget=64, template_var=texts)
    assert dialogue.submit("One")
    assert (engine.asked.think, engine.asked.think_budget) == ("", 64)  # this model does not think
    assert engine.asked.template_vars == {"date": "today", "tools": [1, 2], "x": True}
    engine.begin()
    engine.finish()
    dialogue.drain()
    dialogue.info = {**dialogue.info, "thinking": THINKING}
    assert dialogue.submit("Two")
    assert engine.asked.think == "low"
    assert replace(dialogue.about(), options=AnswerOptions(think="high")).request().get("think") is None
    assert variables(["a=", "b=no", "c=1.5", "d= x=y"]) == {"a": "", "b": "no", "c": 1.5, "d": " x=y"}


def test_drafts_that_a_server_counts_in_all_are_neither_the_thoughts_nor_the_answers() -> None:
    """vLLM tells how many of each pass were accepted, and at the end how many it drafted."""
    answer = Answer("ngram", "server")
    answer.add(StepRecord("ngram", [1, 2, 3], "Hm.", 0, 2, 1, spans=[[1, 3, 3]]))
    answer.add(StepRecord("ngram", [4, 5], "Hi", 0, 1, 1, spans=[[0, 2, 2]]))
    answer.figures.take_served({"certainty": "exact", "drafted": 12, "accepted": 3})
    answer.finish("eos", "")
    assert (answer.figures.drafted, answer.figures.acceptance) == (12, 0.25)
    thought, rest = answer.figures.thought, answer.figures.answer
    assert (thought.acceptance, rest.acceptance) == (None, None)
    assert (thought.accepted, rest.accepted) == (2, 1)
