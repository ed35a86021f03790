"""The compact log gives back what it took, and tokens have text that is safe to show."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.entries import Answer, StepLog
from specchat.app.chat.pieces import Pieces
from specchat.engine.messages import StepRecord

seconds = st.floats(0, 10, width=32)
ids = st.integers(0, 200_000)
counts = st.integers(0, 64)


@st.composite
def records(draw: st.DrawFn) -> StepRecord:
    size = draw(st.integers(0, 12))
    return StepRecord(
        draw(st.sampled_from(["lookup", "greedy", "tree"])),
        draw(st.lists(ids, min_size=1, max_size=6)),
        "",
        draw(counts),
        draw(counts),
        draw(counts),
        draw(seconds),
        draw(seconds),
        draw(seconds),
        draw(st.lists(ids, min_size=size, max_size=size)),
        [draw(st.integers(-1, max(0, node - 1))) for node in range(size)],
        draw(st.lists(st.integers(0, 12), max_size=4)),
        draw(st.integers(0, 3)),
        draw(st.lists(st.floats(0, 1, width=32), max_size=12)),
        draw(st.sampled_from(["", "lookup is off: it loses"])),
        draw(st.sampled_from([0, 0, 40])),
        draw(st.sampled_from([0, 0, 2])),
        ahead=draw(st.sampled_from([0, 0, 5])),
        wasted=draw(st.sampled_from([0, 0, 3])),
    )


@given(st.lists(records(), max_size=20))
def test_a_log_gives_back_every_step(steps: list[StepRecord]) -> None:
    log = StepLog()
    for step in steps:
        log.append(step)
    assert list(log) == steps
    assert log.tokens.tolist() == [token for step in steps for token in step.tokens]
    for i, step in enumerate(steps):
        assert log.seconds(i) == pytest.approx(step.draft_seconds + step.forward_seconds + step.other_seconds, rel=1e-6)


def test_there_is_no_step_before_the_first_or_after_the_last() -> None:
    log = StepLog()
    log.append(StepRecord("greedy", [1], "a"))
    for index in (-1, 1):
        with pytest.raises(IndexError):
            log.record(index)


def test_an_answer_counts_what_the_decoders_count() -> None:
    answer = Answer("lookup", "identical")
    tree = StepRecord("lookup", [5, 6, 7], "abc", 4, 2, 5, 0.001, 0.03, 0.0, [4, 5, 6, 9, 8], [-1, 0, 1, 1, 0], [0, 1, 2])
    answer.add(tree)
    answer.add(StepRecord("greedy", [1], "d", 0, 0, 1, 0.0, 0.02, 0.0))
    assert (answer.totals.steps, answer.totals.tokens, answer.totals.nodes) == (2, 4, 6)
    # The third token of the draft was never offered: nothing hangs below the last accepted node.
    assert answer.totals.position_acceptance == [1.0, 1.0]
    assert list(answer.by_method) == ["lookup", "greedy"]
    assert answer.by_method["greedy"].seconds == pytest.approx(0.02, rel=1e-6)
    kept = answer.log.record(0)
    assert kept == replace(tree, text="", draft_seconds=_f32(0.001), forward_seconds=_f32(0.03))


def _f32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def test_pieces_are_safe_and_unknown_ones_show_their_number() -> None:
    pieces = Pieces([" the", "\n", "\x1b[2J", "", "\u202e"])
    assert [pieces.text(i) for i in range(6)] == [" the", "⏎", "␛[2J", "⟨3⟩", "\\u202e", "⟨5⟩"]
    assert pieces.raw(2) == "\x1b[2J"
    assert Pieces().text(7) == "⟨7⟩"
