"""A chain of nodes on a llama.cpp cache."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import UserError, counted
from ..base import PREFILL_CHUNK
from ..sessions.chain import ChainSession
from .context import Context


class LlamaPlainSession(ChainSession):
    """One conversation on a llama.cpp cache.

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
        run = self._run
        if run is None:
            raise UserError("This conversation is closed. Start a new one.")
        new = text[len(self._held) :]
        if not (min(new) >= 0 and max(new) < self._vocabulary):
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        rows = dict.fromkeys(wanted, torch.empty(0))
        while len(self._held) < len(text):
            begin = len(self._held)
            # What is wanted goes in alone, as in plain decoding: from a pass of several, CogVLM's rows are of other tokens.
            flagged = [begin] if begin in rows else []
            most = min(len(text), begin + (1 if flagged else PREFILL_CHUNK))
            end = next((i for i in range(begin + 1, most) if i in rows), most)
            code = run.decode(text[begin:end], range(begin, end), [1] * (end - begin), [i - begin for i in flagged])
            if code:
                self._forget()
                raise UserError(
                    f"llama.cpp could not evaluate {counted(end - begin, 'token')} (code {code}). Use a smaller context or "
                    "model."
                )
            self._held = text[:end]
            if flagged:
                rows.update(zip(flagged, run.logits(len(flagged)).clone(), strict=True))
        self.flops = run.computed
        return torch.stack([rows[place] for place in wanted]) if wanted else torch.empty((0, self._vocabulary))

    def close(self) -> None:
        self.rewind(0)
        self._held = []
        self._run = None
