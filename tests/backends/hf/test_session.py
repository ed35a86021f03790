"""What a transformers session promises beside right logits: limits, reuse between turns, cancellation, harmless errors; what
hybrids and taps need besides. Failures of a pass are patched in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specchat.backends import ROOT, ContextFull, Sampling, UserError
from specchat.backends.hf.runner import out_of_memory
from specchat.backends.sessions.chain import CATCH_UP

from ...fakes.drafters.mtp_files import HYBRIDS, Family, mtp_folder, mtp_target
from ...fakes.models.mirror import alike
from ...fakes.models.references import logits_of, network
from ...fakes.models.tiny import tiny_model

GREEDY = Sampling()


def opened(context: int | None = None, kind: str = "llama") -> Any:
    """A new session on a tiny model."""
    return tiny_model(kind).open_session(context)


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


@pytest.mark.parametrize("family", HYBRIDS)
def test_a_refused_draft_costs_its_accepted_tokens_again_and_nothing_else(family: Family) -> None:
    model, passes = mtp_target(family), []
    session = model.open_session(256)
    hook = model.module.register_forward_pre_hook(
        lambda _module, _args, named: passes.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        session.prefill(range(5, 65))
        for step in range(3):
            session.evaluate(range(70, 75), range(ROOT, 4))
            session.commit((0, 1))
            assert passes == [60, 5, 7, 9][: step + 2]
        # What has added up goes in alone, so that the next refused draft is cheap again.
        for _ in range(CATCH_UP):
            session.evaluate(range(70, 75), range(ROOT, 4))
            session.commit((0, 1))
        assert max(passes[1:]) <= CATCH_UP + 5
        assert passes.count(5) > 1
        # A chain that is taken whole leaves nothing to do.
        session.evaluate(range(70, 73), range(ROOT, 2))
        session.commit((0, 1, 2))
        del passes[:]
        session.evaluate((80,), (ROOT,))
        session.commit((0,))
        session.evaluate((81, 82), (ROOT, 0))
        assert passes == [1, 2]
    finally:
        hook.remove()
        session.close()


@pytest.mark.parametrize("family", HYBRIDS)
def test_a_pass_that_fails_loses_nothing(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    session = mtp_target(family).open_session(64)
    session.prefill(range(5, 25))
    session.evaluate(range(70, 75), range(ROOT, 4))
    session.commit((0,))
    layer = mtp_target(family).module.model.layers[-1].mlp

    def broken(*_: Any, **__: Any) -> Tensor:
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(layer, "forward", broken)
        with pytest.raises((UserError, RuntimeError)):
            session.evaluate((80, 81), (ROOT, 0))
    found: Any = session.evaluate((80, 81), (ROOT, 0))
    alike(found.logits, logits_of(network(mtp_folder(family)), [*range(5, 25), 70, 80, 81])[-2:])


def test_what_is_not_committed_has_no_states() -> None:
    session: Any = tiny_model("llama").open_session(taps=(1, 0, 3, 2, 1))
    assert session.states(0, 0).shape == (0, 5 * 32)
    session.prefill(range(10, 20))
    session.evaluate([5], (ROOT,))
    for first, end in ((0, 11), (-1, 3), (5, 4)):
        with pytest.raises(ValueError, match="not all committed"):
            session.states(first, end)
