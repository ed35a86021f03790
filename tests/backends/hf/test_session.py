"""What a transformers session promises beside right logits: limits, reuse between turns, cancellation, harmless errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specchat.backends import ROOT, ContextFull, Sampling, UserError
from specchat.backends.hf.runner import out_of_memory

from ...fakes.models.tiny import CONTEXT, TREES, tiny_model

GREEDY = Sampling()


def opened(context: int | None = None, kind: str = "llama") -> Any:
    """A new session on a tiny model."""
    return tiny_model(kind).open_session(context)


def test_second_turn_prefills_only_what_is_new() -> None:
    session = opened()
    first = list(range(10, 70))
    session.prefill(first)
    assert session.nodes_evaluated == len(first)
    second = [*first[:50], *range(100, 130)]
    shared = session.align(second)
    assert shared == 50
    session.prefill(second[shared:])
    assert session.nodes_evaluated == len(first) + 30
    assert list(session.tokens) == second
    assert session.forward_seconds > 0


def test_context_full_leaves_the_session_intact() -> None:
    session, other = opened(16), opened(16)
    session.prefill(range(10, 22))
    other.prefill(range(10, 22))
    session.evaluate([5, 6, 7], (ROOT, 0, 0), ())
    with pytest.raises(ContextFull, match="16"):
        session.evaluate([8, 9], (1, 2))
    with pytest.raises(ContextFull, match="16"):
        session.prefill(range(5))
    assert session.length == 12
    # The nodes are alive still, and the last free slot can be used.
    found = session.evaluate([8], (2,))
    assert found.nodes == (3,)
    other.evaluate([5, 7], (ROOT, 0), ())
    torch.testing.assert_close(found.logits, other.evaluate([8], (1,)).logits, atol=1e-4, rtol=1e-4)
    session.commit((0, 2, 3))
    assert session.length == 15


@pytest.mark.parametrize("kind", TREES[::3])
def test_whole_context_can_be_used(kind: str) -> None:
    session = opened(kind=kind)
    session.prefill([10 + i % 200 for i in range(CONTEXT - 1)])
    assert len(session.evaluate([5], (ROOT,)).choose(GREEDY)) == 1
    session.commit((0,))
    with pytest.raises(ContextFull):
        session.evaluate([5], (ROOT,))


def test_wrong_calls_are_told_and_change_nothing() -> None:
    session = opened()
    session.prefill(range(10, 20))
    session.evaluate([5, 6], (ROOT, 0), ())
    with pytest.raises(ValueError, match="not alive"):
        session.evaluate([7], (9,))
    with pytest.raises(ValueError, match="not all of this pass"):
        session.evaluate([7], (0,), (0,))
    with pytest.raises(ValueError, match="2 tokens with 1"):
        session.evaluate([7, 8], (0,))
    with pytest.raises(ValueError, match="not a chain"):
        session.commit((1,))
    with pytest.raises(ValueError, match="cannot rewind"):
        session.rewind(11)
    with pytest.raises(UserError, match="layers"):
        session.evaluate([7], (0,), layers=3)
    assert session.evaluate([7], (1,)).nodes == (2,)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"),
    ],
)
def test_out_of_memory_is_a_sentence_and_the_session_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    assert out_of_memory(error)
    session = opened()
    session.prefill(range(10, 20))
    session.evaluate([5], (ROOT,), ())

    def fail(**_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(session, "_forward", fail)
        with pytest.raises(UserError, match="not enough memory"):
            session.evaluate([6, 7], (0, 0))
    assert session.nodes_evaluated == 11
    found = session.evaluate([6, 7], (0, 0))
    assert found.nodes == (1, 2)
    fresh = opened()
    fresh.prefill([*range(10, 20), 5])
    torch.testing.assert_close(found.logits[1], fresh.evaluate([7], (ROOT,)).logits[0], atol=1e-4, rtol=1e-4)
