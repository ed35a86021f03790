"""Scores over a torch tensor, against the plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.backends.base import Sampling
from specchat.backends.scores import TorchScores


def scores(logits: torch.Tensor) -> TorchScores:
    rows = range(logits.shape[0])
    return TorchScores(logits, tuple(rows), tuple(10 + i for i in rows))


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 400]), st.integers(1, 60), st.booleans())
@settings(max_examples=100, deadline=None)
def test_top_is_the_sorted_log_softmax(seed: int, vocab: int, k: int, coarse: bool) -> None:
    logits = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed)) * 3
    logits = logits.bfloat16() if coarse else logits
    for line, top in zip(logits.float(), scores(logits).top(k), strict=True):
        logp = line.log_softmax(-1).tolist()
        expected = sorted(range(vocab), key=lambda i: (-line[i].item(), i))[:k]
        assert [i for i, _ in top] == expected
        assert [p for _, p in top] == pytest.approx([logp[i] for i in expected], abs=1e-5)


def test_probs_and_gap() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, -2.0], [0.0, 0.0, 1.0, 5.0]], dtype=torch.bfloat16)
    s = scores(logits)
    probs = s.probs(0)
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, logits[0].float().softmax(-1).numpy(), rtol=1e-6)
    np.testing.assert_allclose(s.probs(0, Sampling(temperature=1, top_k=1)), [0, 0.5, 0.5, 0])
    np.testing.assert_allclose(s.probs(0, Sampling()), [0, 1, 0, 0])
    np.testing.assert_allclose(s.probs(0, Sampling(repetition_penalty=2), [1]), [0, 0, 1, 0])
    assert s.gap(0, 1) == s.gap(0, 2) == 0
    assert s.gap(1, 2) == 4


def test_choice_is_keyed_by_position() -> None:
    flat = torch.zeros(2, 1000)
    sampling = Sampling(temperature=1, seed=3)
    first, second = scores(flat).choose(sampling)
    assert first != second
    assert TorchScores(flat[:1], (7,), (11,)).choose(sampling) == [second]


def test_no_rows() -> None:
    none = TorchScores(torch.zeros(0, 9), (), ())
    assert none.choose(Sampling()) == none.choose(Sampling(temperature=1)) == []
    assert none.top(3) == []
    with pytest.raises(ValueError, match="rows"):
        TorchScores(torch.zeros(2, 9), (0,), (0,))
