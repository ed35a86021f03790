"""Hybrids of linear and full attention: chains verified on a cache that goes back a step, against transformers' own passes."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from specchat.backends.base import ROOT
from specchat.backends.sessions.chain import CATCH_UP
from specchat.errors import UserError

from ...fakes.drafters.mtp_files import HYBRIDS, Family, mtp_folder, mtp_target
from ...fakes.models.mirror import alike
from ...fakes.models.references import logits_of, network


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


def test_what_it_cannot_do_it_says() -> None:
    model = mtp_target("qwen3-next")
    able = model.info.capabilities
    assert (able.chain, able.tree, able.layers, able.states) == (True, False, False, True)
    assert "cannot branch, so methods draft chains only" in able.reasons["tree"]
    session = model.open_session(32)
    with pytest.raises(UserError, match="branching trees"):
        session.evaluate((5, 6), (ROOT, ROOT))
