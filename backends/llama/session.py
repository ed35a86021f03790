"""Sessions on a llama.cpp model: the tree's nodes in the cells of its unified KV cache, or chains where it cannot branch; and
the opener of contexts and sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import ContextFull, UserError, counted
from ..base import PREFILL_CHUNK, ROOT, Layers
from ..files.gguf_file import Header
from ..rounding import straightest
from ..scores import TorchScores
from ..sessions.chain import ChainSession, ReturningSession
from ..sessions.states import States, TreeStates
from ..sessions.tree import TreeSession
from .context import LlamaContext, Runtime, Weights, alive
from .hidden_states import LayerOutputs
from .library import last_error
from .options import sequences
from .sequences import LeafNode, Sequences

R = TypeVar("R", bound=LlamaContext)

NO_SLOT = 1
"""The code that llama_decode returns when the cache is full; it has changed nothing."""


class LlamaSession(TreeSession[LeafNode]):
    """One conversation's KV cache on a llama.cpp model.

    Everything is checked before llama.cpp is called: an invalid request can end the process.

    Args:
        context: llama.cpp's, for this session alone.
        size: most tokens, committed and tentative together.
        alike: attention computes each node independently, so its bits depend on the order of the cells that it sees.
            Then the likeliest path gets the cells of plain decoding; `exact` counts the leading nodes that have them.
        taps: as `Model.open_session`.
    """

    _states: TreeStates | None = None

    def __init__(self, context: LlamaContext, size: int, alike: bool = False, taps: Sequence[int] = ()) -> None:
        super().__init__(size)
        self._llama_context: LlamaContext | None = context
        self._vocabulary = context.weights.vocabulary
        self._alike = alike
        self._readers: dict[Weights, Any] = {}
        self._sequences = Sequences(context, context.rows, self._nodes)
        self.branches = context.rows
        self._score_all = context.weights.layers in taps and not context.weights.all_last
        """Whether the states after the final norm are tapped and come for scored nodes only: then all are scored."""
        if taps:
            context.tap(taps)
            self._states = TreeStates(taps, context.weights.width, size, torch.float32, torch.device("cpu"))

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> TorchScores:
        """Add nodes and run one forward pass over them (see `Session.evaluate`). The scores are llama.cpp's own buffer: the
        next pass of this session overwrites them."""
        if layers is not None:
            raise UserError("llama.cpp cannot stop after some of a model's layers. Use another method.")
        start = time.perf_counter()
        first, n = self._next, len(tokens)
        self._check(tokens, parents)
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._vocabulary):
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        scored = self._rows(n, rows)
        if not n:
            return TorchScores(torch.empty((0, 0)), (), ())
        context = alive(self._llama_context)
        new = self._sequences.grow(first, tokens, parents)
        order = self._lay_out(new, parents) if self._alike else None
        try:
            if order is None:
                logits = self._pass(context, new, [row - first for row in scored], isinstance(scored, range))
            else:
                batch = [node for _, node in sorted(zip(order, new, strict=True), key=lambda pair: pair[0])]
                logits = self._pass(context, batch, [order[row - first] for row in scored], False)
        except BaseException:
            self._sequences.withdraw()
            raise
        self._add(new)
        if self._states is not None:
            self._states.grown(first, order or range(n))
        self.forward_seconds += time.perf_counter() - start
        return TorchScores(logits, tuple(scored), tuple([new[row - first].position + 1 for row in scored]))

    def _lay_out(self, new: list[LeafNode], parents: Sequence[int]) -> list[int] | None:
        """Set `straight` of the new nodes; return the place of each among the pass's cells, or None if they
        keep their order."""
        first, nodes = self._next, self._nodes
        order = straightest(parents, first)
        for i, (node, parent) in enumerate(zip(new, parents, strict=True)):
            cell = len(self.tokens) + first + (i if order is None else order[i])
            above = parent == ROOT or (new[parent - first] if parent >= first else nodes[parent]).straight
            node.straight = above and cell == node.position
        return order

    def _pass(self, context: LlamaContext, new: list[LeafNode], flagged: list[int], ascending: bool) -> Tensor:
        """Run the model over the new nodes, given in the order of their cells. Return the logits of those
        at the places `flagged` [rows, vocab]; `ascending`: these are known to ascend."""
        if len(new) <= PREFILL_CHUNK and len(flagged) <= context.rows and ascending and not self._score_all:
            self._decode(context, new, flagged, len(new))
            return context.logits(len(flagged))
        ordered = sorted(set(flagged))
        parts = []
        begin = 0
        while begin < len(new):
            # As many as one pass takes, in nodes and in rows of logits. Only scored nodes have states after the final norm.
            end = min(len(new), begin + (context.rows if self._score_all else PREFILL_CHUNK))
            end = min([end, *[row for row in ordered if row >= begin][context.rows : context.rows + 1]])
            rows = [row - begin for row in ordered if begin <= row < end]
            scored = list(range(end - begin)) if self._score_all else rows
            self._decode(context, new[begin:end], scored, len(new), begin)
            logits = context.logits(len(scored))
            if rows != scored:
                logits = logits[rows]
            parts.append(logits if end - begin == len(new) else logits.clone())
            begin = end
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        if flagged == ordered:
            return logits
        place = {row: i for i, row in enumerate(ordered)}
        return logits[[place[row] for row in flagged]]

    def _decode(self, context: LlamaContext, nodes: list[LeafNode], scored: list[int], total: int, begin: int = 0) -> None:
        """Call llama_decode over `nodes`: those from the place `begin` on, of the `total` of the pass."""
        code = context.decode(
            [node.token for node in nodes], [node.position for node in nodes], [node.holders for node in nodes], scored
        )
        if code:
            raise _failure(code, total, self.context)
        if self._states is not None:
            for tap in dict.fromkeys(self._states.taps):
                self._states.write(tap, self._states.end + begin, context.hidden(tap, len(nodes)))

    def reader(self, weights: Weights, make: Callable[[LlamaContext], R]) -> R:
        """Return the context of a drafter that reads this session's keys and values; only the last
        drafter's is kept. Opening it empties the cache, so the text is then prefilled again."""
        if weights not in self._readers:
            text = list(self.tokens)
            self.rewind(0)
            try:
                self._readers = {weights: make(alive(self._llama_context))}
            finally:
                self.prefill(text)
        reader: R = self._readers[weights]
        return reader

    def _settle(self, path: Sequence[int], staying: dict[int, LeafNode]) -> None:
        if self._states is not None:
            self._states.commit(self.length, path, staying)
        if self._nodes:
            self._sequences.commit(path, staying)

    def _free(self, freed: set[int]) -> None:
        self._sequences.drop(freed)
        if self._states is not None:
            self._states.drop(self.length, freed)

    def _cut(self, length: int) -> None:
        self._sequences.rewind(length)
        if self._states is not None:
            self._states.commit(length, (), ())

    def close(self) -> None:
        """Free the cache (once the scores of its last pass are gone too)."""
        if self._llama_context is not None:
            self.rewind(0)
            self._llama_context = self._states = None
            self._readers = {}
            self._sequences.close()


def _failure(code: int, nodes: int, size: int) -> UserError:
    if code == NO_SLOT:
        return ContextFull(f"The context of {size:,} tokens has no room for {counted(nodes, 'more token')}. Start a new chat.")
    message = last_error()
    return UserError(
        f"llama.cpp could not evaluate {nodes:,} tokens ({message or f'code {code}'}). The conversation is unchanged. Use "
        "shorter drafts, a smaller context or a smaller model."
    )


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
                raise _failure(code, end - begin, self.context)
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

    def open(
        self, runtime: Runtime, size: int, *, sequences: int, rows: int | None = None, taps: Sequence[int] = ()
    ) -> LlamaContext:
        """Open a context of `size` tokens or more (see `least_context`).

        Raises:
            UserError: there is not enough memory.
        """
        weights = self.weights
        inner = {tap for tap in taps if tap < weights.layers}
        outputs = LayerOutputs(inner, weights.width, PREFILL_CHUNK) if inner and weights.outputs else None
        return LlamaContext(weights, runtime, max(size, weights.least), sequences, rows=rows, outputs=outputs)

    def open_session(
        self, runtime: Runtime, size: int, *, alike: bool, taps: Sequence[int] = ()
    ) -> LlamaSession | LlamaHybridSession:
        """Open a session that verifies drafts, in a new context; `alike` as in `LlamaSession`."""
        if self.weights.recurrent:
            return LlamaHybridSession(self.open(runtime, size, sequences=1, rows=HYBRID_ROWS, taps=taps), size, taps)
        leaves = sequences(self.weights.vocabulary)
        return LlamaSession(self.open(runtime, size, sequences=leaves, taps=taps), size, alike, taps)
