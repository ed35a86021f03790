"""Sessions for models whose cache cannot branch: recurrent and hybrid ones."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import UserError
from ..base import ROOT, Layers
from ..scores import TorchScores
from .tree import Node, TreeSession


class ChainSession(TreeSession[Node]):
    """One conversation on a cache that only goes forward. Nodes form a chain; what was not committed, and what was rewound,
    stays in the state, so the next pass starts from the first token again.

    Args:
        context: most tokens.
    """

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self._held: list[int] = []
        """What the state has seen."""

    def evaluate(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        rows: Sequence[int] | None = None,
        layers: Layers | None = None,
    ) -> TorchScores:
        """Add nodes, which must continue the chain, and evaluate them (see `Session.evaluate`)."""
        begun = time.perf_counter()
        last = next(reversed(self._nodes), ROOT)
        if layers is not None or list(parents) != [last, *range(self._next, self._next + len(tokens))][: len(tokens)]:
            raise UserError("This model evaluates chains only, neither branching trees nor single layers.")
        self._check(tokens, parents)
        wanted = self._rows(len(tokens), rows)
        if not tokens:
            return TorchScores(torch.empty((0, 0)), (), ())
        behind = [*self._tokens, *(node.token for node in self._nodes.values())]
        if self._held != behind[: len(self._held)]:
            self._return(behind)
        place = len(behind) - self._next
        logits = self._read([*behind, *tokens], [place + row for row in wanted])
        self._add(
            [Node(*each, True) for each in zip(tokens, parents, range(len(behind), len(behind) + len(tokens)), strict=True)]
        )
        self.forward_seconds += time.perf_counter() - begun
        return TorchScores(logits, tuple(wanted), tuple(place + row + 1 for row in wanted))

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

    # The state keeps what it has seen; the next pass finds out how much of that still holds.

    def _settle(self, path: Sequence[int], kept: dict[int, Node]) -> None:
        pass

    def _free(self, gone: set[int]) -> None:
        pass

    def _cut(self, length: int) -> None:
        pass
