"""A session on a llama.cpp model: the tree's nodes in the cells of its unified KV cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...errors import ContextFull, UserError, counted
from ..base import PREFILL_CHUNK, ROOT, Layers
from ..rounding import straightest
from ..scores import TorchScores
from ..sessions.states import TreeStates
from ..sessions.tree import TreeSession
from .context import Context, Weights, alive
from .library import last_error
from .sequences import LeafNode, Memory, Sequences

R = TypeVar("R", bound=Context)

NO_SLOT = 1
"""llama_decode's answer when the cache is full; everything is as it was."""


class LlamaSession(TreeSession[LeafNode]):
    """One conversation's KV cache on a llama.cpp model.

    Everything is checked before llama.cpp is called: what it is not meant to be asked can end the process.

    Args:
        context: its own; nobody else uses it.
        size: most tokens.
        alike: attention takes each node by itself, so that only the order of the cells that it sees can move a bit: the
            likeliest path is laid out straight, and `exact` tells what lies crooked.
        taps: as `Model.open_session`.
    """

    _states: TreeStates | None = None

    def __init__(self, context: Context, size: int, alike: bool = False, taps: Sequence[int] = ()) -> None:
        super().__init__(size)
        self._run: Context | None = context
        self._vocabulary = context.weights.vocabulary
        self._alike = alike
        self._readers: dict[Weights, Any] = {}
        memory: Memory = Cells(context)
        self._sequences = Sequences(memory, context.rows, self._nodes)
        self.branches = context.rows
        self._last_tapped = context.weights.layers in taps and not context.weights.all_last
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
        begun = time.perf_counter()
        first, n = self._next, len(tokens)
        self._check(tokens, parents)
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._vocabulary):
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        wanted = self._rows(n, rows)
        if not n:
            return TorchScores(torch.empty((0, 0)), (), ())
        run = alive(self._run)
        new = self._sequences.grow(first, tokens, parents)
        order = self._lay_out(new, parents) if self._alike else None
        try:
            if order is None:
                logits = self._pass(run, new, [row - first for row in wanted], isinstance(wanted, range))
            else:
                batch = [node for _, node in sorted(zip(order, new, strict=True), key=lambda pair: pair[0])]
                logits = self._pass(run, batch, [order[row - first] for row in wanted], False)
        except BaseException:
            self._sequences.withdraw()
            raise
        self._add(new)
        if self._states is not None:
            self._states.grown(first, order or range(n))
        self.forward_seconds += time.perf_counter() - begun
        return TorchScores(logits, tuple(wanted), tuple([new[row - first].position + 1 for row in wanted]))

    def _lay_out(self, new: list[LeafNode], parents: Sequence[int]) -> list[int] | None:
        """Note which new nodes are straight; the place of each among the pass's cells, if that is not their order."""
        first, nodes = self._next, self._nodes
        order = straightest(parents, first)
        for i, (node, parent) in enumerate(zip(new, parents, strict=True)):
            cell = len(self.tokens) + first + (i if order is None else order[i])
            above = parent == ROOT or (new[parent - first] if parent >= first else nodes[parent]).straight
            node.straight = above and cell == node.position
        return order

    def _pass(self, run: Context, new: list[LeafNode], flagged: list[int], rising: bool) -> Tensor:
        """Run the model over the new nodes; logits of those `flagged` by their place [rows, vocab].

        Args:
            run: the context.
            new: the nodes, in the order of their cells.
            flagged: places in `new`.
            rising: whether these are in order.
        """
        if self._last_tapped:
            return self._pass_of_rows(run, new, flagged)
        if len(new) <= PREFILL_CHUNK and len(flagged) <= run.rows and rising:
            self._decode(run, new, flagged, len(new))
            return run.logits(len(flagged))
        ordered = sorted(set(flagged))
        parts = []
        begin = done = 0
        while begin < len(new):
            # As many as one pass takes, in nodes and in rows of logits.
            end = min(len(new), begin + PREFILL_CHUNK)
            upto = done + run.rows
            if upto < len(ordered):
                end = min(end, ordered[upto])
            else:
                upto = len(ordered)
            while upto > done and ordered[upto - 1] >= end:
                upto -= 1
            nodes = new[begin:end]
            self._decode(run, nodes, [row - begin for row in ordered[done:upto]], len(new), begin)
            part = run.logits(upto - done)
            parts.append(part if end - begin == len(new) else part.clone())
            begin, done = end, upto
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        if flagged != ordered:
            place = {row: i for i, row in enumerate(ordered)}
            return logits[[place[row] for row in flagged]]
        return logits

    def _pass_of_rows(self, run: Context, new: list[LeafNode], flagged: list[int]) -> Tensor:
        """The same where the states after the final norm are tapped, which every node has only beside its logits."""
        parts = []
        for begin in range(0, len(new), run.rows):
            nodes = new[begin : begin + run.rows]
            self._decode(run, nodes, list(range(len(nodes))), len(new), begin)
            parts.append(run.logits(len(nodes))[[row - begin for row in sorted(set(flagged)) if 0 <= row - begin < len(nodes)]])
        place = {row: i for i, row in enumerate(sorted(set(flagged)))}
        return torch.cat(parts)[[place[row] for row in flagged]]

    def _decode(self, run: Context, nodes: list[LeafNode], wanted: list[int], total: int, begin: int = 0) -> None:
        """One call of llama_decode, over all of the pass's nodes or some of them: those from the place `begin` on."""
        code = run.decode(
            [node.token for node in nodes], [node.position for node in nodes], [node.holders for node in nodes], wanted
        )
        if code:
            raise _failure(code, total, self.context)
        if self._states is not None:
            for tap in dict.fromkeys(self._states.taps):
                self._states.write(tap, self._states.end + begin, run.hidden(tap, len(nodes)))

    def reader(self, weights: Weights, make: Callable[[Context], R]) -> R:
        """The context of a drafter that reads this session's keys and values. llama.cpp empties the cache as it makes one, so
        the text is read again, if there is any.

        Args:
            weights: the drafter's; of one at a time.
            make: makes a context beside this session's.

        Raises:
            UserError: there is not enough memory.
        """
        if weights not in self._readers:
            text = list(self.tokens)
            self.rewind(0)
            try:
                self._readers = {weights: make(alive(self._run))}
            finally:
                self.prefill(text)
        found: R = self._readers[weights]
        return found

    def _settle(self, path: Sequence[int], kept: dict[int, LeafNode]) -> None:
        if self._states is not None:
            self._states.commit(self.length, path, kept)
        if self._nodes:
            self._sequences.commit(path, kept)

    def _free(self, gone: set[int]) -> None:
        self._sequences.drop(gone)
        if self._states is not None:
            self._states.drop(self.length, gone)

    def _cut(self, length: int) -> None:
        self._sequences.rewind(length)
        if self._states is not None:
            self._states.commit(length, (), ())

    def close(self) -> None:
        """Free the cache (once the scores of its last pass are gone too)."""
        if self._run is not None:
            self.rewind(0)
            # The memory of the sequences refers to it as well.
            self._run = self._states = None
            self._readers = {}
            self._sequences = Sequences(Nothing(), 1, self._nodes)


class Cells:
    """A cache from which anything can be removed."""

    def __init__(self, context: Context) -> None:
        self.copy = context.copy
        self._remove = context.remove

    def remove(self, sequence: int, begin: int, end: int) -> None:
        if not self._remove(sequence, begin, end):
            raise UserError("This model's cache cannot rewind. Load it again for plain decoding.")


class Nothing:
    """The cache of a closed session."""

    def remove(self, sequence: int, begin: int, end: int) -> None:
        pass

    def copy(self, source: int, target: int, begin: int, end: int) -> None:
        pass


def _failure(code: int, nodes: int, size: int) -> UserError:
    if code == NO_SLOT:
        return ContextFull(f"The context of {size:,} tokens has no room for {counted(nodes, 'more token')}. Start a new chat.")
    said = last_error()
    return UserError(
        f"llama.cpp could not evaluate {nodes:,} tokens ({said or f'code {code}'}). The conversation is unchanged. Use shorter "
        "drafts, a smaller context or a smaller model."
    )
