"""EAGLE-3 heads and MTP layers that llama.cpp computes: a context of their own, in which pair i of a conversation stands at
position i.

Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test" (2025),
arXiv:2503.01840.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....errors import UserError
from ...base import ROOT
from ...heads.base import HeadSession
from ...scores import TorchScores
from ..context import alive
from ..options import sequences
from ..sequences import LeafNode, Sequences
from ..session import Cells, Nothing
from .context import Loaded, PathContext, opened


class LlamaEagleSession(HeadSession):
    """One conversation's cache."""

    def __init__(self, loaded: Loaded, context: int) -> None:
        super().__init__(context)
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
        self._outputs = torch.empty((1, weights.width))
        """Hidden states of the last pair and of each node [1 + nodes, width]."""

    def extend(self, tokens: Sequence[int], states: Tensor) -> TorchScores:
        run, begun = alive(self._run), self.length
        self._check_pairs(tokens, states)
        self.drop(0)
        try:
            # As many as have room in the buffer that each pass reserves for logits.
            for start in range(0, len(tokens), run.rows):
                part = tokens[start : start + run.rows]
                features = states[start : start + len(part)]
                if not self._mtp:
                    features = run.encode(features, self.length)
                logits, outputs = self._pass(part, range(ROOT, len(part) - 1), features, 0)
                self._sequences.commit(range(len(part)), ())
                self._nodes.clear()
                self.length += len(part)
        except UserError:
            self.rewind(begun)
            raise
        self._outputs = outputs[-1:]
        return TorchScores(logits[-1:], (0,), (self.length + 1,))

    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> TorchScores:
        run, depths, living, n = alive(self._run), self._hang(parents), len(self._depths), len(tokens)
        features = self._outputs[[parent + 1 for parent in parents]]
        found = []
        try:
            for start in range(0, n, run.rows):
                end = min(n, start + run.rows)
                found.append(self._pass(tokens[start:end], parents[start:end], features[start:end], living + start))
        except UserError:
            self.drop(living)
            raise
        self._depths += depths
        self._outputs = torch.cat((self._outputs, *(outputs for _, outputs in found)))
        return TorchScores(
            torch.cat([logits for logits, _ in found]),
            tuple(range(living, living + n)),
            tuple(self.length + 1 + depth for depth in depths),
        )

    def _pass(self, tokens: Sequence[int], parents: Sequence[int], features: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Add nodes, the first with the number `first`: their logits [n, vocab] and what they hand on [n, width]."""
        run, sequences = alive(self._run), self._sequences
        new = sequences.grow(first, tokens, parents)
        try:
            found = run.decode_beside(tokens, features, [node.position for node in new], [node.holders for node in new])
        except BaseException:
            sequences.withdraw()
            raise
        self._nodes.update(enumerate(new, first))
        return found

    def drop(self, first: int) -> None:
        # A node stands behind its parent, so nothing that is left hangs from one that goes.
        if gone := {number for number in self._nodes if number >= first}:
            self._sequences.drop(gone)
            for number in gone:
                del self._nodes[number]
        super().drop(first)
        self._outputs = self._outputs[: 1 + first]

    def _cut(self, length: int) -> None:
        self._sequences.rewind(length)

    def close(self) -> None:
        if self._run is not None:
            super().close()
            self._run = None
            self._sequences = Sequences(Nothing(), 1, {})
