"""A session for models whose cache cannot branch or go back: recurrent and hybrid ones. Plain decoding only."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from ...errors import ContextFull, UserError
from ..base import Layers, Session
from ..scores import TorchScores

if TYPE_CHECKING:
    from .session import Runner


class PlainSession(Session):
    """One conversation on transformers' own cache. Nodes form a chain; what was not committed, and what was rewound, stays in
    the state, so the next pass starts from the first token again.

    Args:
        runner: the model.
        context: most tokens.
        several: whether a pass may hold several tokens after others; else they go in one by one.
    """

    def __init__(self, runner: Runner, context: int, several: bool) -> None:
        self._run = runner
        self._context = context
        self._several = several
        self._tokens: list[int] = []
        self._chain: list[int] = []
        self._held: list[int] = []
        """What the state has seen."""
        self._cache: Any = None
        known = inspect.signature(runner.module.forward).parameters
        self._cache_name = next((name for name in ("past_key_values", "cache_params", "state") if name in known), None)

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
        first = len(self._chain)
        if layers is not None or list(parents) != list(range(first - 1, first - 1 + len(tokens))):
            raise UserError("This model decodes plainly: it evaluates neither branching trees nor single layers.")
        if len(self._tokens) + first + len(tokens) > self._context:
            raise ContextFull(f"{len(tokens):,} more tokens do not fit in the context of {self._context:,}: start a new chat.")
        if not tokens:
            return TorchScores(torch.empty((0, 0)), (), ())
        wanted = list(range(first, first + len(tokens)) if rows is None else rows)
        behind = self._tokens + self._chain
        if self._held != behind:
            self._cache, self._held = None, []
        pending = behind[len(self._held) :] + list(tokens)
        with torch.inference_mode():
            parts = []
            while pending:
                size = len(pending) if self._several or not self._held else 1
                parts.append(self._feed(pending[:size]))
                pending = pending[size:]
            logits = torch.cat(parts)[-len(tokens) :][[row - first for row in wanted]]
        self._chain.extend(tokens)
        self.nodes_evaluated += len(tokens)
        self.forward_seconds += time.perf_counter() - begun
        return TorchScores(logits, tuple(wanted), tuple(len(self._tokens) + row + 1 for row in wanted))

    def _feed(self, tokens: list[int]) -> Tensor:
        """One pass; logits [n, vocab]. The state is lost if it fails."""
        run, name = self._run, self._cache_name
        if name is None:
            tokens, self._held = self._held + tokens, []
        elif self._cache is None and name != "state":
            module: Any = run.module
            self._cache = DynamicCache(config=module.config)
        held, self._held = self._held, []
        kwargs = {} if name is None else {name: self._cache, "use_cache": True}
        out = run.module(input_ids=torch.tensor([tokens], device=run.device), **kwargs)
        if name is not None:
            self._cache = getattr(out, name, None) or self._cache
        self._held = held + tokens
        return out.logits[0]  # type: ignore[no-any-return]

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

    def close(self) -> None:
        """Free the state."""
        self._cache = None
        self.rewind(0)
