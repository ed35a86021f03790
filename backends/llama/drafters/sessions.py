"""Sessions of drafters that llama.cpp computes: contexts with hidden states among their inputs and outputs, EAGLE-3 heads and
MTP layers (pair i of a conversation is at position i), assistants, and DFlash, DFlash 2 and DSpark drafters (a cache of the
target's states, and blocks of mask tokens that leave nothing behind).

Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test" (2025),
arXiv:2503.01840; Chen et al., "DFlash: Block Diffusion for Flash Speculative Decoding" (2026), arXiv:2602.06036.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....errors import UserError
from ...base import PREFILL_CHUNK, ROOT, Session
from ...heads.base import BlockSession
from ...heads.dflash.format import Selector
from ...heads.dflash.paths import MarkovBlock, MarkovHead, PathBlockSession, SelectorBlock, SelectorHead
from ...heads.gguf_format import GgufDFlashFormat
from ...heads.layers import scattered
from ...heads.sessions import HeadSession, TextOnlySession
from ...scores import TorchScores
from ..context import LlamaContext, Runtime, Weights, alive, states_at
from ..hidden_states import next_states
from ..library import last_error
from ..options import sequences
from ..sequences import LeafNode, Sequences
from ..session import LlamaSession

FLOATS = ctypes.POINTER(ctypes.c_float)


@dataclass(frozen=True, slots=True)
class LoadedDrafter:
    """A drafter in memory."""

    weights: Weights
    runtime: Runtime
    other: LlamaContext | None
    """The target's context, if the drafter uses its embeddings or LM head."""
    mtp: bool = False
    """Whether it is the target's own MTP layer."""


def failed(code: int) -> UserError:
    """Make the error for a pass that llama.cpp refuses."""
    return UserError(f"llama.cpp could not draft ({last_error() or f'code {code}'}). Use a smaller context or another method.")


class StatesContext(LlamaContext):
    """A context that takes hidden states of the target."""

    def states_batch(self, states: Tensor, position: int, *, outputs: bool) -> tuple[Any, Any]:
        """Make llama.cpp's batch of states without tokens; return it with the arrays that must live as long.

        Args:
            states: [n, taps × width of the target].
            position: of the first; the others follow.
            outputs: whether outputs of the pass are read.
        """
        n = len(states)
        floats = np.ascontiguousarray(states.numpy(), np.float32)
        positions = np.arange(position, position + n, dtype=np.int32)
        counts, flags = np.ones(n, np.int32), np.full(n, outputs, np.int8)
        ids = np.full(n, self._row(1)[1], np.uintp)
        batch = self.batch(positions, counts, ids, flags)
        batch.n_tokens = n
        batch.embd = floats.ctypes.data_as(FLOATS)
        return batch, (floats, positions, counts, flags, ids)


class PathContext(StatesContext):
    """A KV cache of a drafter that goes on from its own output.

    Args:
        weights: the drafter's.
        runtime, size, sequences: as `LlamaContext`.
        width: of the states that go in with tokens, and of those that come out.
        other, mtp: as `LlamaContext`.

    Raises:
        UserError: there is not enough memory; llama.cpp's message.
    """

    def __init__(
        self,
        weights: Weights,
        runtime: Runtime,
        size: int,
        sequences: int,
        width: int,
        other: LlamaContext | None = None,
        *,
        mtp: bool = False,
    ) -> None:
        super().__init__(weights, runtime, size, sequences, other=other, mtp=mtp)
        self._width = width
        # One row for each token of a pass; llama.cpp reads as many as there are tokens.
        self._beside = np.zeros((PREFILL_CHUNK, width), np.float32)
        self._batch.embd = self._beside.ctypes.data_as(FLOATS)
        functions = next_states()
        assert functions is not None  # checked at load
        functions[0](self.handle, True, True)
        self._next_address = functions[1]

    def decode_beside(
        self, tokens: Sequence[int], states: Tensor, positions: Sequence[int], holders: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Run one pass over tokens with a state each. All are scored: asked for some, llama.cpp hands out the wrong rows.

        Args:
            tokens: [n], n ≤ `rows`.
            positions, holders: as `decode`.
            states: [n, width].

        Returns:
            logits [n, vocab], and output states [n, width]; copies.

        Raises:
            UserError: llama.cpp failed.
        """
        self._beside[: len(tokens)] = states.numpy()
        if code := self.decode(tokens, positions, holders, range(len(tokens))):
            raise failed(code)
        return self.logits(len(tokens)).clone(), self._output_states(len(tokens))

    def encode(self, states: Tensor, position: int) -> Tensor:
        """Project the target's states to those that go in with tokens. The cache stays as it is.

        Args:
            states: [n, taps × width of the target], n ≤ `rows`.
            position: the first free one, which llama.cpp insists on though it makes no difference.

        Returns:
            the projected states [n, width], a copy.
        """
        n = len(states)
        batch, _arrays = self.states_batch(states, position, outputs=True)
        if code := self.lib.llama_encode(self.handle, batch):
            raise failed(code)
        return self._output_states(n)

    def _output_states(self, rows: int) -> Tensor:
        return states_at(self._next_address(self.handle), rows, self._width).clone()


class LlamaEagleSession(HeadSession):
    """One conversation with an EAGLE-3 head or an MTP layer."""

    def __init__(self, loaded: LoadedDrafter, context: int) -> None:
        super().__init__(context, torch.device("cpu"))
        weights = loaded.weights
        rows = sequences(weights.vocabulary)
        run = PathContext(weights, loaded.runtime, context, rows, weights.width, loaded.other, mtp=loaded.mtp)
        self._llama_context: PathContext | None = run
        self._mtp = loaded.mtp
        self._nodes: dict[int, LeafNode] = {}
        self._sequences = Sequences(run, run.rows, self._nodes)
        self.branches = run.rows
        self.chunk = run.rows  # the rows that fit in the buffer for logits

    def _take(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        if not self._mtp:
            states = alive(self._llama_context).encode(states, self.length)
        logits, outputs = self._pass(tokens, range(ROOT, len(tokens) - 1), states, first=0)
        self._sequences.commit(range(len(tokens)), ())
        self._nodes.clear()
        return logits[-1:], outputs[-1:]

    def _branch(
        self, tokens: Sequence[int], parents: Sequence[int], depths: Sequence[int], above: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self._pass(tokens, parents, above, first=len(self._depths))

    def _pass(self, tokens: Sequence[int], parents: Sequence[int], features: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Run nodes numbered from `first`; return their logits [n, vocab] and output states [n, width]."""
        run, sequences = alive(self._llama_context), self._sequences
        new = sequences.grow(first, tokens, parents)
        try:
            outputs = run.decode_beside(tokens, features, [node.position for node in new], [node.holders for node in new])
        except BaseException:
            sequences.withdraw()
            raise
        self._nodes.update(enumerate(new, first))
        return outputs

    def drop(self, first: int) -> None:
        # A node comes after its parent, so no remaining node hangs below a dropped one.
        if dropped := {number for number in self._nodes if number >= first}:
            self._sequences.drop(dropped)
            for number in dropped:
                del self._nodes[number]
        super().drop(first)

    def _cut(self, length: int) -> None:
        self._sequences.rewind(length)

    def close(self) -> None:
        if self._llama_context is not None:
            super().close()
            self._llama_context = None
            self._sequences.close()


HOLDER = 1
"""The bit of the target's first sequence, which holds the text and nothing else."""


class LlamaAssistantSession(TextOnlySession):
    """An assistant's session, with a context that reads the cache of the target's session.

    Args:
        loaded: the assistant.
        width: of the target's states.
        context: most tokens.
    """

    def __init__(self, loaded: LoadedDrafter, width: int, context: int) -> None:
        super().__init__(context, torch.device("cpu"))
        self._loaded = loaded
        self._width = width
        self._llama_context: PathContext | None = None

    def follow(self, target: Session) -> None:
        assert isinstance(target, LlamaSession)
        weights, runtime = self._loaded.weights, self._loaded.runtime

        def make(other: LlamaContext) -> PathContext:
            return PathContext(weights, runtime, target.context, other.rows, self._width, other, mtp=True)

        self._llama_context = target.reader(weights, make)
        self.chunk = self._llama_context.rows

    def _step(self, tokens: Sequence[int], states: Tensor, length: int) -> tuple[Tensor, Tensor]:
        assert self._llama_context is not None, "follow comes first"
        # All nodes are at the pending token's position; none stays in the cache.
        return self._llama_context.decode_beside(tokens, states, [length] * len(tokens), [HOLDER] * len(tokens))

    def close(self) -> None:
        super().close()
        self._llama_context = None


class LlamaDFlashSession(BlockSession):
    """One conversation with a DFlash drafter."""

    def __init__(self, loaded: LoadedDrafter, format: GgufDFlashFormat, context: int) -> None:
        super().__init__(context)
        block = format.block
        # As many rows of logits as a block has: llama.cpp hands out all of a pass or none.
        run = StatesContext(loaded.weights, loaded.runtime, context + block, block, other=loaded.other)
        run.lib.llama_set_causal_attn(run.handle, format.causal)
        self._llama_context: StatesContext | None = run
        self._format = format

    def extend(self, states: Tensor) -> None:
        run, first = alive(self._llama_context), self.length
        self.check_room(len(states))
        for start in range(0, len(states), PREFILL_CHUNK):
            part = states[start : start + PREFILL_CHUNK]
            batch, _arrays = run.states_batch(part, first + start, outputs=False)
            if code := run.lib.llama_decode(run.handle, batch):
                self.rewind(first)
                raise failed(code)
            self.length += len(part)

    def guess(self, token: int, count: int) -> TorchScores:
        """Score the next positions (see `BlockSession.guess`). The pass always runs a whole block, as in training. For DSpark,
        llama.cpp adds to each position the bias of the likeliest token before."""
        run, format, start = alive(self._llama_context), self._format, self.length
        code = run.decode(format.tokens(token), range(start, start + format.block), [1] * format.block, range(format.block))
        try:
            if code:
                raise failed(code)
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
        alive(self._llama_context).remove(0, length, -1)

    def close(self) -> None:
        self._llama_context = None
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
        self,
        loaded: LoadedDrafter,
        format: GgufDFlashFormat,
        context: int,
        paths: MarkovHead | SelectorHead,
        ids: Tensor | None,
    ) -> None:
        super().__init__(loaded, format, context)
        self._paths = paths
        self._ids = ids
        self._vocabulary = loaded.weights.vocabulary

    def _run_block(self, token: int, count: int) -> MarkovBlock | SelectorBlock:
        run, first = alive(self._llama_context), self._format.first
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
        return MarkovBlock(self._paths, logits)

    def _outputs(self, run: StatesContext) -> Tensor:
        """Copy the layers' outputs for the last block [block, width]."""
        address = ctypes.cast(run.lib.llama_get_embeddings(run.handle), ctypes.c_void_p).value
        return states_at(address, self._format.block, run.weights.width).clone()

    def _spread(self, logits: Tensor) -> Tensor:
        return scattered(logits, self._ids, self._vocabulary)
