"""EAGLE-3 heads and MTP layers that llama.cpp computes, in a separate context where pair i of a conversation is at position i.

Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test" (2025),
arXiv:2503.01840.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...base import ROOT
from ...heads.sessions import HeadSession
from ..context import alive
from ..options import sequences
from ..sequences import LeafNode, Sequences
from ..session import Cells, Nothing
from .context import Loaded, PathContext, opened


class LlamaEagleSession(HeadSession):
    """One conversation with an EAGLE-3 head or an MTP layer."""

    def __init__(self, loaded: Loaded, context: int) -> None:
        super().__init__(context, torch.device("cpu"))
        weights = loaded.weights
        rows = sequences(weights.vocabulary)
        run = opened(
            lambda: PathContext(weights, loaded.runtime, context, rows, weights.width, loaded.other, mtp=loaded.mtp), context
        )
        self._run: PathContext | None = run
        self._mtp = loaded.mtp
        self._nodes: dict[int, LeafNode] = {}
        self._sequences = Sequences(Cells(run), run.rows, self._nodes)
        self.branches = run.rows
        self.chunk = run.rows  # the rows that fit in the buffer for logits

    def _take(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        if not self._mtp:
            states = alive(self._run).encode(states, self.length)
        logits, outputs = self._pass(tokens, range(ROOT, len(tokens) - 1), states, first=0)
        self._sequences.commit(range(len(tokens)), ())
        self._nodes.clear()
        return logits[-1:], outputs[-1:]

    def _branch(
        self, tokens: Sequence[int], parents: Sequence[int], depths: Sequence[int], above: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self._pass(tokens, parents, above, first=len(self._depths))

    def _pass(self, tokens: Sequence[int], parents: Sequence[int], features: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Run nodes numbered from `first`; return their logits [n, vocab] and output states [n, width]."""
        run, sequences = alive(self._run), self._sequences
        new = sequences.grow(first, tokens, parents)
        try:
            outputs = run.decode_beside(tokens, features, [node.position for node in new], [node.holders for node in new])
        except BaseException:
            sequences.withdraw()
            raise
        self._nodes.update(enumerate(new, first))
        return outputs

    def drop(self, first: int) -> None:
        # A node comes after its parent, so no remaining node hangs below a dropped one.
        if dropped := {number for number in self._nodes if number >= first}:
            self._sequences.drop(dropped)
            for number in dropped:
                del self._nodes[number]
        super().drop(first)

    def _cut(self, length: int) -> None:
        self._sequences.rewind(length)

    def close(self) -> None:
        if self._run is not None:
            super().close()
            self._run = None
            self._sequences = Sequences(Nothing(), 1, {})
