"""What trained drafters that torch runs remember of a conversation, in slots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import UserError
from ..base import PREFILL_CHUNK, ROOT
from ..best import Fetcher
from ..hf.masks import Reach, tree_mask
from ..scores import TorchScores
from .base import HeadSession
from .layers import guarded


class SlotHeadSession(HeadSession):
    """Pairs in the slots of their numbers, and nodes behind; how a pass over either runs is the head's.

    Args:
        context: the most pairs and nodes together.
        device, dtype: of the head.
    """

    def __init__(self, context: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(context)
        self.device, self.dtype = device, dtype
        self._fetcher = Fetcher(device)
        self._bits: list[int] = []
        """For each node, its ancestors and itself: bit i for node i."""

    def extend(self, tokens: Sequence[int], states: Tensor) -> TorchScores:
        self._check_pairs(tokens, states)
        self.drop(0)
        begun = self.length

        def take() -> Tensor:
            for start in range(0, len(tokens), PREFILL_CHUNK):
                part = tokens[start : start + PREFILL_CHUNK]
                logits = self._take(part, states[start : start + len(part)])
                self.length += len(part)
            return logits

        try:
            found = guarded(lambda: self._fetcher.start(take()), self.device)
        except UserError:
            self.length = begun
            raise
        return self._fetcher.scores(*found, (0,), (self.length + 1,))

    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> TorchScores:
        depths, living = self._hang(parents), len(self._depths)
        above = [self._bits[parent] if parent != ROOT else 0 for parent in parents]
        bits = [seen | 1 << (living + i) for i, seen in enumerate(above)]
        found = guarded(lambda: self._fetcher.start(self._grow(tokens, parents, depths, bits)), self.device)
        self._depths += depths
        self._bits += bits
        nodes = range(living, living + len(tokens))
        return self._fetcher.scores(*found, tuple(nodes), tuple(self.length + 1 + depth for depth in depths))

    @abstractmethod
    def _take(self, tokens: Sequence[int], states: Tensor) -> Tensor:
        """A pass over the next pairs; logits after the last one [1, vocab]."""

    @abstractmethod
    def _grow(self, tokens: Sequence[int], parents: Sequence[int], depths: list[int], bits: list[int]) -> Tensor:
        """A pass over new nodes; their logits [n, vocab]."""

    def _mask(self, bits: Sequence[int], length: int) -> Tensor:
        """The mask of rows that see the first `length` slots and, of those behind, what their bits say."""
        places = [0] * max(bits).bit_length()  # layers that see everything do not ask
        return tree_mask(bits, places[: len(bits)], places, length, Reach(), 0, self.dtype, self.device)

    def drop(self, first: int) -> None:
        super().drop(first)
        del self._bits[first:]
