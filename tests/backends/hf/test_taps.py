"""Hidden states at a session's taps: whatever happened before, those of the committed tokens are transformers' own."""

from __future__ import annotations

import copy
import functools
import random
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.base import Block
from specchat.backends.hf.model import load_transformers
from specchat.backends.options import LoadOptions
from specchat.backends.sessions.states import States

from ...fakes.models.mirror import Mirror
from ...fakes.models.references import hidden
from ...fakes.models.tiny import TREES, VOCAB, reference, tiny_folder, tiny_model

KINDS = ("llama", "gemma3", "gpt-neox")
"""The lean pass; sliding windows and scaled embeddings; blocks side by side and another final norm."""
TAPS = (1, 0, 3, 2, 1)
"""In no order and one twice; the tiny models have three layers."""


@functools.cache
def network(kind: str) -> Any:
    """A model of its own: asked for hidden states, transformers leaves hooks in it for ever."""
    return copy.deepcopy(reference(kind))


def check(session: Any, kind: str) -> None:
    """All states of a session against transformers'."""
    ids = list(session.tokens)
    if ids:
        torch.testing.assert_close(session.states(0, len(ids)), hidden(network(kind), ids, TAPS), atol=1e-3, rtol=1e-3)


def some(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(4, VOCAB) for _ in range(count)]


def opened(kind: str) -> Any:
    return tiny_model(kind).open_session(taps=TAPS)


@pytest.mark.parametrize("kind", TREES)
def test_every_family_hands_out_its_states(kind: str) -> None:
    assert tiny_model(kind).info.capabilities.states
    session, ids = opened(kind), some(60)
    session.prefill(ids[:50])
    # Two branches of which the second goes on: its rows lie apart.
    session.evaluate([ids[50], 9, 8, ids[51]], (ROOT, 0, ROOT, 0))
    session.evaluate([7, ids[52]], (1, 3), ())
    session.commit((0, 3), keep=(5,))
    session.commit((5,))
    assert list(session.tokens) == ids[:53]
    check(session, kind)
    assert torch.equal(session.states(50, 52), session.states(0, 53)[50:52])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_states_follow_whatever_happens_to_the_nodes(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.sessions.states.FIRST_ROWS", 8)
    mirror, rng = Mirror(opened(kind)), random.Random(seed)
    monkeypatch.setattr("specchat.backends.base.PREFILL_CHUNK", 16)
    mirror.prefill(some(rng.choice((1, 40)), seed))

    def compare() -> None:
        assert list(mirror.session.tokens) == mirror.committed
        check(mirror.session, kind)

    mirror.wander(rng, some(200, seed), 12, compare)


@pytest.mark.parametrize("kind", KINDS)
def test_passes_that_stop_early_leave_true_states(kind: str) -> None:
    session, ids = opened(kind), some(60)
    session.prefill(ids[:40])
    session.evaluate(ids[40:43], (ROOT, 0, 1), layers=1)
    session.evaluate([3, ids[43]], (0, 2), layers=2)
    session.evaluate([ids[44]], (4,))
    session.commit((0, 1, 2, 4, 5))
    assert list(session.tokens) == ids[:45]
    check(session, kind)
    # Layers left out in the middle, and half a layer: what these nodes passed through meanwhile is not theirs.
    session.evaluate(ids[45:47], (ROOT, 0), layers=(0, 2))
    session.evaluate([ids[47]], (1,), layers=(0, Block(2, "attention")))
    session.evaluate((), ())
    session.commit((0, 1, 2))
    check(session, kind)


def test_a_tapped_session_changes_no_logits_and_no_other_session() -> None:
    plain, tapped = tiny_model("llama").open_session(), opened("llama")
    ids = some(20)
    for session in (plain, tapped):
        session.prefill(ids)
    torch.testing.assert_close(plain.evaluate([5], (ROOT,)).logits, tapped.evaluate([5], (ROOT,)).logits)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="no taps"):
        plain.states(0, 1)
    plain.commit((0,))
    tapped.commit((0,))
    check(tapped, "llama")


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
