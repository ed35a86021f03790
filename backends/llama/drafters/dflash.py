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
from ...heads.dflash.paths import MarkovHead, PathBlock, PathMemory, SelectorHead
from ...heads.gguf_format import GgufDFlashFormat
from ...heads.layers import scattered
from ...scores import TorchScores
from ..context import alive, states_at
from ..library import last_error
from .context import Loaded, StatesContext, opened


class LlamaDFlashSession(BlockSession):
    """One conversation's cache."""

    def __init__(self, loaded: Loaded, found: GgufDFlashFormat, context: int) -> None:
        super().__init__(context)
        block = found.block
        # As many rows of logits as a block has: llama.cpp hands out all of a pass or none.
        run = opened(lambda: StatesContext(loaded.weights, loaded.runtime, context + block, block, other=loaded.other), context)
        run.lib.llama_set_causal_attn(run.handle, found.causal)
        self._run: StatesContext | None = run
        self._found = found

    def extend(self, states: Tensor) -> None:
        run, begun = alive(self._run), self.length
        self.check_room(len(states))
        for start in range(0, len(states), PREFILL_CHUNK):
            part = states[start : start + PREFILL_CHUNK]
            batch, _held = run.states_batch(part, begun + start, wanted=False)
            if code := run.lib.llama_decode(run.handle, batch):
                self.rewind(begun)
                raise UserError(f"The drafter's llama.cpp failed ({last_error() or f'code {code}'}). Use another method.")
            self.length += len(part)

    def guess(self, token: int, count: int) -> TorchScores:
        """Scores of the next positions (see `BlockSession.guess`). The block is a whole one, as in training. In DSpark
        llama.cpp lets the likeliest token of each position have its say on the next."""
        run, found, start = alive(self._run), self._found, self.length
        first = 0 if found.from_anchor else 1
        block = [token, *[found.mask] * (found.block - 1)]
        code = run.decode(block, range(start, start + found.block), [1] * found.block, range(found.block))
        try:
            if code:
                raise UserError(
                    f"llama.cpp could not draft a block of {found.block} tokens ({last_error() or f'code {code}'}). Use a "
                    "smaller context or another method."
                )
            logits = run.logits(found.block)[first : first + count].clone()
        finally:
            run.remove(0, start, -1)
        scaled = isinstance(found.paths, Selector)  # by llama.cpp itself
        if found.logit_scale and not scaled:
            logits *= found.logit_scale
        if found.softcap and not scaled:
            logits = (logits / found.softcap).tanh() * found.softcap
        return TorchScores(logits, tuple(range(count)), tuple(range(start + 1, start + 1 + count)))

    def _cut(self, length: int) -> None:
        alive(self._run).remove(0, length, -1)

    def close(self) -> None:
        self._run, self.length = None, 0


class LlamaDFlashPathSession(LlamaDFlashSession, PathMemory):
    """The same of a drafter whose guesses go by the token before: llama.cpp runs the layers, and what follows each node is
    computed here. Its own way goes along one path only.

    Args:
        loaded, found: the drafter.
        context: most tokens.
        paths: what makes guesses go by the token before.
        ids: the target's ids of the tokens that are drafted [drafted]; None for all.
    """

    def __init__(
        self, loaded: Loaded, found: GgufDFlashFormat, context: int, paths: MarkovHead | SelectorHead, ids: Tensor | None
    ) -> None:
        super().__init__(loaded, found, context)
        self._paths, self._ids, self._vocabulary = paths, ids, loaded.weights.vocabulary

    def _opened(self, token: int, count: int) -> PathBlock:
        run, first = alive(self._run), 0 if self._found.from_anchor else 1
        if isinstance(self._paths, SelectorHead):
            run.lib.llama_set_embeddings(run.handle, True)
            try:
                logits = self.guess(token, count).logits
                return self._paths.open(self._outputs(run)[first : first + count], logits)
            finally:
                run.lib.llama_set_embeddings(run.handle, False)
        logits = self.guess(token, count).logits
        if self._ids is not None:
            logits = logits[:, self._ids]
        # llama.cpp has added to each row what the likeliest token of the row before says: that goes off again.
        likeliest = logits[:-1].argmax(-1)
        before = torch.cat((torch.tensor([token]), likeliest if self._ids is None else self._ids[likeliest]))
        logits = logits - self._paths.before[before] @ self._paths.after.T
        return self._paths.open(logits.new_zeros((count, 1)), logits)

    def _outputs(self, run: StatesContext) -> Tensor:
        """What the layers made of the last block [block, width], a copy."""
        address = ctypes.cast(run.lib.llama_get_embeddings(run.handle), ctypes.c_void_p).value
        return states_at(address, self._found.block, run.weights.width).clone()

    def _spread(self, logits: Tensor) -> Tensor:
        return scattered(logits, self._ids, self._vocabulary)

    def _cut(self, length: int) -> None:
        self._block, self._depths = None, []
        super()._cut(length)
