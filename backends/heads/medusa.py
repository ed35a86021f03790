"""Medusa heads: each guesses the token of one position ahead from the target's last hidden state, knowing no other's guess.

Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads" (2024), arXiv:2401.10774.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from ..scores import TorchScores
from .base import HeadInfo, PositionHead
from .layers import scattered
from .medusa_format import MedusaFormat


class MedusaHead(PositionHead):
    """Loaded Medusa heads (see load.py).

    Args:
        info: what the interface shows.
        found: their format.
        weights: their tensors, on one device and of one type.
        ids: the target's id of each token that they draft; None where they draft all.
        vocabulary: the target's token ids.
    """

    def __init__(
        self, info: HeadInfo, found: MedusaFormat, weights: Mapping[str, Tensor], ids: Tensor | None, vocabulary: int
    ) -> None:
        super().__init__(info, weights)
        self._blocks, self._ids, self._vocabulary = found.blocks, ids, vocabulary
        self.positions = found.heads

    def guess(self, state: Tensor, position: int, count: int) -> TorchScores:
        weights: Mapping[str, Tensor] = self.loaded()
        with torch.inference_mode():
            some = next(iter(weights.values()))
            state, rows = state.to(some.device, some.dtype), []
            for head in range(count):
                hidden = state
                for at in (f"{head}.{block}" for block in range(self._blocks)):
                    block = weights[f"{at}.weight"]
                    hidden = hidden + F.silu(F.linear(hidden, block, weights.get(f"{at}.bias")))
                own = f"{head}.lm_head.weight"
                lm_head = weights[own if own in weights else "lm_head.weight"]
                rows.append(F.linear(hidden, lm_head))
            logits = scattered(torch.cat(rows), self._ids, self._vocabulary)
        return TorchScores(logits, tuple(range(count)), tuple(range(position, position + count)))
