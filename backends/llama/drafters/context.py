"""llama.cpp contexts of drafters, with hidden states among their inputs and outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from ....errors import UserError
from ...base import PREFILL_CHUNK
from ..context import Context, Runtime, Weights, states_at
from ..hidden_states import next_states
from ..library import last_error

FLOATS = ctypes.POINTER(ctypes.c_float)

C = TypeVar("C", bound=Context)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A drafter in memory."""

    weights: Weights
    runtime: Runtime
    other: Context | None
    """The target's context, if the drafter uses its embeddings or LM head."""
    mtp: bool = False
    """Whether it is the target's own MTP layer."""


def opened(kind: Callable[[], C], context: int) -> C:
    """Create a drafter's context with `kind`.

    Raises:
        UserError: there is not enough memory.
    """
    try:
        return kind()
    except UserError as error:
        raise UserError(
            f"llama.cpp could not open a context of {context:,} tokens for the drafter ({error}). Use a smaller context or "
            "another method."
        ) from None


class StatesContext(Context):
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
        runtime, size, sequences: as `Context`.
        width: of the states that go in with tokens, and of those that come out.
        other, mtp: as `Context`.

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
        other: Context | None = None,
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
            raise UserError(
                f"llama.cpp could not draft after {len(tokens):,} tokens ({last_error() or f'code {code}'}). Use shorter "
                "drafts, a smaller context or another method."
            )
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
            raise UserError(f"The drafter's llama.cpp failed ({last_error() or f'code {code}'}). Use another method.")
        return self._output_states(n)

    def _output_states(self, rows: int) -> Tensor:
        return states_at(self._next_address(self.handle), rows, self._width).clone()
