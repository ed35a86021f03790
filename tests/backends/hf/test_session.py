"""What a transformers session promises beside right logits: limits, reuse between turns, cancellation, harmless errors; what
hybrids and taps need besides. Failures of a pass are patched in."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.backends import ROOT, Sampling, UserError
from specchat.backends.sessions.chain import CATCH_UP

from ...fakes.drafters.mtp_files import HYBRIDS, Family, mtp_target
from ...fakes.models.tiny import tiny_model

def test_wrong_calls_are_told_and_change_nothing() -> None:
    session: Any = tiny_model("llama").open_session()
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


def test_what_is_not_committed_has_no_states() -> None:
    session: Any = tiny_model("llama").open_session(taps=(1, 0, 3, 2, 1))
    assert session.states(0, 0).shape == (0, 5 * 32)
    session.prefill(range(10, 20))
    session.evaluate([5], (ROOT,))
    for first, end in ((0, 11), (-1, 3), (5, 4)):
        with pytest.raises(ValueError, match="not all committed"):
            session.states(first, end)
