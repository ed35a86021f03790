"""The loop's own rules: limits, EOS, stops, cancellation, reuse between turns. The target is a recorded transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.app.render.tree_rows import StepTree
from specchat.backends import Model, load_model
from specchat.decoders import Conversation, Generation, Stops, encode_prompt, generate

from ..fakes.records import recorded_model

PROMPT = "Say it again: the cat sat on the mat and the cat sat on the mat."
RESPONSE = "the cat sat on the mat and the cat sat on the mat. Then the dog came."


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return load_model(recorded_model(tmp_path, {PROMPT: RESPONSE}))


def text_of(generation: Generation) -> str:
    return "".join(step.text for step in generation) + generation.flush()


def test_a_stop_string_ends_the_answer_and_is_not_shown(model: Model) -> None:
    generation = generate(model, PROMPT, "lookup", stops=Stops(["mat and"]))
    assert text_of(generation) == "the cat sat on the "
    assert generation.finish_reason == "stop"
    assert model.decode(generation.answer).startswith("the cat sat on the mat")
    assert generation.totals.tokens == len(generation.answer)


@pytest.mark.parametrize("ending", [{"stops": Stops(["cat"])}, {"max_tokens": 5}], ids=["string", "limit"])
@pytest.mark.parametrize("method", ["lookup", "lookahead", "recycle", "beam"])
def test_every_step_counts_what_is_in_the_answer(builtin_model: Model, method: str, ending: dict[str, Any]) -> None:
    """What a pass accepted behind the answer's end was counted: 21 accepted of 15 tokens."""
    text = "Repeat this: the cat sat on the mat, the dog sat on the cat, the cat sat on the mat."
    prompt = encode_prompt(builtin_model, text)
    generation = Generation(Conversation(builtin_model), prompt, method, **ending)
    generation.recorder.on = True
    steps = list(generation)
    totals = generation.totals
    assert [token for step in steps for token in step.tokens] == generation.answer
    assert totals.tokens == len(generation.answer)
    for step in steps:
        tree, path = step.tree, step.path or (0,)
        led = [tree.tokens[node] for node in path[1:]]
        assert led == list(step.tokens[: len(led)])
        assert len(led) in (len(step.tokens), len(step.tokens) - 1)
        assert step.accepted <= min(len(led), step.drafted)
        assert all(0 <= parent < node for node, parent in enumerate(tree.parents[1:], 1))
        assert [tree.parents[node] for node in path] == [-1, *path[:-1]]
        assert not step.probs or len(step.probs) == len(tree)
        assert not step.tree_tokens or len(StepTree.of(step, 0).path) == len(step.path)
        if len(led) == len(step.tokens) and step.drafted:  # the answer ends here: nothing was refused behind it
            assert path[-1] not in tree.parents
    assert sum(totals.accepted_at) == totals.accepted
    if method != "beam":
        assert totals.accepted <= totals.tokens - totals.steps + 1


def test_a_second_turn_evaluates_only_what_is_new(model: Model) -> None:
    conversation = Conversation(model)
    first = Generation(conversation, encode_prompt(model, PROMPT))
    text = text_of(first)
    before = conversation.session.nodes_evaluated
    turns = [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "Once more, please."},
    ]
    prompt = encode_prompt(model, turns)
    second = Generation(conversation, prompt, max_tokens=1)
    assert second.reused >= len(encode_prompt(model, PROMPT)) - 1
    next(second)
    assert conversation.session.nodes_evaluated - before == len(prompt) - second.reused


@pytest.mark.parametrize("method", ["greedy", "lookup", "fusion", "lookahead"])
def test_the_first_pass_takes_the_prompt_along(model: Model, method: str) -> None:
    prompt = encode_prompt(model, PROMPT)
    conversation = Conversation(model)
    generation = Generation(conversation, prompt, method)
    first = generation.run_pass()
    assert first is not None
    assert first.prefilled == len(prompt) - 1
    assert first.nodes == len(first.tree)
    assert conversation.session.nodes_evaluated == len(prompt) - 1 + first.nodes
    assert conversation.session.length == len(prompt) - 1 + max(1, len(first.path))
    second = generation.run_pass()
    assert second is not None
    assert second.prefilled == 0
    # Of a prompt that the cache holds already only the last token is evaluated.
    again = Generation(conversation, prompt, method).run_pass()
    assert again is not None
    assert again.prefilled == 0


def test_a_method_that_works_in_the_cache_finds_the_prompt_there(model: Model) -> None:
    generation = generate(model, PROMPT, "recompute")
    assert generation.run_pass() is None
    assert generation.conversation.session.length == generation.prompt_tokens - 1
    first = generation.run_pass()
    assert first is not None
    assert first.prefilled == 0


@pytest.mark.parametrize("limit", [{"max_tokens": 16}, {"stops": Stops(["sat on"])}], ids=["length", "stop in a draft"])
def test_timed_plain_steps_are_undone(builtin_model: Model, limit: dict[str, Any]) -> None:
    conversation = Conversation(builtin_model)
    generation = Generation(conversation, encode_prompt(builtin_model, PROMPT), "lookup", **limit)
    list(generation)
    before = list(conversation.session.tokens)
    assert ("stops" in limit) == (len(before) > len(generation.tokens)), "the cache holds what the stop cut off"
    assert generation.plain_seconds(5, 9) > 0
    assert list(conversation.session.tokens) == before[: len(generation.tokens)]
