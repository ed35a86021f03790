"""Sessions for models whose cache cannot branch: recurrent and hybrid ones. Most can go back to a state that was kept."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from ...errors import UserError
from ..base import ROOT, Layers
from ..scores import TorchScores
from .tree import Node, TreeSession

CATCH_UP = 16
"""Committed tokens that a pass of drafts takes along before they get one of their own: refused drafts add up."""

KEPT_BYTES = 1 << 30
"""Memory for the states where prompts and answers begin; the oldest go first. A state takes some 50 MB in a model of 24 layers
of linear attention with 32 heads of 128, and 0.1 MB in one of short convolutions."""


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
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> TorchScores:
        """Add nodes, which must continue the chain, and evaluate them (see `Session.evaluate`)."""
        begun = time.perf_counter()
        last = next(reversed(self._nodes), ROOT)
        if layers is not None or list(parents) != [last, *range(self._next, self._next + len(tokens))][: len(tokens)]:
            raise UserError("This model evaluates chains only, neither branching trees nor single layers. Use another method.")
        self._check(tokens, parents)
        wanted = self._rows(len(tokens), rows)
        if not tokens:
            return TorchScores(torch.empty((0, 0)), (), ())
        behind = [*self.tokens, *(node.token for node in self._nodes.values())]
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
        self._held = []

    # The state keeps what it has seen; the next pass finds out how much of that still holds.

    def _settle(self, path: Sequence[int], kept: dict[int, Node]) -> None:
        pass

    def _free(self, gone: set[int]) -> None:
        pass

    def _cut(self, length: int) -> None:
        pass


class State(Protocol):
    """What a cache needs to go back to a place in its text."""

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""


S = TypeVar("S", bound=State)


class ReturningSession(ChainSession, Generic[S]):
    """One conversation on a cache that goes back to states that were kept: the one before the last drafts, and those where
    prompts and answers begin. Where a part of a draft is refused, the state goes back to before it, and the next pass takes the
    accepted tokens along. Another answer to the same question reads nothing again, an edited question itself alone.
    """

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        self._kept: dict[int, S] = {}
        """States where prompts and answers begin, by how many tokens of `_held` they have seen, rising."""
        self._before: tuple[int, S] | None = None
        """The state before the last drafts, with how many tokens of `_held` it has seen."""

    def _read(self, text: list[int], wanted: list[int]) -> Tensor:
        # Of the first tokens nobody asks for scores unless they are certain.
        certain = len(self.tokens) if self._nodes else min(wanted, default=len(text))
        answering = certain == self._prompt - 1
        # As in plain decoding: how many tokens go through the model together may move a bit.
        alone = wanted == [len(text) - 1]
        behind = certain - len(self._held)
        if behind > 0 and (answering or alone or behind > CATCH_UP):
            self._advance(text[:certain], [])
        if answering and len(self._held) == certain:
            self._keep()
        if 0 < len(self._held) <= certain < len(text):
            before = self._before[0] if self._before is not None else -CATCH_UP
            if before != len(self._held) and (not alone or len(self._held) - before >= CATCH_UP):
                self._before = len(self._held), self._save()
        if alone and len(self._held) < len(text) - 1:
            self._advance(text[:-1], [])
        return self._advance(text, wanted)

    def align(self, tokens: Sequence[int], prompt: int | None = None, *, blocks: bool = False) -> int:
        shared = super().align(tokens, prompt, blocks=blocks)
        if self._held != self.tokens[: len(self._held)]:
            self._return(self.tokens)
        self._keep()
        return shared

    def _keep(self) -> None:
        """Keep the state for as long as what it has seen begins the text."""
        if not self._held or len(self._held) in self._kept:
            return
        self._kept[len(self._held)] = self._save()
        while len(self._kept) > 1 and sum(state.nbytes for state in self._kept.values()) > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]

    def _return(self, text: list[int]) -> None:
        """Go back to the last state kept of what `text` begins with; those of anything else are gone."""
        pairs = zip(self._held, text, strict=False)
        shared = next((i for i, (held, token) in enumerate(pairs) if held != token), min(len(self._held), len(text)))
        self._kept = {seen: state for seen, state in self._kept.items() if seen <= shared}
        if self._before is not None and self._before[0] > shared:
            self._before = None
        found = [*self._kept.items(), *((self._before,) if self._before is not None else ())]
        if not found:
            self._forget()
            return
        seen, state = max(found, key=lambda pair: pair[0])
        self._put_back(state, seen)
        self._held = self._held[:seen]

    def _forget(self) -> None:
        super()._forget()
        self._kept.clear()
        self._before = None

    @abstractmethod
    def _advance(self, text: list[int], wanted: list[int]) -> Tensor:
        """Evaluate what the state has not seen of `text`, perhaps nothing (see `ChainSession._read`)."""

    @abstractmethod
    def _save(self) -> S:
        """A copy of the state."""

    @abstractmethod
    def _put_back(self, state: S, seen: int) -> None:
        """Go back to a state, which had seen the first `seen` tokens and stays as it is."""
