"""The loop's own rules: limits, EOS, stops, cancellation, reuse between turns; totals over hand-made steps. The target is a
recorded transcript."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specchat.app.render.tree_rows import StepTree
from specchat.backends import Model, load_model
from specchat.decoders import Conversation, Generation, Stops, encode_prompt, generate
from specchat.decoders.stats import Totals
from specchat.decoders.step import StepRecord

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


def made(tokens: Sequence[int], **values: Any) -> StepRecord:
    """A step of 1.75 s."""
    return StepRecord(
        *("any", tokens),
        **{"draft_seconds": 0.25, "forward_seconds": 1.0, "other_seconds": 0.5, **values},
    )


def totals(*records: StepRecord) -> Totals:
    out = Totals()
    for record in records:
        out.add(record)
    return out


def test_an_empty_answer_divides_nothing() -> None:
    t = Totals()
    assert t.acceptance_rate == t.tokens_per_step == t.nodes_per_token == t.tokens_per_second == 0
    assert t.position_acceptance == []
    assert t.alpha == 0


def test_sums_and_ratios() -> None:
    t = totals(
        made((1, 2, 3), drafted=4, accepted=2, nodes=5),
        made((4,), drafted=4, accepted=0, nodes=5),
        made((5,)),
        made((6, 7, 8), drafted=2, accepted=2, nodes=3),
    )
    assert (t.steps, t.tokens, t.drafted, t.accepted, t.nodes) == (4, 8, 10, 4, 14)
    assert t.runs == [3, 1, 1, 3]
    assert t.acceptance_rate == 0.4
    assert t.tokens_per_step == 2
    assert t.nodes_per_token == 14 / 8
    assert t.seconds == 7
    assert t.tokens_per_second == 8 / 7
    # Three steps drafted a first token, two of them had it accepted; one of the two drafted a third token, refused.
    assert t.drafted_at == [3, 2, 1]
    assert t.accepted_at == [2, 2, 0]
    assert t.position_acceptance == [2 / 3, 1, 0]
    assert t.alpha == 4 / 6


def timed(nodes: int, run: int, draft: float = 0.0, forward: float | None = None) -> StepRecord:
    """A chain of `nodes - 1` draft tokens whose pass costs 10 + 1 per node, unless told."""
    seconds = 10 + nodes if forward is None else forward
    counts = {"drafted": nodes - 1, "accepted": run - 1, "nodes": nodes}
    took = {"draft_seconds": draft, "forward_seconds": seconds, "other_seconds": 0.0}
    return made(range(run), **counts, **took, tree_parents=range(-1, nodes - 1), path=range(run))


def test_a_step_costs_what_a_line_through_the_plain_one_and_the_mean_says() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0), timed(9, 2, 4.0), timed(5, 5, 2.0))
    assert t.depth == 16
    assert t.draft_token_seconds == 0.5
    for nodes in (1, 3, 20):
        assert t.step_seconds(nodes, 11) == pytest.approx(10 + nodes)
    assert t.step_seconds(9, 99) == 99, "no pass takes less for being larger"
    assert totals(timed(1, 1)).step_seconds(9, 11) == 11, "one size tells nothing about others"
    assert Totals().step_seconds(3, 11) == 11


def test_the_speedup_is_that_over_plain_steps() -> None:
    t = totals(*[timed(5, 4, 2.0) for _ in range(50)], timed(1, 1))
    assert t.speedup(11) == pytest.approx((50 * 4 + 1) * 11 / (50 * 17 + 11))
    assert totals(timed(1, 1), timed(1, 1)).speedup(11) == pytest.approx(1)
    assert Totals().speedup(11) == 0


def test_the_formula_gives_the_measured_speedup_of_steady_drafts() -> None:
    t = totals(*[timed(5, 5, 2.0) for _ in range(9)])
    assert t.alpha == 1
    assert t.what_if(4, t.alpha, 11) == pytest.approx(t.speedup(11))


def test_what_if_follows_the_formula() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0))
    table = [[t.what_if(k, rate, 11) for rate in (0.0, 0.5, 1.0)] for k in (0, 1, 4)]
    assert table[0] == pytest.approx([1, 1, 1])
    assert table[1] == pytest.approx([11 / 12.5, 1.5 * 11 / 12.5, 2 * 11 / 12.5])
    assert table[2][2] == pytest.approx(5 * 11 / 17)
    assert Totals().what_if(1, 0.5, 0) == 0


def test_the_ratio_for_a_speedup_is_where_it_is_reached() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0))
    found = t.ratio_for(1.5, 0.8, 11)
    assert found is not None
    ratio, length = found
    assert t.what_if(length, 0.8, 11, ratio) == pytest.approx(1.5)
    best, gain = t.best_length(0.8, 11, ratio)
    assert gain == pytest.approx(1.5), "no other length does better there"
    assert best == length
    assert t.best_length(0.8, 11, ratio * 1.1)[1] < 1.5 < t.best_length(0.8, 11, ratio * 0.9)[1]
    assert t.ratio_for(2.0, 0.3, 11) is None, "at most 1 / (1 - 0.3) tokens a pass"
    assert Totals().ratio_for(2.0, 0.9, 0.0) is None


def test_a_position_counts_once_however_many_branches_it_has() -> None:
    # 0 ─ 1 ─ 3 ─ 4, and 0 ─ 2: node 2 is right and has nothing below it, so nothing was refused after it.
    tree = [-1, 0, 0, 1, 3]
    t = totals(made((6, 1), drafted=4, accepted=1, nodes=5, tree_parents=tree, path=(0, 2)))
    assert (t.drafted_at, t.accepted_at) == ([1], [1])
    t = totals(made((5, 1), drafted=4, accepted=1, nodes=5, tree_parents=tree, path=(0, 1)))
    assert (t.drafted_at, t.accepted_at) == ([1, 1], [1, 0])
    t = totals(made((1,), drafted=4, accepted=0, nodes=5, tree_parents=tree, path=(0,)))
    assert (t.drafted_at, t.accepted_at) == ([1], [0])
    t = totals(made((1,), tree_parents=[-1]))
    assert (t.drafted_at, t.accepted_at) == ([], [])


def test_a_pass_that_took_prompt_tokens_along_says_nothing_of_what_a_pass_costs() -> None:
    t = totals(made((1,), forward_seconds=0.01, prefilled=90), made((1,)), made((1,)))
    assert (t.timed, t.timed_tokens, t.timed_seconds) == (2, 2, 3.5)
    assert t.forward_seconds == 2.01
