"""Chains of nodes on a llama.cpp cache that cannot branch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import UserError, counted
from ..base import PREFILL_CHUNK
from ..sessions.chain import ChainSession, ReturningSession
from ..sessions.states import States
from .context import Context, alive


class LlamaPlainSession(ChainSession):
    """One conversation on a cache that only goes forward.

    Args:
        context: its own; nobody else uses it.
        size: most tokens.
    """

    def __init__(self, context: Context, size: int) -> None:
        super().__init__(size)
        self._run: Context | None = context
        self._vocabulary = context.weights.vocabulary

    def _forget(self) -> None:
        super()._forget()
        if self._run is not None:
            self._run.clear()

    def _read(self, text: list[int], wanted: list[int]) -> Tensor:
        run = alive(self._run)
        new = text[len(self._held) :]
        if new and not (min(new) >= 0 and max(new) < self._vocabulary):
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        scored = sorted(set(wanted))
        parts = [torch.empty((0, self._vocabulary))]
        while len(self._held) < len(text):
            begin = len(self._held)
            end, flagged = self._part(run, begin, len(text), [place for place in scored if place >= begin])
            code = run.decode(text[begin:end], range(begin, end), [1] * (end - begin), [place - begin for place in flagged])
            if code:
                self._forget()
                raise UserError(
                    f"llama.cpp could not evaluate {counted(end - begin, 'token')} (code {code}). Use a smaller context or "
                    "model."
                )
            self._held = text[:end]
            self._heard(run, begin, end)
            if not flagged:
                continue
            rows = run.logits(len(flagged))
            if end == len(text) and flagged == wanted:
                return rows
            parts += [row[None].clone() for place, row in zip(flagged, rows, strict=True) if place in scored]
        return torch.cat(parts)[[scored.index(place) for place in wanted]]

    def _part(self, run: Context, begin: int, end: int, scored: list[int]) -> tuple[int, list[int]]:
        """Where a pass ends that begins there, and the places that it gives logits for.

        What is wanted goes in alone, as in plain decoding: from a pass of several, CogVLM's rows are of other tokens.
        """
        if scored[:1] == [begin]:
            return begin + 1, [begin]
        return min([end, begin + PREFILL_CHUNK, *scored[:1]]), []

    def _heard(self, run: Context, begin: int, end: int) -> None:
        """A pass over these places is done."""

    def close(self) -> None:
        self.rewind(0)
        self._forget()
        self._run = None


class LlamaHybridSession(ReturningSession[NDArray[np.uint8]], LlamaPlainSession):
    """One conversation on a cache with a recurrent state, which is copied out to be put back later. Cells of attention stay
    where they are and are cut.

    llama.cpp's own ways back are not used: it grants some of which it does not have the state.

    Args:
        context: its own; nobody else uses it.
        size: most tokens.
        taps: as `Model.open_session`.
    """

    def __init__(self, context: Context, size: int, taps: Sequence[int] = ()) -> None:
        super().__init__(context, size)
        weights = context.weights
        self._last_tapped = weights.layers in taps and not weights.all_last
        if taps:
            context.tap(taps)
            self._states = States(taps, weights.width, size, torch.float32, torch.device("cpu"))

    def _advance(self, text: list[int], wanted: list[int]) -> Tensor:
        return LlamaPlainSession._read(self, text, wanted)

    def _part(self, run: Context, begin: int, end: int, scored: list[int]) -> tuple[int, list[int]]:
        if self._last_tapped:
            end = min(end, begin + run.rows)
            return end, list(range(begin, end))
        end = min([end, begin + PREFILL_CHUNK, *scored[run.rows : run.rows + 1]])
        return end, [place for place in scored if place < end]

    def _heard(self, run: Context, begin: int, end: int) -> None:
        if self._states is not None:
            for tap in dict.fromkeys(self._states.taps):
                self._states.write(tap, begin, run.hidden(tap, end - begin))

    def _save(self) -> NDArray[np.uint8]:
        assert self._run is not None
        return self._run.save()

    def _put_back(self, state: NDArray[np.uint8], seen: int) -> None:
        assert self._run is not None
        if not self._run.restore(state, seen):
            self._forget()
            raise UserError("llama.cpp could not put this model's state back. Start a new chat.")

    def close(self) -> None:
        super().close()
        self._states = None
