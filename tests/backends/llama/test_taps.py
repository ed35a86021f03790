"""Hidden states out of llama.cpp: each row is that of its own token, and transformers' on the same weights."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.llama import hidden_states
from specchat.backends.llama.model import load_llama
from specchat.backends.sessions.states import States

from ...fakes.models.llama_tiny import FLOAT32, VOCAB, gguf_of, needs_llama, reference, tiny_folder, tiny_llama
from .test_session import LlamaMirror

pytestmark = needs_llama

TAPS = (1, 0, 2, 1)
"""Before layers only, in no order and one twice; the tiny model has three."""
LAST = (3, 1)
"""With the state after the final norm."""


def hidden(network: Any, ids: list[int], taps: tuple[int, ...]) -> torch.Tensor:
    """What transformers calls the hidden states of a text [len(ids), taps × width]."""
    with torch.inference_mode():
        found = network(input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([found[tap][0] for tap in taps], 1)


def check(session: Any, taps: tuple[int, ...]) -> None:
    """All states of a session against transformers'."""
    ids = list(session.tokens)
    if ids:
        found = session.states(0, len(ids))
        torch.testing.assert_close(found, hidden(reference(), ids, taps), atol=2e-3, rtol=1e-3)


@pytest.fixture(autouse=True)
def few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.llama.model.sequences", lambda vocabulary: 10)


@pytest.mark.parametrize("taps", [TAPS, LAST])
@pytest.mark.parametrize("seed", range(4))
def test_states_follow_whatever_happens_to_the_nodes(taps: tuple[int, ...], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.sessions.states.FIRST_ROWS", 8)
    rng = random.Random(seed)
    some = [rng.randrange(8, VOCAB) for _ in range(200)]
    session: Any = tiny_llama().open_session(256, taps)
    mirror = LlamaMirror(session)
    mirror.prefill(some[: rng.choice((1, 40))])

    def compare() -> None:
        assert list(session.tokens) == mirror.committed
        check(session, taps)

    mirror.wander(rng, some, 12, compare)
    if mirror.found:
        mirror.compare()


def test_builds_and_architectures_that_cannot_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_states, "ARCHITECTURES", ("qwen3",))
    assert "llama models" in refused(gguf_of(tiny_folder()))
    monkeypatch.undo()
    monkeypatch.setattr(hidden_states, "GET_NAMES", ("llama_no_such_function",))
    hidden_states.layer_inputs.cache_clear()
    try:
        assert "This build of llama.cpp" in refused(gguf_of(tiny_folder()))
    finally:
        monkeypatch.undo()
        hidden_states.layer_inputs.cache_clear()


def test_states_that_are_not_what_they_seem_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def crooked(self: Any, tap: int, start: int, rows: torch.Tensor) -> None:
        write(self, tap, start, rows.flip(0))

    write = States.write
    monkeypatch.setattr(States, "write", crooked)
    model = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    with pytest.raises(UserError, match="were not this model's own"):
        model.open_session(64, (0,))
    assert not model.info.capabilities.states
    assert "were not this model's own" in model.info.capabilities.reasons["states"]
    model.open_session(64).prefill([5, 6, 7])
    model.close()


def refused(file: Path) -> str:
    """Why a loaded model opens no session with taps; everything else works."""
    model = load_llama(file, "tiny", FLOAT32)
    assert model.info.capabilities.tree
    assert not model.info.capabilities.states
    assert not model.info.notes
    with pytest.raises(UserError) as caught:
        model.open_session(64, (0,))
    session = model.open_session(64)
    session.prefill([5, 6, 7])
    assert len(session.evaluate([8], (ROOT,)).top(1)) == 1
    model.close()
    return str(caught.value)
