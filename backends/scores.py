"""`Scores` over logits in a torch tensor: serves every runtime whose logits torch can see, on their own device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .base import Sampling, Scores
from .choose import candidates, choose, near_ties, shortlist, warp

if TYPE_CHECKING:
    from .grammars.matcher import Mask


class TorchScores(Scores):
    """The target's logits at some nodes.

    Args:
        logits: [rows, vocab], any float type, on any device. Never changed here; a runtime that reuses the buffer
            invalidates these scores when it does.
        nodes: node id of each row [rows].
        positions: absolute position of the token that each row predicts [rows].
    """

    def __init__(self, logits: Tensor, nodes: tuple[int, ...], positions: tuple[int, ...]) -> None:
        if not logits.shape[0] == len(nodes) == len(positions):
            raise ValueError(f"{logits.shape[0]} rows of logits for {len(nodes)} nodes at {len(positions)} positions")
        self.logits = logits
        self.nodes = nodes
        self.positions = positions

    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        return choose(self.logits, sampling, self.positions, histories)

    def top(self, k: int) -> list[list[tuple[int, float]]]:
        """For each row the k most probable (token id, natural log-probability), best first (among equals the lower id)."""
        if k < 1 or not self.nodes:
            return [[] for _ in self.nodes]
        logits = self.logits.float()
        k = min(k, logits.shape[-1])
        values, ids = shortlist(logits, k)
        values, order = values.sort(dim=-1, descending=True, stable=True)
        ids = ids.gather(-1, order)[:, :k]
        logp = values[:, :k] - logits.logsumexp(-1, keepdim=True)
        return [list(zip(i, p, strict=True)) for i, p in zip(ids.tolist(), logp.tolist(), strict=True)]

    def candidates(
        self,
        count: int,
        sampling: Sampling,
        histories: Sequence[Sequence[int]] | None = None,
        *,
        attempts: Sequence[int] | None = None,
    ) -> list[list[tuple[int, float]]]:
        return candidates(self.logits, count, sampling, self.positions, histories, attempts)

    def probs(self, row: int, sampling: Sampling | None = None, history: Sequence[int] | None = None) -> Any:
        if sampling is None:
            return self.logits[row].float().softmax(-1).cpu().numpy()
        return warp(self.logits[row], sampling, history).exp().to(torch.float32).cpu().numpy()

    def masked(self, rows: Sequence[int], masks: Sequence[Mask]) -> TorchScores:
        bits = np.unpackbits(np.stack(masks).view(np.uint8), axis=-1, bitorder="little")
        refused = torch.ones((len(rows), self.logits.shape[-1]), dtype=torch.bool)
        width = min(bits.shape[1], refused.shape[1])
        refused[:, :width] = torch.from_numpy(bits[:, :width]) == 0
        logits = self.logits[list(rows)].float().masked_fill_(refused.to(self.logits.device), -torch.inf)
        return TorchScores(logits, tuple(self.nodes[row] for row in rows), tuple(self.positions[row] for row in rows))

    def kept(self) -> TorchScores:
        return TorchScores(self.logits.clone(), self.nodes, self.positions)

    def as_seen(self, vocabulary: int, later: int = 0) -> TorchScores:
        if not later and vocabulary >= self.logits.shape[-1]:
            return self
        return TorchScores(self.logits[:, :vocabulary], self.nodes, tuple(position + later for position in self.positions))

    def near_ties(
        self,
        rows: Sequence[int],
        sampling: Sampling,
        bound: float,
        histories: Sequence[Sequence[int]] | None = None,
    ) -> list[bool]:
        positions = [self.positions[row] for row in rows]
        return near_ties(self.logits[list(rows)], sampling, positions, bound, histories)

    def gap(self, row: int, token: int) -> float:
        logits = self.logits[row]
        return float(logits.max()) - float(logits[token])
