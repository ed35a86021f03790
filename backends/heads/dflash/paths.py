"""Heads that make a block's guesses depend on the token before: DSpark's Markov head and DFlash 2's selector.

One pass of the layers gives the outputs of all positions. Scoring what follows a node then takes only a low-rank product; no
layer runs again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...base import ROOT
from ...scores import TorchScores
from ...transfer import on_device
from ..base import BlockSession
from ..layers import guarded
from .format import Markov, Selector


class MarkovHead:
    """DSpark's head: a low-rank bias on a position's logits, which depends on the token before it.

    Args:
        weights: `markov_w1` [vocab, r] is indexed by the target's ids, `markov_w2` [drafted, r] by the drafter's.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.before = weights["markov_head.markov_w1.weight"]
        self.after = weights["markov_head.markov_w2.weight"]


class SelectorHead:
    """DFlash 2's selector: scores a position's most probable tokens by the token before, and drafts no others.

    Args:
        weights: the codebooks [vocab, r] and `hidden_projection` [r, width].
        selector: its number of candidates per position.
    """

    def __init__(self, weights: Mapping[str, Tensor], selector: Selector) -> None:
        prefix = "candidate_selector."
        self.before = weights[f"{prefix}predecessor_codebook"]
        self.after = weights[f"{prefix}successor_codebook"]
        self.projection = weights[f"{prefix}hidden_projection.weight"]
        self.candidates = selector.candidates


def path_head(weights: Mapping[str, Tensor], head_format: Markov | Selector | None) -> MarkovHead | SelectorHead | None:
    """Build DSpark's or DFlash 2's head; None in plain DFlash."""
    match head_format:
        case Markov():
            return MarkovHead(weights)
        case Selector():
            return SelectorHead(weights, head_format)
        case None:
            return None


class MarkovBlock:
    """A block's logits, to which each node's token adds a bias.

    Args:
        head: the drafter's.
        logits: [positions, drafted].
    """

    def __init__(self, head: MarkovHead, logits: Tensor) -> None:
        self._head = head
        self._logits = logits

    def follow(self, tokens: Tensor, depths: Tensor) -> Tensor:
        """Score what follows nodes [n, drafted].

        Args:
            tokens: the target's ids [n].
            depths: depth of each node [n]; 0 for the pending token.
        """
        return self._logits[depths] + F.linear(F.embedding(tokens, self._head.before), self._head.after)


class SelectorBlock:
    """A block's candidates, with scores that depend on each node's token.

    Args:
        head: the drafter's.
        hidden: outputs of the layers [positions, width].
        logits: [positions, drafted].
    """

    def __init__(self, head: SelectorHead, hidden: Tensor, logits: Tensor) -> None:
        self._head = head
        self._vocabulary = logits.shape[-1]
        candidates = logits.topk(min(head.candidates, self._vocabulary), -1)
        self._scores = candidates.values  # [positions, k]
        self._ids = candidates.indices
        self._after = head.after[self._ids]  # [positions, k, r]
        self._gates = F.linear(hidden, head.projection)  # [positions, r]

    def follow(self, tokens: Tensor, depths: Tensor) -> Tensor:
        """Score what follows nodes (see `MarkovBlock.follow`)."""
        queries = F.embedding(tokens, self._head.before) * self._gates[depths]
        scores = self._scores[depths] + torch.einsum("nr,nkr->nk", queries, self._after[depths])
        out = torch.full((len(tokens), self._vocabulary), -torch.inf, dtype=scores.dtype, device=scores.device)
        return out.scatter_(1, self._ids[depths], scores)


class PathBlockSession(BlockSession):
    """A block session whose guesses also depend on the token before. The pending token is *node* 0,
    the others hang below it; the layers run once per block, however many nodes it has."""

    branching = True
    device = torch.device("cpu")
    """Device of the block's outputs."""

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self._block: MarkovBlock | SelectorBlock | None = None
        self._depths: list[int] = []
        """The depth of each node; the pending token's is 0."""

    @abstractmethod
    def _run_block(self, token: int, count: int) -> MarkovBlock | SelectorBlock:
        """Run the layers on the block that follows a pending token (see `begin`)."""

    @abstractmethod
    def _spread(self, logits: Tensor) -> Tensor:
        """Spread logits [n, drafted] over the target's vocabulary [n, vocab]."""

    def begin(self, token: int, count: int) -> TorchScores:
        """Guess what follows a token, and free the nodes of the block before.

        Args:
            token: the pending one, at the position `length`; it becomes node 0.
            count: number of positions after it that can be guessed.

        Returns:
            scores of the next position, one row.

        Raises:
            UserError: there is not enough memory.
        """
        self._block = guarded(lambda: self._run_block(token, count), self.device)
        self._depths = []
        return self.grow([token], [ROOT])

    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> TorchScores:
        """Add nodes less than `count` tokens deep, and score what follows each.

        Args:
            tokens: token id of each new node [n].
            parents: for each an existing node, counted from 0 in the order of adding [n].

        Raises:
            UserError: there is not enough memory; nothing has been added.
        """
        block, living = self._block, len(self._depths)
        if block is None or any(not ROOT <= parent < living for parent in parents):
            raise ValueError(f"parents {list(parents)} are not all among {living} nodes")
        depths = [0 if parent == ROOT else 1 + self._depths[parent] for parent in parents]

        def run() -> Tensor:
            ids = on_device(tokens, self.device)
            return self._spread(block.follow(ids, on_device(depths, self.device)))

        logits = guarded(run, self.device)
        self._depths += depths
        nodes = range(living, living + len(tokens))
        return TorchScores(logits, tuple(nodes), tuple(self.length + 1 + depth for depth in depths))

    def drop(self, first: int) -> None:
        """Free the nodes from number `first` on."""
        del self._depths[first:]

    def rewind(self, length: int) -> None:
        self._block = None
        self._depths = []
        super().rewind(length)
