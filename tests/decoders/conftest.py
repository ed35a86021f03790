"""Fixtures of the decoders' tests: what passes were measured to take decides about drafts, and must not decide about tests."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest

from specchat.decoders.methods import draft, early_exit
from specchat.decoders.methods.trained import eagle
from specchat.decoders.parts.costs import PassCosts


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test begins with what another one's passes took."""
    for module, table in ((early_exit, "_experience"), (draft, "_experience"), (eagle, "_experience")):
        monkeypatch.setattr(module, table, WeakKeyDictionary())


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take what they take on an idle machine: how much is foreseen at once depends on that, and so do the passes."""
    learn = PassCosts.learn
    monkeypatch.setattr(PassCosts, "learn", lambda costs, nodes, _: learn(costs, nodes, 1e-3 + 5e-5 * nodes))
