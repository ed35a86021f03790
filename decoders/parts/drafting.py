"""Helpers that many drafters use: node budgets, lines of tokens, the worth of a match, and a tree without equal siblings."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence

from ..base import Context
from ..tree import Tree

COUPLED = (0.75, 0.12, 0.05, 0.03)
"""Probability that a guess is the target's choice, by its rank, where both add the same noise to much the same logits."""


def node_budget(context: Context, nodes: int) -> int:
    """Limit the nodes of a tree, the pending one included, to the free slots of the cache.

    `Context.max_depth` bounds the depth only; each node takes a slot, on whichever branch it is.
    """
    session = context.session
    return max(1, min(nodes, session.context - session.length))


def weighs_draft(context: Context) -> bool:
    """Return whether the acceptance rule reads the draft's distributions, so that they have to travel with the tree."""
    rule = context.acceptance.rule
    return rule == "soft" or (rule == "rejection" and not context.sampling.greedy)


def until_eos(line: Sequence[int], eos_ids: Collection[int]) -> Sequence[int]:
    """Cut a line behind its first EOS."""
    for i, token in enumerate(line):
        if token in eos_ids:
            return line[: i + 1]
    return line


def draw_tokens(tokens: Sequence[int], count: int, eos_ids: Collection[int]) -> list[int]:
    """Draw tokens from the text, none of them EOS: the next tokens are likelier to be in the text than in the vocabulary.
    Texts of the same length draw from the same places."""
    rng = random.Random(len(tokens))
    picks = (tokens[int(rng.random() * len(tokens))] for _ in range(count))
    return [tokens[-1] if token in eos_ids else token for token in picks]


ODDS, POWER, SUREST = 0.5, 1.1, 12
"""After a match of m tokens the odds on the next one are at first taken to be ODDS · m^POWER: 1 to 2 after one token, 5 to 1
after 8. One of more than SUREST tokens is no surer: a copied sentence ends where it ends."""

RATE = 0.25
"""Step of the logarithm of the odds for each match, times the error of its probability."""

LONGEST = 512
"""Longest match that may be asked for."""

USUAL: list[float] = [ODDS * min(m, SUREST) ** POWER for m in range(LONGEST + 1)]
"""Odds by length of the match."""


class Reliability:
    """Probability that a match of m tokens goes on with the token that followed it.

    Longer matches are surer, in much the same way in every text; but some texts repeat themselves word by word and others with
    changes. So one number is learned, by which the odds are multiplied: logistic regression, a step of it for each match.
    """

    def __init__(self) -> None:
        self._log = 0.0
        self.factor = 1.0
        """Factor of the odds of USUAL."""

    def __getitem__(self, match: int) -> float:
        """Return the probability after a match of this length, at most LONGEST."""
        odds = USUAL[match] * self.factor
        return odds / (1 + odds)

    def restart(self) -> None:
        """Begin another text: half of the last one's lesson holds for it."""
        self._log /= 2
        self.factor = math.exp(self._log)

    def learn(self, match: int, right: bool) -> None:
        """Learn whether the text continued a match of this length."""
        self._log += RATE * (right - self[match])
        self.factor = math.exp(self._log)


class Trie:
    """A token tree that grows from lines: equal beginnings share their nodes, each looked up in O(1)."""

    __slots__ = ("_children", "_left", "budget", "tree")

    def __init__(self, pending: int, budget: int) -> None:
        """Begin with the pending token alone; `budget` is the most nodes it may have."""
        self.tree = Tree.root(pending)
        self.budget = budget
        self._left = [1.0]  # by node: the probability that it is reached and none of its children is right
        self._children: dict[tuple[int, int], int] = {}

    def child(self, parent: int, token: int) -> int | None:
        """Return the child of `parent` with this token, added if missing; None if the budget is spent."""
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
        """Hang the line that followed a match of so many tokens below the root, and note the probability of its new nodes: the
        usual one after such a match, of what the lines before it leave."""
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
    """Compares the text that a drafter follows with the one of the last call."""

    def __init__(self) -> None:
        self._text: Sequence[int] = ()

    def same(self, tokens: Sequence[int]) -> int:
        """Count the tokens at the beginning that are those of the last call. Each answer is another list, which only grows, so
        the full comparison is made once an answer."""
        before = self._text
        self._text = tokens
        if before is tokens:
            return len(tokens)
        pairs = enumerate(zip(before, tokens, strict=False))
        return next((i for i, (old, new) in pairs if old != new), min(len(before), len(tokens)))
