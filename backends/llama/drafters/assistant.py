"""Gemma 4's assistants that llama.cpp computes: a context of their own over the cache of the target's session."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....errors import UserError
from ...base import Session
from ...heads.assistant.memory import AssistantMemory
from ...heads.base import HeadInfo, PathHead
from ..context import Context
from ..session import LlamaSession
from .context import Loaded, PathContext, opened

HOLDER = 1
"""The first of the target's sequences, as bits: it holds the text and nothing else."""


class LlamaAssistantHead(PathHead):
    """A loaded assistant (see load.py)."""

    def __init__(self, loaded: Loaded, width: int, info: HeadInfo) -> None:
        self._loaded: Loaded | None = loaded
        self._width, self.info = width, info

    def open(self, context: int) -> LlamaAssistantSession:
        if self._loaded is None:
            raise UserError(f"{self.info.name} is no longer loaded. Load it again.")
        return LlamaAssistantSession(self._loaded, self._width, context)

    def close(self) -> None:
        """Free the weights; sessions that are open keep them until they are closed."""
        self._loaded = None


class LlamaAssistantSession(AssistantMemory):
    """What an assistant knows of a conversation, and its context beside the target's session.

    Args:
        loaded: the assistant.
        width: of the target's states.
        context: most tokens.
    """

    def __init__(self, loaded: Loaded, width: int, context: int) -> None:
        super().__init__(context)
        self._loaded, self._width = loaded, width
        self._run: PathContext | None = None

    def follow(self, target: Session) -> None:
        assert isinstance(target, LlamaSession)
        weights, runtime = self._loaded.weights, self._loaded.runtime

        def make(other: Context) -> PathContext:
            size = target.context
            return opened(lambda: PathContext(weights, runtime, size, other.rows, self._width, other, mtp=True), size)

        self._run = target.reader(weights, make)

    def _step(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        assert self._run is not None, "follow comes first"
        run, found = self._run, []
        for begin in range(0, len(tokens), run.rows):
            part = tokens[begin : begin + run.rows]
            # Every node at the pending token's position: none stays in the cache.
            positions, holders = [self.length] * len(part), [HOLDER] * len(part)
            found.append(run.decode_beside(part, states[begin : begin + len(part)], positions, holders))
        logits, after = zip(*found, strict=True)
        return torch.cat(logits), torch.cat(after)

    def close(self) -> None:
        super().close()
        self._run = None
