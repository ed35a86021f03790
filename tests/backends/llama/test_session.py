"""Token trees in llama.cpp's cache: whatever happened before, each node has the logits of its linear path."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from specchat.backends import ROOT, ContextFull, UserError
from specchat.backends.llama.context import Weights
from specchat.backends.llama.session import LlamaSession

from ...cases import cases
from ...fakes.models.llama_tiny import VOCAB, linear, needs_llama, tiny_llama
from ...fakes.models.mirror import Mirror

pytestmark = needs_llama

SEQUENCES = 10
"""Few ids, so that they run short."""
TOLERANCE = 1e-3


@pytest.fixture(autouse=True)
def few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.llama.model.sequences", lambda vocabulary: SEQUENCES)


def open_session(context: int = 256) -> LlamaSession:
    session = tiny_llama().open_session(context)
    assert isinstance(session, LlamaSession)
    return session


class LlamaMirror(Mirror):
    """A session of llama.cpp beside it; all logits are compared in one go."""

    def __init__(self, session: LlamaSession) -> None:
        super().__init__(session)
        self.texts: list[list[int]] = []
        self.found: list[torch.Tensor] = []
        """What has been evaluated, and the logits after it."""

    def evaluate(
        self, ids: list[int], parents: list[int], rows: list[int] | None = None
    ) -> list[tuple[list[int], torch.Tensor]]:
        """Evaluate nodes, unless they are too many leaves."""
        inner = set(parents)
        leaves = sum(i not in inner and not any(p == i for _, p in self.nodes.values()) for i in self.nodes)
        leaves += sum(self.next + i not in inner for i in range(len(ids)))
        if leaves > SEQUENCES:
            with pytest.raises(UserError, match="leaves"):
                self.session.evaluate(ids, parents, rows)
            return []
        found = super().evaluate(ids, parents, rows)
        self.texts += [text for text, _ in found]
        self.found += [logits.clone() for _, logits in found]
        return found

    def compare(self) -> None:
        """All logits so far against those of fresh linear passes, in one go."""
        torch.testing.assert_close(torch.stack(self.found), linear(self.texts), atol=TOLERANCE, rtol=TOLERANCE)

    def check(self) -> None:
        """llama.cpp's own account of each id against ours."""
        session: Any = self.session
        assert list(session.tokens) == self.committed
        book, run = session._sequences, session._run
        assert set(book.nodes) == set(self.nodes)
        last = run.lib.llama_memory_seq_pos_max
        assert [last(run._memory, k) for k in range(len(book._at))] == [book.position(end) for end in book._at]
        assert not any(last(run._memory, k) >= 0 for k in range(len(book._at), SEQUENCES))
        for number, node in book.nodes.items():
            holders = {k for k, end in enumerate(book._at) if end != ROOT and number in self.line(end)}
            assert node.holders == sum(1 << k for k in holders)
            assert holders


@cases(1000, 150, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_a_thousand_random_sequences_leave_the_cache_as_a_fresh_evaluation(seed: int) -> None:
    session, rng = shared(), random.Random(seed)
    session.rewind(0)
    mirror = LlamaMirror(session)
    mirror.play(rng, [rng.randrange(8, VOCAB) for _ in range(400)], rng.randint(3, 7), mirror.check)
    mirror.compare()


_shared: list[LlamaSession] = []


def shared() -> LlamaSession:
    """One session for all examples: opening one takes longer than most of them, and each meets what the last left behind."""
    if not _shared:
        _shared.append(open_session())
    return _shared[0]


def test_ids_come_back_and_move_to_where_they_are_needed() -> None:
    mirror = LlamaMirror(open_session())
    mirror.prefill(list(range(10, 40)))
    for _ in range(3):
        # All ids in one tree …
        mirror.evaluate(list(range(50, 50 + SEQUENCES)), [ROOT] * SEQUENCES)
        mirror.drop(list(range(1, SEQUENCES)))
        mirror.check()
        # … then all below one of its nodes.
        mirror.evaluate(list(range(70, 70 + SEQUENCES)), [0] * SEQUENCES)
        mirror.check()
        mirror.commit([0, 4], [])
        mirror.check()
    mirror.compare()


def test_more_leaves_than_ids_are_refused_and_nothing_changes() -> None:
    mirror = LlamaMirror(open_session())
    mirror.prefill([5, 6, 7])
    mirror.evaluate([8, 9], [ROOT, ROOT])
    mirror.evaluate([9] * SEQUENCES, [0] * SEQUENCES)
    mirror.check()
    mirror.evaluate([10, 11], [0, 1])
    mirror.check()
    mirror.compare()


def test_a_full_context_is_refused_and_nothing_changes() -> None:
    mirror = LlamaMirror(open_session(10))
    mirror.prefill([5, 6, 7, 8])
    mirror.evaluate([9, 10, 11], [ROOT, ROOT, 0])
    with pytest.raises(ContextFull, match="do not fit"):
        mirror.session.evaluate([1, 2, 3, 4], [ROOT] * 4)
    with pytest.raises(ContextFull, match="The prompt has"):
        mirror.session.prefill([1] * 7)
    mirror.evaluate([9, 10, 11], [2, 3, 4])
    mirror.check()
    mirror.compare()


def test_a_pass_that_fails_leaves_the_session_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = LlamaMirror(open_session())
    mirror.prefill([5, 6, 7])
    mirror.evaluate([8, 9], [ROOT, ROOT])
    run: Any = mirror.session._run
    decode = run.decode

    def fail(*args: Any) -> int:
        decode(*args)
        return -3

    monkeypatch.setattr(run, "decode", fail)
    with pytest.raises(UserError, match="could not evaluate"):
        mirror.session.evaluate([10, 11, 12], [0, 0, ROOT])
    monkeypatch.undo()
    mirror.check()
    mirror.evaluate([13, 14], [0, 1])
    mirror.check()
    mirror.compare()


def test_what_is_open_when_python_ends_is_left_to_the_process() -> None:
    weights: Any = Weights.__new__(Weights)
    weights.handle, weights.lib = 1, None  # llama.cpp's module is gone
    weights.__del__(lambda: True)
    assert weights.handle == 1
    weights.handle = None
