"""Runs, figures and the messages that the model is told."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.about import variables
from specchat.app.chat.answer_json import answer_json
from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Figures, Notice, Prompt, StepLog
from specchat.app.chat.runs import Pieces
from specchat.app.chat.transcript import Transcript
from specchat.engine.catalog import Share
from specchat.engine.messages import Failed, Finished, Prefilling, ServedFigures, Started, StepRecord, Steps, Switched
from specchat.engine.options import AnswerOptions

from ...cases import cases
from ...fakes.thoughts import THINKING, THOUGHT, thinking_steps


def answer_of(*runs: tuple[int, str], method: str = "lookup") -> Answer:
    answer = Answer(method, "identical")
    for count, text in runs:
        answer.add(StepRecord(method, list(range(count)), text, drafted=6, accepted=count - 1, nodes=7, forward_seconds=0.1))
    return answer


@pytest.mark.parametrize(
    ("texts", "shades"),
    [
        (("one", " two", " three\n", "four"), [0, 0, 0, 0]),
        (("on", "e t", "wo", " three"), [0, 1, 0, 0]),
        (("one", "", "", "two"), [0, 0, 0, 1]),
    ],
    ids=["apart", "in the middle of words", "with nothing between them"],
)
def test_runs_that_touch_differ(texts: tuple[str, ...], shades: list[int]) -> None:
    assert [run.shade for run in answer_of(*((3, text) for text in texts)).runs] == shades


def test_live_speed_looks_back_a_second() -> None:
    figures = Figures()
    for _ in range(100):
        figures.add(StepRecord("lookup", [1], "", forward_seconds=0.1))
    for _ in range(11):
        figures.add(StepRecord("lookup", [1] * 5, "", forward_seconds=0.1))
    assert figures.recent_tokens_per_second == pytest.approx(50)
    assert figures.tokens_per_second < 20
    assert len(figures.recent) < 14


def test_an_answer_takes_what_the_engine_says() -> None:
    answer = Answer("greedy", "")
    answer.take(Started(1, "main", "lookup", "identical", 30, 10))
    answer.take(Prefilling(1, 20, 29, 0.1))
    assert (answer.method, answer.label, answer.prefill) == ("lookup", "identical", (20, 29))
    step = StepRecord("lookup", [1, 2], "ab", 4, 1, 5, draft_seconds=0.1, forward_seconds=0.3, ahead=3, wasted=2)
    answer.take(Steps(1, [step]))
    answer.take(Switched(1, "greedy", "lossy"))
    answer.take(Failed(1, "user", "Cannot switch.", ended=False))
    assert (answer.label, answer.done, answer.ending) == ("lossy", False, "")
    answer.take(Finished(1, "eos", "c", 0.25, 1.25))
    figures = answer.figures
    assert (figures.prompt_tokens, figures.reused, figures.prefill_seconds, figures.decode_seconds) == (30, 10, 0.25, 1.0)
    body = answer_json(answer)
    assert (body["text"], body["token_ids"], body["runs"]) == ("abc", [1, 2], [2])
    assert (body["method"], body["finish_reason"], body["draft_tokens"]) == ("lookup", "eos", 4)
    assert (body["ahead_tokens"], body["wasted_tokens"]) == (3, 2)
    assert body["tokens_per_second"] == pytest.approx(2 / 0.4)


@pytest.mark.parametrize(
    ("cause", "reason"), [("died", "died"), ("cancelled", "cancelled"), ("memory", "error"), ("bug", "error")]
)
def test_a_failure_ends_an_answer(cause: str, reason: str) -> None:
    answer = answer_of((2, "ab"))
    answer.take(Failed(1, cause, "It failed.", tail="c"))
    assert (answer.reason, answer.text, answer.through) == (reason, "abc", False)
    assert answer.severity == ("warning" if reason == "cancelled" else "error")


def test_messages() -> None:
    transcript = Transcript(system="Be brief.")
    answered, silent = answer_of((1, "Hello.")), Answer("greedy", "identical")
    transcript.entries = [Prompt("Hi"), answered, Notice("A notice"), Prompt("Unanswered"), silent, Prompt("Last")]
    assert transcript.messages() == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Last"},
    ]


def test_an_answer_whose_passes_turn_out_unknown_loses_its_colours() -> None:
    answer = Answer("server", "")
    answer.take(Started(1, "main", "server", "", 9, 0, certainty="exact"))
    answer.take(Steps(1, [StepRecord("server", [1, 2, 3], " the sea", drafted=4, accepted=2, nodes=5)]))
    assert (answer.runs[0].shade, answer.figures.tokens_per_step) == (0, 3.0)
    answer.take(Finished(1, "eos", "", 0.1, 0.2, served=ServedFigures("unknown", "It merged passes.", tokens=3)))
    assert (answer.runs[0].shade, answer.figures.tokens, answer.figures.tokens_per_step) == (-1, 3, 0.0)
    assert (answer.figures.drafted, answer.figures.accepted) == (0, 0)


def test_more_of_an_answer_is_one_answer_to_the_model() -> None:
    once, fox, more = answer_of((1, "Once")), answer_of((1, " upon")), answer_of((1, " a time"))
    messages = Transcript(
        [Prompt("Begin"), once, Prompt(""), fox, Prompt(""), more, Prompt("New"), answer_of((1, "x"))]
    ).messages()
    assert messages == [
        {"role": "user", "content": "Begin"},
        {"role": "assistant", "content": "Once upon a time"},
        {"role": "user", "content": "New"},
        {"role": "assistant", "content": "x"},
    ]
    waiting = Transcript([Prompt("Begin"), once, Prompt("")]).messages()
    assert waiting == [{"role": "user", "content": "Begin"}, {"role": "assistant", "content": "Once"}]


COUNTS = st.integers(0, 200_000)
RECORDS = st.builds(
    StepRecord,
    method=st.sampled_from(["lookup", "greedy"]),
    tokens=st.lists(COUNTS, min_size=1, max_size=6),
    text=st.just(""),
    accepted=COUNTS,
    forward_seconds=st.floats(0, 10, width=32),
    tree_tokens=st.lists(COUNTS),
    tree_parents=st.lists(st.integers(-1, 12)),
    probs=st.lists(st.floats(0, 1, width=32)),
    note=st.sampled_from(["", "lookup is off: it loses"]),
    wasted=COUNTS,
)


@cases(25)
@given(st.lists(RECORDS, max_size=20))
def test_a_log_gives_back_every_step(steps: list[StepRecord]) -> None:
    log = StepLog()
    for step in steps:
        log.append(step)
    assert list(log) == steps
    assert log.tokens.tolist() == [token for step in steps for token in step.tokens]


def test_pieces_are_safe_and_unknown_ones_show_their_number() -> None:
    pieces = Pieces([" the", "\n", "\x1b[2J", "", "\u202e"])
    assert [pieces.text(i) for i in range(6)] == [" the", "⏎", "␛[2J", "⟨3⟩", "\\u202e", "⟨5⟩"]
    assert pieces.raw(2) == "\x1b[2J"
    assert Pieces().text(7) == "⟨7⟩"


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
    thought, rest = answer.totals.thought, answer.figures.answer
    whole = Share(answer.figures.tokens, answer.figures.steps, answer.figures.decode_seconds, answer.figures.drafted,
                  answer.figures.accepted)  # fmt: skip
    both = thought.plus(rest)
    assert (both.tokens, thought.tokens) == (whole.tokens, sum(row[2] for step in steps for row in step.spans if row[0]))
    for name in ("passes", "seconds", "drafted", "accepted"):
        assert getattr(both, name) == pytest.approx(getattr(whole, name))
    assert thought.tokens_per_pass > 0
    figures = answer_json(answer)
    assert (figures["thought"]["text"], figures["answer"]["text"], figures["text"]) == (THOUGHT, TEXT, TEXT)
    assert figures["thought"]["tokens"] + figures["answer"]["tokens"] == figures["tokens"]
    assert figures["thought"]["passes"] + figures["answer"]["passes"] == pytest.approx(figures["steps"])


def test_a_pass_over_the_seam_is_shared_by_its_tokens() -> None:
    seam = StepRecord("lookup", [1, 2, 3, 4], "so. Yes", 6, 3, 7, forward_seconds=0.4, spans=[[1, 3, 2], [1, 0, 1], [0, 4, 1]])
    answer = written(seam)
    assert (answer.thought, answer.text) == ("so.", " Yes")
    assert astuple(answer.totals.thought) == pytest.approx((3, 0.75, 0.3, 4.5, 2.25))
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
    dialogue.info = replace(dialogue.info, thinking=THINKING)
    assert dialogue.submit("Two")
    assert engine.asked.think == "low"
    assert replace(dialogue.about(), options=AnswerOptions(think="high")).request()["think"] == ""
    assert variables(["a=", "b=no", "c=1.5", "d= x=y"]) == {"a": "", "b": "no", "c": 1.5, "d": " x=y"}
