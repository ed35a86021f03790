"""What several drafters share: a tree without equal siblings, the nodes there is room for, tokens to guess for want of better
ones, and how much of a text still holds."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from ..base import Context
from ..tree import Tree
from .learned import LONGEST, USUAL

SEED_BITS = 64
"""A seed and a length of the text make one key of the random generator."""

COUPLED = (0.75, 0.12, 0.05, 0.03)
"""How probable a guess is to be the target's choice, by its rank, where both add the same noise to much the same logits."""


def node_budget(context: Context, nodes: int) -> int:
    """Most nodes of a tree, the pending one included: `nodes`, or what is left of the context.

    `Context.max_depth` bounds the depth; but each node takes a slot of the cache, on whichever branch it is.
    """
    session = context.session
    return max(1, min(nodes, session.context - session.length))


def weighs_draft(context: Context) -> bool:
    """Whether the acceptance rule reads the draft's own distributions, so that they have to travel with the tree."""
    rule = context.acceptance.rule
    return rule == "soft" or (rule == "rejection" and not context.sampling.greedy)


def until_eos(line: Sequence[int], eos_ids: Collection[int]) -> Sequence[int]:
    """The line up to its first EOS, that one included."""
    for i, token in enumerate(line):
        if token in eos_ids:
            return line[: i + 1]
    return line


def drawn(tokens: Sequence[int], count: int, seed: int, eos_ids: Collection[int]) -> list[int]:
    """`count` tokens drawn from the text, none of them EOS: text is likelier to hold the next tokens than the vocabulary is.

    The same seed and length of the text give the same tokens.
    """
    rng = random.Random(seed << SEED_BITS | len(tokens))
    picks = (tokens[int(rng.random() * len(tokens))] for _ in range(count))
    return [tokens[-1] if token in eos_ids else token for token in picks]


class Trie:
    """A token tree that grows from lines: what they have in common is one node, found in O(1)."""

    __slots__ = ("_children", "_left", "budget", "tree")

    def __init__(self, pending: int, budget: int) -> None:
        """Begin with the pending token alone; `budget` is the most nodes it may have."""
        self.tree = Tree.root(pending)
        self.budget = budget
        self._left = [1.0]
        """By node: the probability that it is reached and none of its children is right."""
        self._children: dict[tuple[int, int], int] = {}

    def child(self, parent: int, token: int) -> int | None:
        """The child of `parent` with this token, added if it is not there; None if the budget is spent."""
        key = (parent, token)
        node = self._children.get(key)
        if node is None and len(self.tree.tokens) < self.budget:
            node = self._children[key] = self.tree.add(token, parent)
        return node

    def add(self, line: Iterable[int], parent: int = 0) -> list[int]:
        """Hang a line below `parent`, as much of it as the budget allows; return its nodes."""
        path: list[int] = []
        for token in line:
            node = self.child(parent, token)
            if node is None:
                break
            path.append(node)
            parent = node
        return path

    def add_match(self, line: Iterable[int], match: int) -> None:
        """Hang below the root what followed a match of so many tokens, and note how probable its new nodes are: of what the
        lines before it leave, it takes as much as a text usually goes on as it did."""
        parent, tree, left = 0, self.tree, self._left
        tree.reached = tree.reached or [1.0]
        for token in line:
            before = len(tree)
            node = self.child(parent, token)
            if node is None:
                break
            if node == before:
                odds = USUAL[min(match, LONGEST)]
                probability = left[parent] * odds / (1 + odds)
                left[parent] -= probability
                left.append(probability)
                tree.reached.append(probability)
            parent = node
            match += 1


class Following:
    """Compares the text that a drafter follows with what it was the last time."""

    def __init__(self) -> None:
        self._text: Sequence[int] = ()

    def same(self, tokens: Sequence[int]) -> int:
        """How many tokens at the beginning are those of the last call. Each answer has a list of its own; within one it only
        grows, so that the full comparison is made once."""
        before, self._text = self._text, tokens
        if before is tokens:
            return len(tokens)
        pairs = enumerate(zip(before, tokens, strict=False))
        return next((i for i, (old, new) in pairs if old != new), min(len(before), len(tokens)))
