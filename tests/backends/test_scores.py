"""Scores over a torch tensor, against the plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.base import Sampling
from specchat.backends.scores import TorchScores

from ..cases import cases


def scores(logits: torch.Tensor) -> TorchScores:
    rows = range(logits.shape[0])
    return TorchScores(logits, tuple(rows), tuple(10 + i for i in rows))


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 400]), st.integers(1, 60), st.booleans())
@cases(100)
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


def test_candidates_are_the_most_probable_tokens_or_a_sample_in_order_of_drawing() -> None:
    torch.manual_seed(2)
    logits = torch.randn(4, 50)
    scores = TorchScores(logits, (0, 1, 2, 3), (7, 8, 8, 9))
    p = logits.softmax(-1)
    for count in (1, 3):
        for row, guesses in enumerate(scores.candidates(count, Sampling())):
            assert [token for token, _ in guesses] == p[row].topk(count).indices.tolist()
            assert [share for _, share in guesses] == pytest.approx(p[row].topk(count).values.tolist(), rel=1e-5)
    sampling = Sampling(temperature=1.0, top_k=5, seed=3)
    shared = scores.candidates(3, sampling)
    assert [guesses[0][0] for guesses in shared] == scores.choose(sampling), "the target's own pick comes first"
    assert all(len({token for token, _ in guesses}) == 3 for guesses in shared)
    kept = [set(p[row].topk(5).indices.tolist()) for row in range(4)]
    assert all({token for token, _ in guesses} <= kept[row] for row, guesses in enumerate(shared))
    assert scores.candidates(9, sampling)[0][5:] == [], "no more than the filters keep"
    # Independent of the target's noise: over many positions the first guess is not the target's pick more often than by chance.
    many = TorchScores(torch.zeros(400, 4), tuple(range(400)), tuple(range(400)))
    flat = Sampling(temperature=1.0, seed=1)
    own = many.choose(flat)
    drafts = [guesses[0][0] for guesses in many.candidates(1, flat, attempts=range(400))]
    assert 60 < sum(a == b for a, b in zip(own, drafts, strict=True)) < 140
    penalised = Sampling(repetition_penalty=50.0)
    best = int(p[0].argmax())
    assert scores.candidates(1, penalised, [[best], [], [], []])[0][0][0] != best
