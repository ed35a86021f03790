"""Sessions for models whose cache cannot branch: recurrent and hybrid ones."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..errors import ContextFull, UserError, counted
from .base import Layers, Session
from .scores import TorchScores


class ChainSession(Session):
    """One conversation on a cache that only goes forward. Nodes form a chain; what was not committed, and what was rewound,
    stays in the state, so the next pass starts from the first token again.

    Args:
        context: most tokens.
    """

    def __init__(self, context: int) -> None:
        self._context = context
        self._tokens: list[int] = []
        self._chain: list[int] = []
        self._held: list[int] = []
        """What the state has seen."""

    @property
    def tokens(self) -> Sequence[int]:
        """The committed token ids (live)."""
        return self._tokens

    @property
    def context(self) -> int:
        """Most tokens."""
        return self._context

    def evaluate(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        rows: Sequence[int] | None = None,
        layers: Layers | None = None,
    ) -> TorchScores:
        """Add nodes, which must continue the chain, and evaluate them (see `Session.evaluate`)."""
        begun = time.perf_counter()
        first, n = len(self._chain), len(tokens)
        if layers is not None or list(parents) != list(range(first - 1, first - 1 + n)):
            raise UserError("This model evaluates chains only, neither branching trees nor single layers.")
        wanted = list(range(first, first + n) if rows is None else rows)
        if any(not first <= row < first + n for row in wanted):
            raise ValueError(f"rows {wanted} are not all of this pass's nodes {first} to {first + n - 1}")
        if len(self._tokens) + first + n > self._context:
            raise ContextFull(
                f"The context of {self._context:,} tokens has no room for {counted(n, 'more token')}. Start a new chat."
            )
        if not n:
            return TorchScores(torch.empty((0, 0)), (), ())
        behind = self._tokens + self._chain
        if self._held != behind[: len(self._held)]:
            self._return(behind)
        logits = self._read(behind + list(tokens), [len(self._tokens) + row for row in wanted])
        self._chain.extend(tokens)
        self.nodes_evaluated += n
        self.forward_seconds += time.perf_counter() - begun
        return TorchScores(logits, tuple(wanted), tuple(len(self._tokens) + row + 1 for row in wanted))

    @abstractmethod
    def _read(self, text: list[int], wanted: list[int]) -> Tensor:
        """Evaluate what the state has not seen of `text`; the logits after these places in it [wanted, vocab]. What is held
        afterwards is noted in `_held`, also where a pass fails."""

    def _return(self, text: list[int]) -> None:
        """The state has seen other tokens than `text`: go back to where it had not."""
        self._forget()

    def _forget(self) -> None:
        """Empty the state."""
        self._held = []

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        """Make the first nodes of the chain the committed tail. No node outlives a commit here: `keep` is not for models that
        decode plainly."""
        if list(path) != list(range(len(path))) or len(path) > len(self._chain):
            raise ValueError(f"{list(path)} is not a chain of living nodes from the committed tail")
        self._tokens.extend(self._chain[: len(path)])
        self._chain.clear()

    def drop(self, nodes: Iterable[int]) -> None:
        """Free these nodes and those after them."""
        del self._chain[min(nodes, default=len(self._chain)) :]

    def rewind(self, length: int) -> None:
        """Forget every node, and all committed tokens after the first `length`."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"cannot rewind to {length} of {len(self._tokens)} tokens")
        self._chain.clear()
        del self._tokens[length:]
