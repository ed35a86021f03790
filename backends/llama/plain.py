"""Chains of nodes on a llama.cpp cache that cannot branch; and the contexts and sessions of a model, whatever it can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import UserError, counted
from ..base import PREFILL_CHUNK
from ..files.gguf_file import Header
from ..sessions.chain import ChainSession, ReturningSession
from ..sessions.states import States
from .context import LlamaContext, Runtime, Weights, alive
from .options import cache_bytes, sequences
from .session import LlamaSession


class LlamaPlainSession(ChainSession):
    """One conversation on a cache that only goes forward. Its context is not shared."""

    def __init__(self, context: LlamaContext, size: int) -> None:
        super().__init__(size)
        self._llama_context: LlamaContext | None = context
        self._vocabulary = context.weights.vocabulary

    def _forget(self) -> None:
        super()._forget()
        if self._llama_context is not None:
            self._llama_context.clear()

    def _read(self, text: list[int], places: list[int]) -> Tensor:
        context = alive(self._llama_context)
        new = text[len(self._held) :]
        if new and not (min(new) >= 0 and max(new) < self._vocabulary):
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        scored = sorted(set(places))
        parts = [torch.empty((0, self._vocabulary))]
        while len(self._held) < len(text):
            begin = len(self._held)
            end, flagged = self._part(context, begin, len(text), [place for place in scored if place >= begin])
            code = context.decode(text[begin:end], range(begin, end), [1] * (end - begin), [place - begin for place in flagged])
            if code:
                self._forget()
                raise UserError(
                    f"llama.cpp could not evaluate {counted(end - begin, 'token')} (code {code}). Use a smaller context or "
                    "model."
                )
            self._held = text[:end]
            self._heard(context, begin, end)
            if not flagged:
                continue
            rows = context.logits(len(flagged))
            if end == len(text) and flagged == places:
                return rows
            parts += [row[None].clone() for place, row in zip(flagged, rows, strict=True) if place in scored]
        return torch.cat(parts)[[scored.index(place) for place in places]]

    def _part(self, context: LlamaContext, begin: int, end: int, scored: list[int]) -> tuple[int, list[int]]:
        """Return the end of a pass that begins at `begin`, and the places that it scores.

        Scored tokens run alone, as in plain decoding: from a pass of several, CogVLM's rows are of other tokens.
        """
        if scored[:1] == [begin]:
            return begin + 1, [begin]
        return min([end, begin + PREFILL_CHUNK, *scored[:1]]), []

    def _heard(self, context: LlamaContext, begin: int, end: int) -> None:
        """Keep the hidden states of a pass."""

    def close(self) -> None:
        self.rewind(0)
        self._forget()
        self._llama_context = None


class LlamaHybridSession(ReturningSession[NDArray[np.uint8]], LlamaPlainSession):
    """One conversation on a cache with a recurrent state, which is copied out to be put back later. Attention's cells stay
    where they are and are cut. llama.cpp's own ways back are not used: it grants some of which it does not have the state."""

    def __init__(self, context: LlamaContext, size: int, taps: Sequence[int] = ()) -> None:
        super().__init__(context, size)
        weights = context.weights
        self._score_all = weights.layers in taps and not weights.all_last
        if taps:
            context.tap(taps)
            self._states = States(taps, weights.width, size, torch.float32, torch.device("cpu"))

    def _advance(self, text: list[int], places: list[int]) -> Tensor:
        return LlamaPlainSession._read(self, text, places)

    def _part(self, context: LlamaContext, begin: int, end: int, scored: list[int]) -> tuple[int, list[int]]:
        if self._score_all:
            end = min(end, begin + context.rows)
            return end, list(range(begin, end))
        end = min([end, begin + PREFILL_CHUNK, *scored[context.rows : context.rows + 1]])
        return end, [place for place in scored if place < end]

    def _heard(self, context: LlamaContext, begin: int, end: int) -> None:
        if self._states is not None:
            for tap in dict.fromkeys(self._states.taps):
                self._states.write(tap, begin, context.hidden(tap, end - begin))

    def _save(self) -> NDArray[np.uint8]:
        assert self._llama_context is not None
        return self._llama_context.save()

    def _put_back(self, state: NDArray[np.uint8], length: int) -> None:
        assert self._llama_context is not None
        if not self._llama_context.restore(state, length):
            self._forget()
            raise UserError("llama.cpp could not put this model's state back. Start a new chat.")

    def close(self) -> None:
        super().close()
        self._states = None


HYBRID_ROWS = 64
"""Most rows of logits in a pass of a hybrid, whose chains are shorter."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """Opener of contexts and sessions over the weights of a model."""

    weights: Weights
    header: Header
    """Metadata of its file."""
    name: str
    """Its name in messages."""

    def open(self, runtime: Runtime, size: int, *, sequences: int, rows: int | None = None) -> LlamaContext:
        """Open a context of `size` tokens or more (see `least_context`).

        Raises:
            UserError: there is not enough memory.
        """
        size = max(size, self.weights.least)
        try:
            return LlamaContext(self.weights, runtime, size, sequences, rows=rows)
        except UserError as error:
            needed = cache_bytes(self.header, runtime, size) / 1e9
            raise UserError(
                f"llama.cpp could not open a context of {size:,} tokens for {self.name}, about {needed:.1f} GB ({error}). Use "
                "a smaller context or model."
            ) from None

    def open_session(
        self, runtime: Runtime, size: int, *, alike: bool, taps: Sequence[int] = ()
    ) -> LlamaSession | LlamaHybridSession:
        """Open a session that verifies drafts, in a new context; `alike` as in `LlamaSession`."""
        if self.weights.recurrent:
            return LlamaHybridSession(self.open(runtime, size, sequences=1, rows=HYBRID_ROWS), size, taps)
        leaves = sequences(self.weights.vocabulary)
        return LlamaSession(self.open(runtime, size, sequences=leaves), size, alike, taps)
