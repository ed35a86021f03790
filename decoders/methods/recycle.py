"""Token recycling: the target's earlier candidates are drafted. No training, no second model, a table of a few MB."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from ...option import option
from ..base import Context, Drafter, Verified
from ..parts.drafting import node_budget
from ..parts.elsewhere import ngram_tree
from ..parts.ngrams import TokenIndex
from ..tree import Tree

ROWS = 65_536
"""Most rows of the table, some 30 MB with 8 successors each; the least recently written ones go first."""

SUCCESSORS = 64
"""Most successors of a token."""

SHARES = [0.5 / (rank + 1) ** 2 for rank in range(SUCCESSORS)]
"""Assumed share of right successors of each rank, until it is measured; together 0.82."""

MEMORY = 64
"""Accepted tokens over which the shares are averaged."""


@dataclass(frozen=True, slots=True)
class RecycleParams:
    successors: int = option(8, "Successors kept for each token: the target's last top k after it", low=1, high=SUCCESSORS)
    nodes: int = option(32, "Most nodes in the tree, including the last token", low=1, high=256, length=True)


class SuccessorTable(TokenIndex):
    """Token → its most probable successors when it was last evaluated, best first: the paper's adjacency matrix.

    As an index it follows the text, and what follows a token there becomes its first successor. Another text adds to the
    table; nothing is forgotten.
    """

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__()
        self._most = rows
        self._rows: OrderedDict[int, tuple[int, ...]] = OrderedDict()
        self.width = SUCCESSORS

    def row(self, token: int) -> tuple[int, ...]:
        """Return the successors of a token, at most `width`; none if it is new."""
        return self._rows.get(token, ())[: self.width]

    def write(self, token: int, successors: tuple[int, ...]) -> None:
        """Replace the row of a token."""
        rows = self._rows
        rows[token] = successors
        rows.move_to_end(token)
        if len(rows) > self._most:
            rows.popitem(last=False)

    def append(self, token: int) -> None:
        if self.tokens:
            before = self.tokens[-1]
            row = self._rows.get(before, ())
            if not row or row[0] != token:
                self.write(before, (token, *[successor for successor in row if successor != token])[: self.width])
        self.tokens.append(token)


class Recycle(Drafter):
    """The tree of successors of successors, most probable path first.

    A path is as probable as the product of its ranks' shares. The paper verifies a fixed tree of 80 nodes, the same for every
    text; here the shares are measured while the answer is written, so that the tree becomes deep and narrow where the first
    successor is nearly always right, and wide where it is not.

    Example:
        text     the; last time the target ranked cat, dog after "the", and sat after "cat"
        guess    cat, with sat below it, and dog
        verdict  cat sat ✓ → on
    """

    name = "recycle"
    group = "text"
    reads_cache = False
    summary = "Token recycling: drafts a tree from the successors that the model last found most probable for each token."
    pays = "On any text, and more so in longer conversations: it learns what the model tends to write."
    explains = (
        "Whenever the model evaluates a token, the most probable next tokens go into a table. Later, a tree of guesses grows "
        "from it: the likely successors of the last token, their successors, and so on. It starts empty and improves within a "
        "page of text."
    )
    paper = (
        "Turning Trash into Treasure: Accelerating Inference of Large Language Models with Token Recycling, "
        "Luo 2024, arXiv:2408.08696"
    )
    Params = RecycleParams
    params: RecycleParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"nodes": nodes} for nodes in ("16", "32", "64")]

    @classmethod
    def elsewhere(cls, params: RecycleParams, draft_model: str) -> Mapping[str, str]:
        return ngram_tree(params.nodes)

    def __init__(self, params: RecycleParams | None = None) -> None:
        super().__init__(params)
        self._table = SuccessorTable()
        self._shares = SHARES.copy()

    def draft(self, context: Context) -> Tree:
        self._table.width = self.params.successors
        self._table.follow(context.tokens)
        shares, ranks = self._shares, self.params.successors if context.branching else 1
        table, eos, reach = self._table, context.eos_ids, context.max_depth
        budget = node_budget(context, self.params.nodes)
        tree = Tree.root(context.pending)
        tokens, parents = tree.tokens, tree.parents
        rows = [table.row(context.pending)]  # by node: its successors
        reached = tree.reached = [1.0]  # by node: the probability of its path
        depths = [0]
        # (-probability, parent, rank): the next child of each node, as no child is likelier than its sibling before it.
        heap = [(-shares[0], 0, 0)] if rows[0] and reach > 0 else []
        while heap and len(tokens) < budget:
            probability, parent, rank = heappop(heap)
            row = rows[parent]
            if rank + 1 < min(len(row), ranks):
                heappush(heap, (-reached[parent] * shares[rank + 1], parent, rank + 1))
            node, token, depth = len(tokens), row[rank], depths[parent] + 1
            tokens.append(token)
            parents.append(parent)
            reached.append(-probability)
            depths.append(depth)
            successors = table.row(token) if depth < reach and token not in eos else ()
            rows.append(successors)
            if successors:
                heappush(heap, (probability * shares[0], node, 0))
        return tree

    def learn(self, verified: Verified) -> None:
        tokens, table = verified.tree.tokens, self._table
        self._measure(verified)
        # Rejected nodes first: where a token occurs more than once, its successors on the accepted path stay.
        top = verified.scores.top(self.params.successors)
        for node in (*range(len(tokens)), *verified.path):
            table.write(tokens[node], tuple(token for token, _ in top[node]))

    def _measure(self, verified: Verified) -> None:
        """Count at which rank the accepted tokens were in the rows they were drafted from."""
        shares = self._shares
        for node in verified.path:
            row = self._table.row(verified.tree.tokens[node])
            choice = verified.chosen[node]
            for rank in range(len(row)):
                shares[rank] += ((row[rank] == choice) - shares[rank]) / MEMORY
