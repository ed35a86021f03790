"""The target's choice: one token from one row of logits, as a pure function.

A pick depends on the row's logits, the tokens before it, the sampling settings, the seed and the absolute position,
and on nothing else: not on the batch that the row came in, not on the method that drafted the node. So a drafted token
can be verified by exact match, for greedy decoding and for sampling alike, and one seed gives one text under every such
method (Gumbel coupling: Daliri, Musco and Suresh, "Coupling without Communication and Drafter-Invariant Speculative
Decoding", 2024).

Filters keep the sets that transformers' logits processors keep, in transformers' order: repetition penalty,
temperature, top-k, top-p, min-p. Where transformers leaves a tie to its sort, the lowest token id wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import gt

import numpy as np
import torch
from torch import Tensor

from .base import Sampling
from .sampling import GOLDEN, MIX_A, MIX_B, UNIFORM_BITS, Purpose, noise_key
from .transfer import on_device

MASS_SCALE = float(1 << 42)
"""Top-p adds probabilities as integers of this scale: integer sums do not depend on their order, so neither batch,
device nor shortlist can move the cut. A vocabulary of 2^20 fills 62 bits; what is rounded away is below 3e-7 of the
mass."""
SHORTLIST = 1024
"""Most probable tokens among which top-p and min-p look first; the whole vocabulary is sorted only where these fall
short."""
TIES = 32
"""Spare candidates that top-k fetches: bfloat16 logits often tie at the k-th, and transformers keeps all that do."""
BLOCK = 1 << 22
"""Most logits worked on at once when the whole vocabulary takes part: keeps temporaries at 32 MB each."""


def _signed(z: int) -> int:
    return z - (1 << 64) if z >> 63 else z


def _mix_tensor(z: Tensor) -> Tensor:
    """Apply SplitMix64's finalizer (`sampling._mix`) to int64 elements, whose products wrap around. Overwrites `z`."""
    for shift, factor in ((30, MIX_A), (27, MIX_B)):
        # `>>` copies the sign bit down; the mask makes the shift logical.
        z ^= (z >> shift).bitwise_and_((1 << (64 - shift)) - 1)
        z *= _signed(factor)
    z ^= (z >> 31).bitwise_and_((1 << 33) - 1)
    return z


def gumbel(keys: Sequence[int], ids: Tensor) -> Tensor:
    """Compute standard Gumbel noise float64 [rows, n] for token ids int64 [rows, n] or [1, n], with one `noise_key` per row."""
    start = on_device([_signed(key) for key in keys], ids.device)[:, None]
    bits = _mix_tensor((ids + 1) * _signed(GOLDEN) + start)
    high = (bits >> (64 - UNIFORM_BITS)).bitwise_and_((1 << UNIFORM_BITS) - 1)
    u = high.double().add_(0.5).mul_(2.0**-UNIFORM_BITS)
    return u.log_().neg_().log_().neg_()


def _argmax(logits: Tensor) -> Tensor:
    """Find the highest value of each row, the lowest index where several tie [rows]."""
    if logits.device.type == "cpu":  # the first as well, in a third of the time or less, in half types in a tenth
        return torch.from_numpy(logits.float().numpy().argmax(-1))
    if logits.device.type != "mps":
        return logits.argmax(-1)  # documented to give the first
    return _lowest_argmax(logits)


def _lowest_argmax(logits: Tensor) -> Tensor:
    """Do the same with operations that leave a device no choice (MPS has broken ties otherwise)."""
    ids = torch.arange(logits.shape[-1], device=logits.device)
    highest = logits.amax(-1, keepdim=True)
    return torch.where(logits == highest, ids, logits.shape[-1] - 1).amin(-1)


def _working_copy(logits: Tensor) -> Tensor:
    """Copy logits as float32 (which transformers filters) to a device with float64 arithmetic: MPS has none."""
    return (logits.cpu() if logits.device.type == "mps" else logits).float()


def penalize(logits: Tensor, sampling: Sampling, histories: Sequence[Sequence[int]] | None) -> Tensor:
    """Apply transformers' repetition penalty (CTRL, Keskar 2019) to logits [rows, vocab], once per distinct token of
    the vocabulary in the tokens before each row's pick. Without a penalty they are the same logits.

    Raises:
        ValueError: the histories are needed and missing.
    """
    if not sampling.uses_history:
        return logits
    if histories is None:
        raise ValueError("a repetition penalty needs the tokens before each row")
    out, penalty = _working_copy(logits).clone(), sampling.repetition_penalty
    vocab = logits.shape[-1]
    repeated = [[token for token in set(history) if token < vocab] for history in histories]
    # One upload for all rows.
    tokens = torch.split(on_device([token for row in repeated for token in row], out.device), [len(row) for row in repeated])
    for row, penalized in zip(out, tokens, strict=True):
        value = row[penalized]
        row[penalized] = torch.where(value < 0, value * penalty, value / penalty)
    return out


def shortlist(logits: Tensor, k: int, doubts: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Select all tokens of each row whose logit is at least the k-th highest: more than k where several tie with it.

    With `doubts` nothing is read from the device: a flag joins them that says whether tokens may be missing.

    Returns:
        values and int64 ids [rows, m], m ≥ k, by ascending id; candidates that only other rows needed are -inf.
    """
    vocab = logits.shape[-1]
    values, ids = logits.topk(min(vocab, k + TIES), sorted=True)
    # Of a masked row that allows fewer all are taken, and none of the others, which tie at -inf.
    threshold = values[:, k - 1 : k].clamp(min=torch.finfo(values.dtype).min)
    if values.shape[-1] < vocab:
        short = (values[:, -1:] >= threshold).any()
        if doubts is not None:
            doubts.append(short)
        elif bool(short):
            values, ids = logits.topk(int((logits >= threshold).sum(-1).max()), sorted=True)
    ids, order = ids.sort(-1)
    values = values.gather(-1, order)
    return values.masked_fill(values < threshold, -torch.inf), ids


def _scaled(values: Tensor, temperature: float) -> Tensor:
    """Compute (logit - highest) / temperature in float64, which no temperature overflows."""
    values = values.double()
    return values.sub_(values.amax(-1, keepdim=True)).div_(temperature)


def _nucleus(scaled: Tensor, top_p: float, total: Tensor | None = None) -> Tensor:
    """Mark the candidates that top-p keeps: those that less than `top_p` of the mass lies above (Holtzman 2020).

    Args:
        scaled: float64 [rows, m] by ascending id, highest 0.
        top_p: the mass to keep.
        total: int64 [rows, 1] mass of the whole row, if the candidates are not all of it.
    """
    # Stable on ascending ids: among equals the lower id counts as the more probable.
    ordered, order = scaled.sort(dim=-1, descending=True, stable=True)
    mass = _mass(ordered)
    upto = mass.cumsum(-1)
    if total is None:
        total = upto[:, -1:]
    keep = (upto - mass).double() < top_p * total.double()
    keep[:, :1] = True
    return torch.zeros_like(keep).scatter_(-1, order, keep)


def _mass(scaled: Tensor) -> Tensor:
    return (scaled.exp() * MASS_SCALE).long()


def _candidates(logits: Tensor, sampling: Sampling, doubts: list[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Apply temperature and top-k; of a large vocabulary, select as many of the most probable tokens as other filters may keep.

    Args:
        logits: float32 [rows, vocab], penalties applied.
        sampling: not greedy.
        doubts: as `shortlist`.

    Returns:
        scaled: float64 [rows, m]: unnormalised log-probabilities, 0 at the highest, -inf for what top-k filtered out;
        ids: int64 [rows, m], or [1, vocab] if every token is a candidate; ascending;
        total: int64 [rows, 1] mass of the whole row, if the candidates are not all that top-k kept.
    """
    vocab = logits.shape[-1]
    everything = torch.arange(vocab, device=logits.device)[None]
    if 0 < sampling.top_k < vocab:
        values, ids = shortlist(logits, sampling.top_k, doubts)
        return _scaled(values, sampling.temperature), ids, None
    if (sampling.top_p < 1 or sampling.min_p > 0) and vocab > SHORTLIST:
        values, ids = shortlist(logits, SHORTLIST, doubts)
        scaled, total = _scaled(values, sampling.temperature), None
        # Both filters keep a set from the top down, so a row is done if either of them cuts above its lowest candidate.
        lowest = scaled.masked_fill(scaled.isneginf(), torch.inf).amin(-1, keepdim=True)
        done = lowest.exp() < sampling.min_p
        if sampling.top_p < 1:
            total = _mass(_scaled(logits, sampling.temperature)).sum(-1, keepdim=True)
            above = _mass(scaled).masked_fill_(scaled <= lowest, 0).sum(-1, keepdim=True)
            done |= above.double() >= sampling.top_p * total.double()
        if doubts is not None:
            doubts.append(~done.all())
            return scaled, ids, total
        if bool(done.all()):
            return scaled, ids, total
    return _scaled(logits, sampling.temperature), everything, None


def _filtered(logits: Tensor, sampling: Sampling, doubts: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Apply temperature, top-k, top-p and min-p: `_candidates` with -inf for those that are filtered out."""
    scaled, ids, total = _candidates(logits, sampling, doubts)
    drop = scaled.exp() < sampling.min_p
    if sampling.top_p < 1:
        drop |= ~_nucleus(scaled, sampling.top_p, total)
    return scaled.masked_fill_(drop, -torch.inf), ids


def _read_once(rows: Tensor, compute: Callable[[list[Tensor] | None], Tensor]) -> list[list[float]]:
    """Read the numbers that `compute` returns for some rows, with one wait for the device.

    Args:
        rows: logits, for their device: a CPU is asked at once whether a shortlist falls short.
        compute: returns float64 [rows, n] from the shortlists' `doubts`; called again without them where one was right.
    """
    doubts: list[Tensor] | None = None if rows.device.type == "cpu" else []
    numbers = compute(doubts)
    if not doubts:
        return numbers.tolist()
    doubtful = torch.stack(doubts).any().to(numbers.dtype).expand(numbers.shape[0], 1)
    read: list[list[float]] = torch.cat([doubtful, numbers], -1).tolist()
    return compute(None).tolist() if read[0][0] else [row[1:] for row in read]


def draw(
    logits: Tensor, sampling: Sampling, keys: Sequence[int], histories: Sequence[Sequence[int]] | None = None
) -> list[int]:
    """Draw one token per row, with the noise of row i from stream `keys[i]`.

    Args:
        logits: [rows, vocab], any float type and device; not changed.
        sampling: the settings, without the seed.
        keys: a `noise_key` per row [rows]; unused if greedy.
        histories: the tokens before each pick [rows]; a ValueError if `sampling.uses_history` and there are none.
    """
    logits = penalize(logits, sampling, histories)
    if sampling.greedy:
        return list(map(int, _argmax(logits).tolist()))
    out: list[int] = []
    rows = max(1, BLOCK // logits.shape[-1])
    for start in range(0, logits.shape[0], rows):
        block, streams = _working_copy(logits[start : start + rows]), keys[start : start + rows]

        def pick(doubts: list[Tensor] | None, block: Tensor = block, streams: Sequence[int] = streams) -> Tensor:
            scaled, ids = _filtered(block, sampling, doubts)
            best = (scaled + gumbel(streams, ids)).argmax(-1, keepdim=True)
            return ids.expand_as(scaled).gather(-1, best).double()

        out += [int(token) for (token,) in _read_once(block, pick)]
    return out


def choose(
    logits: Tensor, sampling: Sampling, positions: Sequence[int], histories: Sequence[Sequence[int]] | None = None
) -> list[int]:
    """Pick the target's token for each row: the argmax at temperature 0, else argmax(log p + Gumbel noise) over what the
    filters keep, which is a sample of softmax (Gumbel 1954; Maddison 2014).

    Args:
        logits, sampling, histories: as `draw`.
        positions: absolute position of the token that each row predicts [rows].
    """
    keys = () if sampling.greedy else [noise_key(sampling.seed, position) for position in positions]
    return draw(logits, sampling, keys, histories)


def near_ties(
    logits: Tensor,
    sampling: Sampling,
    positions: Sequence[int],
    bound: float,
    histories: Sequence[Sequence[int]] | None = None,
) -> list[bool]:
    """Whether another token than `choose`'s pick could win if the difference of any two logits moved by less than a
    bound, in logits. Every row counts where filters apply: what they keep may change as well. A repetition penalty
    stretches movements."""
    if sampling.filters:
        return [True] * len(positions)
    scores = penalize(logits, sampling, histories).float()
    bound *= max(sampling.repetition_penalty, 1 / sampling.repetition_penalty)
    if not sampling.greedy:
        bound /= sampling.temperature
        ids = torch.arange(scores.shape[-1], device=scores.device)[None]
        keys = [noise_key(sampling.seed, position) for position in positions]
        scores = _scaled(_working_copy(scores), sampling.temperature) + gumbel(keys, ids)
    best = scores.topk(2, -1).values
    return (best[:, 0] - best[:, 1] < bound).tolist()


def warp(logits: Tensor, sampling: Sampling, history: Sequence[int] | None = None) -> Tensor:
    """Return the log-probabilities of one row [vocab] after the filters: the distribution that `choose` samples.

    They are float64, -inf for tokens that cannot be picked; at temperature 0 all mass lies on the argmax. Arguments and errors
    are those of `draw`.
    """
    row = penalize(_working_copy(logits)[None], sampling, [history] if history is not None else None)
    out = torch.full(row.shape[-1:], -torch.inf, dtype=torch.float64, device=row.device)
    if sampling.greedy:
        out[_argmax(row)] = 0
        return out
    scaled, ids = _filtered(row, sampling)
    out[ids[0]] = scaled[0].log_softmax(-1)
    return out


def candidates(
    logits: Tensor,
    count: int,
    sampling: Sampling,
    positions: Sequence[int],
    histories: Sequence[Sequence[int]] | None = None,
    attempts: Sequence[int] | None = None,
) -> list[list[tuple[int, float]]]:
    """List a draft model's guesses after each row: its pick, and its picks if it could not pick those.

    At temperature 0 these are the most probable tokens. Else they are a sample without replacement of what the filters keep
    (Gumbel top-k: Kool, van Hoof and Welling, "Stochastic Beams and Where to Find Them", 2019), in the order of drawing. The
    first one is `choose`'s pick, so that a draft model which agrees with the target about the probabilities agrees with it
    about the token; with `attempts` the sample is independent of the target's noise.

    Args:
        logits: [rows, vocab].
        count: most guesses a row.
        sampling, positions, histories: as `choose`.
        attempts: a number for each row [rows]: rows of one position with different numbers are independent.

    Returns:
        for each row (token id, probability after the filters; at temperature 0 the plain softmax); fewer than `count` where
        the filters keep fewer.
    """
    row = penalize(logits, sampling, histories)
    count = min(count, row.shape[-1])
    if sampling.greedy and count == 1:
        best = _argmax(row)
        if row.device.type == "cpu":  # one row after the other stays in the processor's cache
            rows = row.float().numpy()
            with np.errstate(invalid="ignore"):  # an infinite logit's probability is no number
                return [
                    [(token, float(1 / np.exp(one - one[token]).sum()))] for token, one in zip(best.tolist(), rows, strict=True)
                ]
        probabilities = row.float().amax(-1).sub(row.float().logsumexp(-1)).exp()
        return [[(int(token), p)] for token, p in torch.stack([best.float(), probabilities], -1).tolist()]
    if sampling.greedy and row.device.type == "cpu":
        guesses = _few(row.float(), count)
        if guesses is not None:
            return guesses

    def guess(doubts: list[Tensor] | None) -> Tensor:
        if sampling.greedy:
            values, ids = shortlist(row.float(), count, doubts)
            values, order = values.sort(dim=-1, descending=True, stable=True)
            probs = (values - row.float().logsumexp(-1, keepdim=True)).exp()
            # Ids are exact in float32 below 2^24, and MPS has no float64.
            return torch.cat([ids.gather(-1, order).float(), probs], -1)
        if attempts is None:
            keys = [noise_key(sampling.seed, position) for position in positions]
        else:
            pairs = zip(positions, attempts, strict=True)
            keys = [noise_key(sampling.seed, position, Purpose.DRAFT, attempt) for position, attempt in pairs]
        scaled, ids = _filtered(_working_copy(row), sampling, doubts)
        noisy, order = (scaled + gumbel(keys, ids)).topk(min(count, scaled.shape[-1]), dim=-1, sorted=True)
        probs = scaled.softmax(-1).gather(-1, order).masked_fill(noisy.isneginf(), 0.0)
        return torch.cat([ids.expand_as(scaled).gather(-1, order).double(), probs], -1)

    guesses = []
    for numbers_of_row in _read_once(row, guess):
        half = len(numbers_of_row) // 2
        tokens, likelihoods = numbers_of_row[:half], numbers_of_row[half:]
        likely = zip(map(int, tokens[:count]), likelihoods, strict=False)
        guesses.append([(token, probability) for token, probability in likely if probability > 0])
    return guesses


def _few(logits: Tensor, count: int) -> list[list[tuple[int, float]]] | None:
    """Find the most probable tokens of each row on a CPU, in a quarter of `shortlist`'s time for a small vocabulary; None where
    a tie leaves open which they are."""
    best, ids = logits.softmax(-1).topk(min(count + 1, logits.shape[-1]))
    out = []
    for probs, tokens in zip(best.tolist(), ids.tolist(), strict=True):
        if not all(map(gt, probs, probs[1:])):
            return None
        out.append(list(zip(tokens[:count], probs, strict=False)))
    return out
