"""The sessions of drafters that draft token by token: their pairs, and the nodes below."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from ..base import PREFILL_CHUNK, ROOT, Session
from ..best import Fetcher
from ..scores import TorchScores
from ..transfer import on_device
from .base import DrafterMemory
from .layers import guarded


class HeadSession(DrafterMemory, ABC):
    """The session of a drafter that drafts token by token. Subclasses run the passes.

    It takes in *pairs*: pair i is the token at position i + 1 with the target's hidden states at position i, and predicts the
    token at position i + 2. Below the last pair hang *nodes*: drafted tokens, each with its parent's output in place of the
    target's states. So pairs are always computed from the target's own states.

    Args:
        context: most pairs and nodes together.
        device: of the logits.
    """

    caches: ClassVar[bool] = True
    """Whether each pair has a row in a cache; without one a pass needs the last pair only."""
    branches: int | None = None
    """Most leaves that its nodes may have; None for no limit."""

    def __init__(self, context: int, device: torch.device) -> None:
        super().__init__(context)
        self.device = device
        self.chunk = PREFILL_CHUNK
        """Most rows of a pass."""
        self._fetcher = Fetcher(device)
        self._depths: list[int] = []
        """The depth of each node; a child of the last pair has 1."""
        self._outputs = torch.empty(0)
        """Outputs of the last pair and of each node [1 + nodes, …]."""

    def follow(self, target: Session) -> None:
        """Set the target's session, for a drafter that reads its keys and values. Call it before `extend`."""

    def extend(self, tokens: Sequence[int], states: Tensor) -> TorchScores:
        """Take in the next pairs, at least one; frees every node.

        Args:
            tokens: `tokens[i]` is the token at position `length` + 1 + i [n].
            states: the target's states at the positions `length` + i [n, taps × width].

        Returns:
            scores after the last pair, one row.

        Raises:
            UserError: there is not enough memory; nothing has been taken in.
        """
        if not len(tokens) == len(states) > 0:
            raise ValueError(f"{len(tokens)} tokens with {len(states)} states")
        self.check_room(len(tokens))
        self.drop(0)
        before = self.length

        def run() -> tuple[Tensor, Tensor | None]:
            chunk = self.chunk if self.caches else len(tokens)
            for start in range(0, len(tokens), chunk):
                part = tokens[start : start + chunk]
                logits, self._outputs = self._take(part, states[start : start + len(part)])
                self.length += len(part)
            return self._fetcher.start(logits)

        try:
            logits, best = guarded(run, self.device)
        except BaseException:
            self.rewind(before)
            raise
        return self._fetcher.scores(logits, best, (0,), (self.length + 1,))

    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> TorchScores:
        """Add nodes, and score each.

        Args:
            tokens: token id of each new node [n].
            parents: for each a node of an earlier call, counted from 0 in the order of adding, or ROOT: the last pair [n].

        Raises:
            UserError: there is not enough memory; nothing has been added.
        """
        living = len(self._depths)
        if any(not ROOT <= parent < living for parent in parents) or not self.length:
            raise ValueError(f"parents {list(parents)} are not all among {living} nodes")
        self.check_room(living + len(parents))
        depths = [1 + (self._depths[parent] if parent != ROOT else 0) for parent in parents]

        def run() -> tuple[Tensor, Tensor | None]:
            first, passes = parents[0] + 1, []
            above = self._outputs[first : first + 1]
            if len(tokens) > 1:
                above = self._outputs[on_device([parent + 1 for parent in parents], self._outputs.device)]
            for start in range(0, len(tokens), self.chunk):
                part = slice(start, start + self.chunk)
                logits, outputs = self._branch(tokens[part], parents[part], depths[part], above[part])
                self._depths += depths[part]
                self._outputs = torch.cat((self._outputs, outputs))
                passes.append(logits)
            return self._fetcher.start(torch.cat(passes) if len(passes) > 1 else passes[0])

        try:
            logits, best = guarded(run, self.device)
        except BaseException:
            self.drop(living)
            raise
        nodes = tuple(range(living, living + len(tokens)))
        return self._fetcher.scores(logits, best, nodes, tuple(self.length + 1 + depth for depth in depths))

    @abstractmethod
    def _take(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        """Run a pass over the next pairs; return logits [1, vocab] and output [1, …] after the last one."""

    @abstractmethod
    def _branch(
        self, tokens: Sequence[int], parents: Sequence[int], depths: Sequence[int], above: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run a pass over new nodes, given their parents' outputs [n, …]; return logits [n, vocab] and outputs [n, …]."""

    def drop(self, first: int) -> None:
        """Free the nodes from number `first` on."""
        del self._depths[first:]
        self._outputs = self._outputs[: 1 + first]

    def rewind(self, length: int) -> None:
        self.drop(0)
        super().rewind(length)


class TextOnlySession(HeadSession):
    """The session of an assistant, which has no cache: its nodes attend to the text, never to each other."""

    caches = False

    @abstractmethod
    def _step(self, tokens: Sequence[int], states: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Run one pass over nodes that follow a text.

        Args:
            tokens: their ids [n].
            states: the state that each reads [n, width of the target].
            length: of the text, which is the position of its pending token.

        Returns:
            logits [n, vocab] and next states [n, width of the target].
        """

    def _take(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        return self._step(tokens[-1:], states[-1:], self.length + len(tokens))

    def _branch(
        self, tokens: Sequence[int], parents: Sequence[int], depths: Sequence[int], above: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self._step(tokens, above, self.length)
