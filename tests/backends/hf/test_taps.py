"""Hidden states at a session's taps: whatever happened before, those of the committed tokens are transformers' own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.hf.model import load_transformers
from specchat.backends.options import LoadOptions
from specchat.backends.sessions.states import States

from ...fakes.models.tiny import VOCAB, tiny_folder, tiny_model

TAPS = (1, 0, 3, 2, 1)
"""In no order and one twice; the tiny models have three layers."""


def some(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(4, VOCAB) for _ in range(count)]


def opened(kind: str) -> Any:
    return tiny_model(kind).open_session(taps=TAPS)


def test_what_is_not_committed_has_no_states() -> None:
    session = opened("llama")
    assert session.states(0, 0).shape == (0, 5 * 32)
    session.prefill(some(10))
    session.evaluate([5], (ROOT,))
    for first, end in ((0, 11), (-1, 3), (5, 4)):
        with pytest.raises(ValueError, match="not all committed"):
            session.states(first, end)


def test_a_model_whose_states_are_not_what_they_seem_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def crooked(self: Any, tap: int, start: int, rows: torch.Tensor) -> None:
        write(self, tap, start, rows.flip(0))

    write = States.write
    monkeypatch.setattr(States, "write", crooked)
    model = load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu"))
    with pytest.raises(UserError, match="were not this model's own"):
        model.open_session(taps=(0,))
    assert not model.info.capabilities.states
    assert model.info.capabilities.tree
    assert "were not this model's own" in model.info.capabilities.reasons["states"]
    monkeypatch.undo()
    with pytest.raises(UserError, match="were not this model's own"):  # it is not tried again
        model.open_session(taps=(0,))
    model.open_session().prefill(some(3))
    model.close()
