"""The target's choice as a sampler, as transformers' filters, and as a pure function; scores by plain definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

import specchat.backends.choose as choose_module
from specchat.backends import Sampling
from specchat.backends import sampling as numbers
from specchat.backends.choose import choose, draw, gumbel, warp
from specchat.backends.sampling import Purpose, noise_key, uniform
from specchat.backends.scores import TorchScores

from ..cases import cases

SEEDS = range(8_000)
PASSES = 1e-3
"""The p-value that a right sampler stays above; the seeds are fixed, so it cannot flicker."""


def row(vocab: int, seed: int, spread: float = 2.0) -> Tensor:
    return torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * spread


def sample(logits: Tensor, sampling: Sampling, position: int, seeds: Sequence[int] = SEEDS) -> np.ndarray:
    """Picks under many seeds, by the code that `choose` runs."""
    keys = [noise_key(seed, position) for seed in seeds]
    return np.array(draw(logits.expand(len(keys), -1), sampling, keys))


def p_value(picks: np.ndarray, probs: np.ndarray) -> float:
    """Chi-square of picks against probabilities; a pick of probability 0 is an outright failure."""
    counts = np.bincount(picks, minlength=len(probs))
    if counts[probs == 0].any():
        return 0.0
    live = probs > 0
    expected = probs[live] / probs[live].sum() * len(picks)
    assert expected.min() > 5, "too rare a token for a chi-square"
    return float(chisquare(counts[live], expected).pvalue)


FILTERS = [
    Sampling(temperature=1), Sampling(temperature=0.7), Sampling(temperature=1.5, top_k=7), Sampling(temperature=1, top_p=0.8),
    Sampling(temperature=1, min_p=0.1), Sampling(temperature=0.9, top_k=9, top_p=0.9, min_p=0.02),
]  # fmt: skip


@pytest.mark.parametrize("sampling", FILTERS, ids=str)
def test_one_position_follows_softmax(sampling: Sampling) -> None:
    logits = row(12, seed=1, spread=1.0)
    probs = warp(logits, sampling).exp().numpy()
    assert p_value(sample(logits, sampling, position=5), probs) > PASSES


def test_uniform_numbers_are_uniform_and_apart() -> None:
    by_purpose = {p: np.array([uniform(7, i, p) for i in range(4000)]) for p in Purpose}
    by_purpose_attempt = [np.array([uniform(7, i, Purpose.ACCEPT, a) for i in range(4000)]) for a in range(3)]
    series = [*by_purpose.values(), *by_purpose_attempt[1:]]
    for values in series:
        assert kstest(values, "uniform").pvalue > PASSES
    for a, b in product(range(len(series)), repeat=2):
        if a < b:
            assert abs(np.corrcoef(series[a], series[b])[0, 1]) < 4 / math.sqrt(4000)


def test_gumbel_noise_is_gumbel_along_every_axis() -> None:
    many = range(8_000)
    for noise in (
        gumbel([noise_key(3, 9)], torch.tensor([many])),
        gumbel([noise_key(3, position) for position in many], torch.tensor([[11]])),
        gumbel([noise_key(seed, 9) for seed in many], torch.tensor([[11]])),
    ):
        assert kstest(noise.ravel().numpy(), "gumbel_r").pvalue > PASSES


def test_splitmix64_reference_values() -> None:
    # The first numbers of SplitMix64 seeded with 1234567, as published with the generator (prng.di.unimi.it).
    state, out = 1234567, []
    for _ in range(3):
        state = (state + numbers.GOLDEN) & numbers.MASK64
        out.append(numbers._mix(state))
    assert out == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def reference(logits: Tensor, sampling: Sampling, history: Sequence[int]) -> Tensor:
    """transformers' processors in its own order; in float64, so that rounding decides less."""
    ids = torch.LongTensor([list(history)])
    scores = logits[None]
    if sampling.repetition_penalty != 1:  # in float32 as in generate(): it makes ties of its own
        scores = RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))(ids, scores)
    steps = LogitsProcessorList([TemperatureLogitsWarper(float(sampling.temperature))])
    if sampling.top_k:
        steps.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        steps.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p > 0:
        steps.append(MinPLogitsWarper(sampling.min_p))
    return steps(ids, scores.double())[0]


def near_a_cut(logits: Tensor, sampling: Sampling) -> bool:
    """Whether rounding decides what top-p or min-p keeps."""
    probs = logits.double().softmax(-1).sort(descending=True).values
    above = probs.cumsum(-1) - probs
    return bool(
        ((above - sampling.top_p).abs() < 1e-5).any() or ((probs / probs[0] / (sampling.min_p or 2) - 1).abs() < 1e-5).any()
    )


samplings = st.builds(
    Sampling, temperature=st.sampled_from([0.1, 0.7, 1.0, 1.9]), top_k=st.sampled_from([0, 1, 3, 50, 10_000]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.011]), min_p=st.sampled_from([0.0, 0.051, 0.3, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.6]),
)  # fmt: skip


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 300, 3000]), samplings, st.booleans(), st.sampled_from([0.3, 3.0]))
@cases(80)
def test_filters_are_those_of_transformers(seed: int, vocab: int, sampling: Sampling, coarse: bool, spread: float) -> None:
    logits = row(vocab, seed, spread)
    if coarse:
        logits = logits.bfloat16().float()  # many ties
    # One id lies beyond the vocabulary, as in models whose embedding is larger than their head.
    history = np.random.default_rng(seed).integers(0, vocab + 1, 20).tolist()
    expected = reference(logits, sampling, history)
    without_cuts = Sampling(sampling.temperature, sampling.top_k, repetition_penalty=sampling.repetition_penalty)
    assume(not near_a_cut(reference(logits, without_cuts, history), sampling))
    got = warp(logits, sampling, history)
    values = choose_module.penalize(logits[None], sampling, [history])[0]
    # Which of several equal logits top-p keeps, transformers leaves open; how many it keeps, and which values, it does not.
    assert values[got.isfinite()].sort().values.tolist() == values[expected.isfinite()].sort().values.tolist()
    torch.testing.assert_close(got[got.isfinite()].sort().values, expected.log_softmax(-1)[expected.isfinite()].sort().values)
    if sampling.top_p == 1:
        assert torch.equal(got.isfinite(), expected.isfinite())
    dropped = ~got.isfinite()
    for value in set(values[dropped].tolist()):
        survivors = (got.isfinite() & (values == value)).nonzero().ravel().tolist()
        out = (dropped & (values == value)).nonzero().ravel().tolist()
        assert not survivors or max(survivors) < min(out)


@given(st.integers(0, 2**32), samplings, st.booleans(), st.sampled_from([0.5, 4.0]))
@cases(60)
def test_the_shortlist_changes_nothing(seed: int, sampling: Sampling, coarse: bool, spread: float) -> None:
    logits = row(2000, seed, spread)
    if coarse:
        logits = logits.bfloat16().float()
    history = list(range(0, 2000, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_module, "SHORTLIST", 16)
        short = warp(logits, sampling, history)
        patch.setattr(choose_module, "SHORTLIST", 10**6)
        full = warp(logits, sampling, history)
    assert torch.equal(short.isfinite(), full.isfinite())
    torch.testing.assert_close(short, full)


def test_settings_at_their_limits() -> None:
    logits = row(50, 4)
    for temperature in (1e-300, 1e-5):
        picks = sample(logits, Sampling(temperature=temperature), 0, range(20))
        assert set(picks.tolist()) == {int(logits.argmax())}
    assert warp(logits, Sampling(temperature=1e300)).isfinite().all()
    assert warp(logits, Sampling()).exp().nonzero().ravel().tolist() == [int(logits.argmax())]
    masked = logits.masked_fill(torch.arange(50) >= 10, -torch.inf)
    for sampling in (Sampling(temperature=1), Sampling(temperature=1, top_k=20), Sampling(temperature=1, top_p=0.999)):
        assert sample(masked, sampling, 0, range(2000)).max() < 10
    with pytest.raises(ValueError, match="penalty"):
        choose(logits[None], Sampling(repetition_penalty=2), [0])
    logits = torch.tensor([[3.0, 2.0, -1.0]])
    assert choose(logits, Sampling(repetition_penalty=2), [0], [[0, 0, 9]]) == [1], "the penalty reaches greedy"
    assert logits.tolist() == [[3.0, 2.0, -1.0]]
    none = TorchScores(torch.zeros(0, 9), (), ())
    assert none.choose(Sampling()) == none.choose(Sampling(temperature=1)) == []
    assert none.top(3) == []
    flat = torch.zeros(2, 1000)
    sampling = Sampling(temperature=1, seed=3)
    first, second = scores(flat).choose(sampling)
    assert first != second
    assert TorchScores(flat[:1], (7,), (11,)).choose(sampling) == [second]


@given(
    st.integers(0, 2**32), st.sampled_from([1, 3, 40, 1000]), st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
)
@cases(50)
def test_greedy_ties_go_to_the_lowest_id(seed: int, vocab: int, dtype: torch.dtype) -> None:
    logits = torch.randint(0, 3, (4, vocab), generator=torch.Generator().manual_seed(seed)).to(dtype)
    lowest = [line.index(max(line)) for line in logits.tolist()]
    assert choose(logits, Sampling(), range(4)) == lowest
    assert choose_module._lowest_argmax(logits).tolist() == lowest


@given(st.integers(0, 2**32), st.lists(st.integers(0, 7), min_size=1, max_size=20), samplings, st.sampled_from([20, 1500]))
@cases(50)
def test_a_row_gives_one_choice_in_any_batch(seed: int, rows: list[int], sampling: Sampling, vocab: int) -> None:
    logits = torch.randn(8, vocab, generator=torch.Generator().manual_seed(seed)).bfloat16()
    histories = [list(range(i, i + 9)) for i in range(8)]
    positions = [100 + i for i in range(8)]
    alone = [choose(logits[i : i + 1], sampling, positions[i : i + 1], histories[i : i + 1])[0] for i in range(8)]
    batch = choose(logits[rows], sampling, [positions[i] for i in rows], [histories[i] for i in rows])
    assert batch == [alone[i] for i in rows]


def test_any_process_chooses_the_same() -> None:
    """Written down, so that another machine or a later version that chooses otherwise is noticed."""
    logits = torch.sin(torch.arange(4 * 5000, dtype=torch.float64) ** 2).view(4, 5000) * 9
    samplings = (Sampling(1.0, seed=1), Sampling(0.8, 50, 0.9, 0.01, seed=-5), Sampling(1.2, 0, 0.7, seed=2**70))
    assert [choose(logits, sampling, range(4)) for sampling in samplings] == EXPECTED
    assert noise_key(1, 2) == 8460352000482166300


EXPECTED = [[4499, 1568, 2502, 1962], [1201, 3964, 956, 1945], [4229, 1264, 520, 588]]


def scores(logits: torch.Tensor) -> TorchScores:
    rows = range(logits.shape[0])
    return TorchScores(logits, tuple(rows), tuple(10 + i for i in rows))


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 400]), st.integers(1, 60), st.booleans())
@cases(50)
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
    likeliest = [set(p[row].topk(5).indices.tolist()) for row in range(4)]
    assert all({token for token, _ in guesses} <= likeliest[row] for row, guesses in enumerate(shared))
    assert scores.candidates(9, sampling)[0][5:] == [], "no more than the filters keep"
    # Independent of the target's noise: over many positions the first guess is not the target's pick more often than by chance.
    many = TorchScores(torch.zeros(400, 4), tuple(range(400)), tuple(range(400)))
    flat = Sampling(temperature=1.0, seed=1)
    picks = many.choose(flat)
    drafts = [guesses[0][0] for guesses in many.candidates(1, flat, attempts=range(400))]
    assert 60 < sum(a == b for a, b in zip(picks, drafts, strict=True)) < 140
    penalised = Sampling(repetition_penalty=50.0)
    best = int(p[0].argmax())
    assert scores.candidates(1, penalised, [[best], [], [], []])[0][0][0] != best


def test_masked_rows_are_their_own_and_have_no_token_beyond_the_mask() -> None:
    both = TorchScores(torch.randn(2, 70), (3, 4), (8, 9))
    masks = np.array([[1 << 5, 0], [3, 0]], np.int32)
    masked = both.masked((1, 0), (masks[1], masks[0]))
    assert (masked.nodes, masked.positions) == ((4, 3), (9, 8))
    assert [row.isfinite().nonzero().flatten().tolist() for row in masked.logits] == [[0, 1], [5]]
    assert torch.equal(masked.logits[0, :2], both.logits[1, :2])
