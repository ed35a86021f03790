"""Rows of an answer with a thought: however it came and was opened and folded, the rows are the same."""

from __future__ import annotations

import pytest

from specchat.app.chat.entries import Answer
from specchat.app.render.blocks import TAIL, EntryBlock
from specchat.app.render.runs import beside, outermost, place_of, run_at
from specchat.app.render.thoughts import Thoughts
from specchat.engine.messages import StepRecord

from ...fakes.thoughts import THOUGHT, thinking_steps

TEXT = "It looks for the last few tokens earlier in the text.\n\nThat is all."


def rows(block: EntryBlock) -> list[tuple[str, str]]:
    return [(f"{row.kind}{'|' * row.thought}{row.sign}", row.text) for row in map(block.row, range(block.height))]


def grown(steps: list[StepRecord], thoughts: Thoughts = "folded", reason: str | None = "eos") -> EntryBlock:
    """A block that took in one step at a time; before each change rows were as they are said to have stayed."""
    answer = Answer("lookup", "identical")
    block = EntryBlock(answer, 40, thoughts=thoughts)
    for step in steps:
        before, versions = rows(block), [block.version(i) for i in range(block.height)]
        answer.add(step)
        first = block.update()
        now = rows(block)
        if first is not None:
            assert now[:first] == before[:first]
        for i, (old, new) in enumerate(zip(before, now, strict=False)):
            assert old == new or versions[i] != block.version(i), "a row that changed is taken from the cache"
    if reason is not None:
        answer.finish(reason)
        block.update()
    return block


def test_open_while_it_is_written_then_a_line() -> None:
    steps = thinking_steps(THOUGHT, TEXT)
    thought = [step for step in steps if step.spans[-1][0]]
    writing = grown(thought, reason=None)
    assert writing.row(0).text.startswith("Thinking ")
    assert writing.text_rows == 1 + TAIL
    assert all(writing.row(i).thought for i in range(1, 1 + TAIL))
    assert writing.row(TAIL).last
    done = grown(steps)
    assert done.row(0).text.startswith("Thought for ")
    assert done.row(0).sign == "▸"
    assert [row[1] for row in rows(done)[1:4]] == ["It looks for the last few tokens earlier", "in the text.", ""]
    done.fold(True)
    shown = "".join(row.text for row in map(done.row, range(done.text_rows)) if row.thought)
    assert shown.replace(" ", "") == THOUGHT.replace("\n", "").replace(" ", "")
    assert done.opened
    done.fold(False)
    assert rows(done) == rows(grown(steps))


@pytest.mark.parametrize("thoughts", ["open", "folded", "hidden"])
@pytest.mark.parametrize("seed", range(8))
def test_growing_equals_taking_in_at_once(thoughts: Thoughts, seed: int) -> None:
    twice = thinking_steps("First.\nThen", "Well,", seed=seed) + thinking_steps(THOUGHT, TEXT, seed=seed + 1)
    answer = Answer("lookup", "identical")
    for step in twice:
        answer.add(step)
    answer.finish("eos")
    at_once = EntryBlock(answer, 40, thoughts=thoughts)
    at_once.update()
    assert rows(grown(twice, thoughts)) == rows(at_once)
    kinds = [kind for kind, _ in rows(at_once)]
    assert kinds.count("thought▾") == (2 if thoughts == "open" else 0)
    assert ("answer|" in kinds) == (thoughts == "open")


def test_a_thought_that_is_not_closed_is_never_hidden() -> None:
    steps = thinking_steps(THOUGHT, "", closed=False)
    block = grown(steps, "hidden", "length")
    assert block.row(0).text.startswith("Thought for ")
    assert "s, not finished" in block.row(0).text
    assert block.row(0).styles == ("warning",)
    told = " ".join(row.text for row in map(block.row, range(block.height)) if row.kind == "figures")
    assert "Token limit in the middle of the thought" in told


def test_the_cursor_goes_where_runs_can_be_seen() -> None:
    block = grown(thinking_steps(THOUGHT, TEXT))

    def stops() -> list[int]:
        out, spot = [], outermost([block], -1)
        while spot is not None:
            out.append(spot.run)
            place = place_of(block, spot.run)
            assert place is not None
            if place.seen:
                assert run_at(block, place.first, place.cell) == spot.run
            spot = beside([block], spot, 1)
        return out

    folded = stops()
    block.fold(True)
    assert len(stops()) > len(folded) > 1
    assert stops()[-len(folded) :] == folded


def test_a_model_that_does_not_think_is_as_ever() -> None:
    steps = [StepRecord("lookup", [1], "\n\n  Hello\n"), StepRecord("lookup", [2], "there", spans=[[0, 5, 1]])]
    block = grown(steps)
    assert [row[1] for row in rows(block)[:4]] == ["", "", "  Hello", "there"]
