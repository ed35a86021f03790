"""Gemma 4's assistants that llama.cpp computes: a context of their own over the cache of the target's session."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...base import Session
from ...heads.assistant.memory import AssistantMemory
from ..context import Context
from ..session import LlamaSession
from .context import Loaded, PathContext, opened

HOLDER = 1
"""The first of the target's sequences, as bits: it holds the text and nothing else."""


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
