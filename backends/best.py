"""The best choices of a pass, brought to the host in one copy: on an accelerator nothing else has to be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .base import Sampling
from .scores import TorchScores
from .transfer import accelerator, on_device

MOST_CHOICES = 64
"""Most choices of a node that come back with the pass."""

LOW = (1 << 32) - 1


class Best(NamedTuple):
    """The best choices after each node of a pass."""

    ids: np.ndarray[Any, np.dtype[np.int64]]
    """[nodes, k], best first, among equals the lowest."""
    logits: np.ndarray[Any, np.dtype[np.float32]]
    """[nodes, k]"""
    mass: np.ndarray[Any, np.dtype[np.float32]]
    """Logarithm of the sum over the whole vocabulary [nodes]; 0 if only one choice was asked for."""


def ordered(logits: Tensor) -> Tensor:
    """Return integers [rows, vocab] in the order in which choices are made: by logit, among equals the lower id first."""
    bits = logits.float().add(0.0).view(torch.int32)  # a zero with a sign is equal to one without
    rising = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    return (rising << 32) | torch.arange(logits.shape[-1] - 1, -1, -1, device=logits.device)


def write_best(best: Tensor, logits: Tensor) -> None:
    """Write the best choices after each row of `logits` [rows, vocab] to `best` [rows, choices + 1]: `ordered`'s integers, and
    in the last column the bits of the mass, where there is more than one choice."""
    choices = best.shape[1] - 1
    keys = ordered(logits)
    if choices == 1:
        best[:, 0] = keys.amax(-1)
        best[:, 1] = 0
        return
    best[:, :choices] = keys.topk(choices).values
    best[:, choices] = logits.float().logsumexp(-1).view(torch.int32)


def read_best(best: Tensor, vocabulary: int) -> Best:
    """Read what `write_best` wrote, on the host."""
    keys = best.numpy()
    rising = keys[:, :-1] >> 32
    bits = rising ^ ((rising >> 31) & 0x7FFFFFFF)
    floats, mass = (part.astype(np.int32).view(np.float32) for part in (bits, keys[:, -1]))
    return Best(vocabulary - 1 - (keys[:, :-1] & LOW), floats, mass)


class BestScores(TorchScores):
    """Scores whose best choices are on the host, and whose logits are on the device.

    Args:
        request: called with how many choices are wanted, where those that are here do not suffice.
        best: choices of all nodes of the pass.
        logits: its buffer [at least as many, vocab].
        rows: indices of the nodes that are scored.
        nodes, positions: as in `TorchScores`.
    """

    def __init__(
        self,
        request: Callable[[int], None],
        best: Best,
        logits: Tensor,
        rows: list[int],
        nodes: tuple[int, ...],
        positions: tuple[int, ...],
    ) -> None:
        self._request = request
        self._best = best
        self._buffer = logits
        self._rows = rows
        self._taken: Tensor | None = None
        self.nodes = nodes
        self.positions = positions

    @property
    def logits(self) -> Tensor:  # type: ignore[override]
        """[rows, vocab]"""
        if self._taken is None:
            rows = self._rows
            whole = rows == list(range(len(rows)))
            self._taken = self._buffer[: len(rows)] if whole else self._buffer[on_device(rows, self._buffer.device)]
        return self._taken

    def _known(self, choices: int, sampling: Sampling | None = None) -> bool:
        """Whether so many choices are here; if not, they will be after the next pass."""
        if sampling is not None and (not sampling.greedy or sampling.uses_history):
            return False
        if self._best.ids.shape[1] >= choices:
            return True
        self._request(choices)
        return False

    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        if not self._known(1, sampling):
            return super().choose(sampling, histories)
        first = self._best.ids[:, 0].tolist()
        return [first[row] for row in self._rows]

    def _likeliest(self, k: int) -> list[list[tuple[int, float]]]:
        """Return the k most probable (token id, natural log-probability) of each row."""
        ids, logs = (part[self._rows, :k].tolist() for part in (self._best.ids, self._best.logits - self._best.mass[:, None]))
        return [list(zip(*pair, strict=True)) for pair in zip(ids, logs, strict=True)]

    def top(self, k: int) -> list[list[tuple[int, float]]]:
        return self._likeliest(k) if k > 0 and self._known(max(2, k)) else super().top(k)

    def candidates(
        self,
        count: int,
        sampling: Sampling,
        histories: Sequence[Sequence[int]] | None = None,
        *,
        attempts: Sequence[int] | None = None,
    ) -> list[list[tuple[int, float]]]:
        if count < 1 or not self._known(max(2, count), sampling):
            return super().candidates(count, sampling, histories, attempts=attempts)
        return [[(token, math.exp(log)) for token, log in row if log > -math.inf] for row in self._likeliest(count)]

    def near_ties(
        self,
        rows: Sequence[int],
        sampling: Sampling,
        bound: float,
        histories: Sequence[Sequence[int]] | None = None,
    ) -> list[bool]:
        if not self._known(2, sampling):
            return super().near_ties(rows, sampling, bound, histories)
        values = self._best.logits[[self._rows[row] for row in rows]]
        return (values[:, 0] - values[:, 1] < bound).tolist()  # type: ignore[no-any-return]


class Fetcher:
    """Brings the best choices of passes back from an accelerator with the one wait of a pass; elsewhere scores are as
    they are."""

    def __init__(self, device: torch.device) -> None:
        self._module: Any = accelerator(device)
        self._device = device
        self._choices = 1

    def request(self, choices: int) -> None:
        """Have so many choices of each node come back from the next pass on."""
        self._choices = max(self._choices, min(choices, MOST_CHOICES))

    def start(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Start the copy of the best choices after each row of `logits` [rows, vocab]; returns the two for `scores`."""
        if self._module is None or not len(logits):
            return logits, None
        best = torch.empty((len(logits), min(self._choices, logits.shape[-1]) + 1), dtype=torch.long, device=logits.device)
        write_best(best, logits)
        return logits, torch.empty(best.shape, dtype=torch.long).pin_memory().copy_(best, non_blocking=True)

    def scores(self, logits: Tensor, best: Tensor | None, nodes: tuple[int, ...], positions: tuple[int, ...]) -> TorchScores:
        """Wait for the pass, so that its seconds are not those of launching it, and return its scores."""
        if self._module is not None:
            self._module.current_stream(self._device).synchronize()
        if best is None:
            return TorchScores(logits, nodes, positions)
        return BestScores(self.request, read_best(best, logits.shape[-1]), logits, list(range(len(nodes))), nodes, positions)
