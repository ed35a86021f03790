"""Fixtures of the decoders' tests: what passes were measured to take decides about drafts, and must not decide about tests."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import pytest

from specchat.decoders.base import Verified
from specchat.decoders.methods import draft, early_exit
from specchat.decoders.methods.early_exit import EarlyExit
from specchat.decoders.methods.trained import eagle
from specchat.decoders.parts.costs import PassCosts


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test begins with what another one's passes took."""
    for module, table in ((early_exit, "_known"), (draft, "_worth"), (eagle, "_worth")):
        monkeypatch.setattr(module, table, WeakKeyDictionary())


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take what they take on an idle machine: how much is foreseen at once, and which depth is the fastest, depends on
    that, and so do the passes."""
    learn, learn_depth = PassCosts.learn, EarlyExit.learn

    def learn_idle_depth(drafter: EarlyExit, verified: Verified) -> None:
        if drafter._depth is not None:
            drafter._depth.proposer.seconds = [5e-4] * len(drafter._depth.proposer.seconds)
        seconds = verified.forward_seconds and 1e-3 + 5e-5 * len(verified.tree)
        learn_depth(drafter, replace(verified, forward_seconds=seconds))

    monkeypatch.setattr(PassCosts, "learn", lambda costs, nodes, _: learn(costs, nodes, 1e-3 + 5e-5 * nodes))
    monkeypatch.setattr(EarlyExit, "learn", learn_idle_depth)
