"""DFlash, DFlash 2 and DSpark drafters that llama.cpp computes: a cache of the target's states, and blocks of mask tokens that
leave nothing behind.

Chen et al., "DFlash: Block Diffusion for Flash Speculative Decoding" (2026), arXiv:2602.06036.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from ....errors import UserError
from ...base import PREFILL_CHUNK
from ...heads.base import BlockSession
from ...heads.dflash.format import Selector
from ...heads.dflash.paths import MarkovBlock, MarkovHead, PathBlockSession, SelectorBlock, SelectorHead
from ...heads.gguf_format import GgufDFlashFormat
from ...heads.layers import scattered
from ...scores import TorchScores
from ..context import alive, states_at
from ..library import last_error
from .context import Loaded, StatesContext, opened


class LlamaDFlashSession(BlockSession):
    """One conversation with a DFlash drafter."""

    def __init__(self, loaded: Loaded, format: GgufDFlashFormat, context: int) -> None:
        super().__init__(context)
        block = format.block
        # As many rows of logits as a block has: llama.cpp hands out all of a pass or none.
        run = opened(lambda: StatesContext(loaded.weights, loaded.runtime, context + block, block, other=loaded.other), context)
        run.lib.llama_set_causal_attn(run.handle, format.causal)
        self._run: StatesContext | None = run
        self._format = format

    def extend(self, states: Tensor) -> None:
        run, first = alive(self._run), self.length
        self.check_room(len(states))
        for start in range(0, len(states), PREFILL_CHUNK):
            part = states[start : start + PREFILL_CHUNK]
            batch, _arrays = run.states_batch(part, first + start, outputs=False)
            if code := run.lib.llama_decode(run.handle, batch):
                self.rewind(first)
                raise UserError(f"The drafter's llama.cpp failed ({last_error() or f'code {code}'}). Use another method.")
            self.length += len(part)

    def guess(self, token: int, count: int) -> TorchScores:
        """Score the next positions (see `BlockSession.guess`). The pass always runs a whole block, as in training. For DSpark,
        llama.cpp adds to each position the bias of the likeliest token before."""
        run, format, start = alive(self._run), self._format, self.length
        code = run.decode(format.tokens(token), range(start, start + format.block), [1] * format.block, range(format.block))
        try:
            if code:
                raise UserError(
                    f"llama.cpp could not draft a block of {format.block} tokens ({last_error() or f'code {code}'}). Use a "
                    "smaller context or another method."
                )
            logits = run.logits(format.block)[format.first : format.first + count].clone()
        finally:
            run.remove(0, start, -1)
        scaled = isinstance(format.paths, Selector)  # by llama.cpp itself
        if format.logit_scale and not scaled:
            logits *= format.logit_scale
        if format.softcap and not scaled:
            logits = (logits / format.softcap).tanh() * format.softcap
        return TorchScores(logits, tuple(range(count)), tuple(range(start + 1, start + 1 + count)))

    def _cut(self, length: int) -> None:
        alive(self._run).remove(0, length, -1)

    def close(self) -> None:
        self._run = None
        self.length = 0


class LlamaDFlashPathSession(LlamaDFlashSession, PathBlockSession):
    """A session of a drafter whose guesses depend on the token before: llama.cpp runs the layers, and what follows each node is
    scored here, as llama.cpp itself follows a single path only.

    Args:
        loaded, format: the drafter.
        context: most tokens.
        paths: DSpark's or DFlash 2's head.
        ids: the target's ids of the drafted tokens [drafted]; None for all.
    """

    def __init__(
        self, loaded: Loaded, format: GgufDFlashFormat, context: int, paths: MarkovHead | SelectorHead, ids: Tensor | None
    ) -> None:
        super().__init__(loaded, format, context)
        self._paths = paths
        self._ids = ids
        self._vocabulary = loaded.weights.vocabulary

    def _run_block(self, token: int, count: int) -> MarkovBlock | SelectorBlock:
        run, first = alive(self._run), self._format.first
        if isinstance(self._paths, SelectorHead):
            run.lib.llama_set_embeddings(run.handle, True)
            try:
                logits = self.guess(token, count).logits
                return SelectorBlock(self._paths, self._outputs(run)[first : first + count], logits)
            finally:
                run.lib.llama_set_embeddings(run.handle, False)
        logits = self.guess(token, count).logits
        if self._ids is not None:
            logits = logits[:, self._ids]
        # llama.cpp has added to each row the bias of the likeliest token of the row before: subtract it.
        likeliest = logits[:-1].argmax(-1)
        before = torch.cat((torch.tensor([token]), likeliest if self._ids is None else self._ids[likeliest]))
        logits = logits - self._paths.before[before] @ self._paths.after.T
        return MarkovBlock(self._paths, logits.new_zeros((count, 1)), logits)

    def _outputs(self, run: StatesContext) -> Tensor:
        """Copy the layers' outputs for the last block [block, width]."""
        address = ctypes.cast(run.lib.llama_get_embeddings(run.handle), ctypes.c_void_p).value
        return states_at(address, self._format.block, run.weights.width).clone()

    def _spread(self, logits: Tensor) -> Tensor:
        return scattered(logits, self._ids, self._vocabulary)
