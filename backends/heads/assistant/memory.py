"""What an assistant remembers of a conversation, whatever computes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ...base import ROOT
from ...scores import TorchScores
from ..base import HeadSession


class AssistantMemory(HeadSession):
    """The length of the text and the states after its last pair and after each node: an assistant has no cache of its own, and
    its nodes see the text, never each other."""

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self._states = torch.empty(0)
        """After the last pair, then after each node [1 + nodes, width of the target]."""

    @abstractmethod
    def _step(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        """A pass over nodes behind the text so far: logits [n, vocab] and next states [n, width of the target].

        Args:
            tokens: their ids [n].
            states: what each reads [n, width of the target].
        """

    def extend(self, tokens: Sequence[int], states: Tensor) -> TorchScores:
        self._check_pairs(tokens, states)
        self.drop(0)
        begun, self.length = self.length, self.length + len(tokens)
        try:
            logits, self._states = self._step(tokens[-1:], states[-1:])
        except BaseException:
            self.rewind(begun)
            raise
        return TorchScores(logits, (0,), (self.length + 1,))

    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> TorchScores:
        depths, living = self._hang(parents), len(self._depths)
        logits, after = self._step(tokens, self._states[[0 if parent == ROOT else 1 + parent for parent in parents]])
        self._states = torch.cat((self._states, after))
        self._depths += depths
        nodes = range(living, living + len(tokens))
        return TorchScores(logits, tuple(nodes), tuple(self.length + 1 + depth for depth in depths))

    def drop(self, first: int) -> None:
        super().drop(first)
        self._states = self._states[: 1 + first]
