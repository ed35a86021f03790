"""Sessions for models whose cache cannot branch: recurrent and hybrid ones. Most can return to a saved state."""

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
"""Most committed tokens that a pass evaluates together with drafts; more get a separate pass, as each rejected draft would
repeat them."""

KEPT_BYTES = 1 << 30
"""Memory for saved states; the oldest are deleted first. A state takes some 50 MB in a model of 24 layers of linear attention
with 32 heads of 128, and 0.1 MB in one of short convolutions."""


class ChainSession(TreeSession[Node]):
    """One conversation on a cache that only goes forward. Nodes form a chain. Tokens that were dropped or rewound stay in the
    state, so the next pass starts from the first token again.

    Args:
        context: most tokens.
    """

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self._held: list[int] = []
        """Tokens that the state has seen."""

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> TorchScores:
        """Add nodes, which must continue the chain, and evaluate them (see `Session.evaluate`)."""
        start = time.perf_counter()
        last = next(reversed(self._nodes), ROOT)
        if layers is not None or list(parents) != [last, *range(self._next, self._next + len(tokens))][: len(tokens)]:
            raise UserError("This model evaluates chains only, neither branching trees nor single layers. Use another method.")
        self._check(tokens, parents)
        scored = self._rows(len(tokens), rows)
        if not tokens:
            return TorchScores(torch.empty((0, 0)), (), ())
        behind = [*self.tokens, *(node.token for node in self._nodes.values())]
        if self._held != behind[: len(self._held)]:
            self._return(behind)
        place = len(behind) - self._next
        logits = self._read([*behind, *tokens], [place + row for row in scored])
        self._add(
            [Node(*fields, True) for fields in zip(tokens, parents, range(len(behind), len(behind) + len(tokens)), strict=True)]
        )
        self.forward_seconds += time.perf_counter() - start
        return TorchScores(logits, tuple(scored), tuple(place + row + 1 for row in scored))

    @abstractmethod
    def _read(self, text: list[int], scored: list[int]) -> Tensor:
        """Evaluate the part of `text` that the state has not seen; return the logits after the places in `scored` [n, vocab].
        `_held` is updated, also if a pass fails."""

    def _return(self, text: list[int]) -> None:
        """Return to a state that has seen nothing but a beginning of `text`."""
        self._forget()

    def _forget(self) -> None:
        self._held = []

    # The state keeps what it has seen; the next pass compares that with the text.

    def _settle(self, path: Sequence[int], living: dict[int, Node]) -> None:
        pass

    def _free(self, dropped: set[int]) -> None:
        pass

    def _cut(self, length: int) -> None:
        pass


class State(Protocol):
    """A copy of a cache's state at a place in its text."""

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""


S = TypeVar("S", bound=State)


class ReturningSession(ChainSession, Generic[S]):
    """One conversation on a cache that returns to saved states: the one before the last drafts, and those where prompts and
    answers begin. If a part of a draft is rejected, the state from before it comes back, and the next pass includes the
    accepted tokens. Another answer to the same question evaluates nothing again, an edited question only itself.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kept: dict[int, S] = {}
        """Number of tokens → the state after them, where prompts and answers begin; ascending."""
        self._before: tuple[int, S] | None = None
        """The state before the last drafts, with its number of tokens."""

    def _read(self, text: list[int], scored: list[int]) -> Tensor:
        # Tokens before the first scored row are committed.
        certain = len(self.tokens) if self._nodes else min(scored, default=len(text))
        answering = certain == self._prompt - 1
        # As in plain decoding: the number of tokens in a pass can change bits.
        alone = scored == [len(text) - 1]
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
        return self._advance(text, scored)

    def align(self, tokens: Sequence[int], prompt: int | None = None, *, blocks: bool = False) -> int:
        shared = super().align(tokens, prompt, blocks=blocks)
        if self._held != self.tokens[: len(self._held)]:
            self._return(self.tokens)
        self._keep()
        return shared

    def _keep(self) -> None:
        """Save the state, for as long as the text begins with its tokens."""
        if not self._held or len(self._held) in self._kept:
            return
        self._kept[len(self._held)] = self._save()
        while len(self._kept) > 1 and sum(state.nbytes for state in self._kept.values()) > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]

    def _return(self, text: list[int]) -> None:
        """Return to the last saved state of a beginning of `text`, and delete those of other texts."""
        pairs = zip(self._held, text, strict=False)
        shared = next((i for i, (held, token) in enumerate(pairs) if held != token), min(len(self._held), len(text)))
        self._kept = {count: state for count, state in self._kept.items() if count <= shared}
        if self._before is not None and self._before[0] > shared:
            self._before = None
        states = [*self._kept.items(), *((self._before,) if self._before is not None else ())]
        if not states:
            self._forget()
            return
        count, state = max(states, key=lambda pair: pair[0])
        self._put_back(state, count)
        self._held = self._held[:count]

    def _forget(self) -> None:
        super()._forget()
        self._kept.clear()
        self._before = None

    @abstractmethod
    def _advance(self, text: list[int], scored: list[int]) -> Tensor:
        """Evaluate the part of `text` that the state has not seen, which may be empty (see `ChainSession._read`)."""

    @abstractmethod
    def _save(self) -> S:
        """Copy the state."""

    @abstractmethod
    def _put_back(self, state: S, length: int) -> None:
        """Go back to a state, which had seen the first `length` tokens and stays as it is."""
