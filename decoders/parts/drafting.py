"""What several drafters share: a tree without equal siblings, the nodes there is room for, tokens to guess for want of better
ones, and how much of a text still holds."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from ..base import Context
from ..tree import Tree

SEED_BITS = 64
"""A seed and a length of the text make one key of the random generator."""

COUPLED = (0.75, 0.12, 0.05, 0.03)
"""How probable a guess is to be the target's choice, by its rank, where both add the same noise to much the same logits."""


def node_budget(context: Context, nodes: int) -> int:
    """Most nodes of a tree, the pending one included: `nodes`, or what is left of the context.

    `Context.room` bounds the depth; but each node takes a slot of the cache, on whichever branch it is.
    """
    session = context.session
    return max(1, min(nodes, session.context - session.length))


CPU_FLOOR = 0.08
"""What a node adds to a pass on a CPU, as a share of a one-node pass (0.03 to 0.1 as measured): a draft token less probable
than this costs more than it brings. Elsewhere passes wait for memory and a node costs next to nothing."""

LLAMA_CPU_FLOOR = 0.28
"""The same on llama.cpp, whose quantized one-node pass is quicker (0.15 to 0.28 as measured)."""


STEP = 0.1
"""Costs of a node that were measured are rounded to this, so that most runs of one model agree."""


def worthwhile(context: Context, floor: float, cpu: float = CPU_FLOOR) -> float:
    """Least probability of a draft token: `floor`, or, if that is negative, what suits the target's runtime and device. Fixed
    for these rather than measured, so that counts are the same in every run. On a CPU it is `cpu`, but for llama.cpp. Where a
    model's passes were timed at load and a node costs more than that, it is what a node costs, to STEP."""
    if floor >= 0:
        return floor
    if context.model is None or not context.model.info.device.startswith("cpu"):
        return 0.0
    info = context.model.info
    fixed = LLAMA_CPU_FLOOR if info.backend == "llama.cpp" else cpu
    return max(fixed, STEP * round((info.node_cost or 0.0) / STEP))


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

    __slots__ = ("_children", "budget", "tree")

    def __init__(self, pending: int, budget: int) -> None:
        """Begin with the pending token alone; `budget` is the most nodes it may have."""
        self.tree = Tree.root(pending)
        self.budget = budget
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
