"""A chain of nodes on transformers' own cache."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from ..chain import ChainSession

if TYPE_CHECKING:
    from .session import Runner


class PlainSession(ChainSession):
    """One conversation on transformers' own cache.

    Args:
        runner: the model.
        context: most tokens.
        several: whether a pass may hold several tokens after others; else they go in one by one.
    """

    def __init__(self, runner: Runner, context: int, several: bool) -> None:
        super().__init__(context)
        self._run = runner
        self._several = several
        self._cache: Any = None
        known = inspect.signature(runner.module.forward).parameters
        self._cache_name = next((name for name in ("past_key_values", "cache_params", "state") if name in known), None)

    def _forget(self) -> None:
        super()._forget()
        self._cache = None

    def _read(self, text: list[int], wanted: list[int]) -> Tensor:
        pending = text[len(self._held) :]
        parts = []
        with torch.inference_mode():
            while pending:
                size = len(pending) if self._several or not self._held else 1
                parts.append(self._feed(pending[:size]))
                pending = pending[size:]
            return torch.cat(parts)[[place - len(text) for place in wanted]]

    def _feed(self, tokens: list[int]) -> Tensor:
        """One pass; logits [n, vocab]. The state is lost if it fails."""
        run, name, cache = self._run, self._cache_name, self._cache
        seen = self._held + tokens
        fed = range(0 if name is None else len(self._held), len(seen))
        self.flops += run.flops.count(fed, len(fed))
        self._forget()
        if cache is None and name not in (None, "state"):
            module: Any = run.module
            cache = DynamicCache(config=module.config)
        kwargs = {} if name is None else {name: cache, "use_cache": True}
        out = run.module(input_ids=torch.tensor([seen if name is None else tokens], device=run.device), **kwargs)
        if name is not None:
            self._cache = getattr(out, name, None) or cache
        self._held = seen
        return out.logits[0]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Free the state."""
        self.rewind(0)
        self._forget()
