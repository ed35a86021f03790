"""DFlash and DSpark drafters that llama.cpp computes: a cache of the target's states, and blocks of mask tokens that leave
nothing behind.

Chen et al., "DFlash: Block Diffusion for Flash Speculative Decoding" (2026), arXiv:2602.06036.
"""

from __future__ import annotations

from torch import Tensor

from ....errors import UserError
from ...base import PREFILL_CHUNK
from ...heads.base import BlockSession
from ...heads.gguf_format import GgufDFlashFormat
from ...scores import TorchScores
from ..context import alive
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
                raise UserError(
                    f"llama.cpp could not read the hidden states of {len(part):,} tokens ({last_error() or f'code {code}'})."
                )
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
        if found.logit_scale:
            logits *= found.logit_scale
        if found.softcap:
            logits = (logits / found.softcap).tanh() * found.softcap
        return TorchScores(logits, tuple(range(count)), tuple(range(start + 1, start + 1 + count)))

    def _cut(self, length: int) -> None:
        alive(self._run).remove(0, length, -1)

    def close(self) -> None:
        self._run, self.length = None, 0
