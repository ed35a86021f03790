"""The trees of other drafters, merged into a method's own."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UserError
from ..base import Context, Drafter
from ..tree import Tree

MERGED = ("lookup", "ngram", "recycle", "suffix", "fusion")
"""Drafters that may be merged into a model's tree: they cost next to nothing."""


def merged(method: str, names: str, context: Context) -> list[Drafter]:
    """The drafters whose trees to merge into a method's own.

    Args:
        method: its name.
        names: theirs, separated by commas.
        context: of the step.

    Raises:
        UserError: one that cannot be.
    """
    wanted = [name for name in names.replace(" ", "").split(",") if name]
    for name in wanted:
        if name not in MERGED:
            raise UserError(f"{method}.merge takes {', '.join(MERGED)}, not {name!r}.")
    if not wanted or context.drafter is None or not context.branching:
        return []
    return [context.drafter(name) for name in dict.fromkeys(wanted)]


def merge(tree: Tree, name: str, others: Sequence[Drafter], context: Context, budget: int, spent: int | None = None) -> None:
    """Merge the trees of other drafters into a method's own, each as far as there is room, and note who guessed what.

    Args:
        tree: the method's own; it grows.
        name: of the method.
        others: whose trees to merge in.
        context: of the step.
        budget: most nodes.
        spent: how many of them count as there already, and what others have in common with the tree counts as well: where
            nodes are drawn, else what was drawn would decide how many others there are. None for as many as there are.
    """
    if others and not tree.drafters and len(tree) > 1:
        tree.drafters, tree.sources = (name,), [0] + [1] * (len(tree) - 1)
    for drafter in others:
        tree.sources = tree.sources or [0]
        other = drafter.draft(context)
        if spent is not None:
            other = other.only(range(min(len(other), 1 + budget - spent)))
            spent += len(other) - 1
        if len(tree) == 1 and not tree.reached:
            tree.reached = [1.0]
        _graft(tree, other, budget, 1 << len(tree.drafters))
        tree.drafters = (*tree.drafters, drafter.name)


def _graft(tree: Tree, other: Tree, budget: int, bit: int) -> None:
    """Merge another tree of the same pending token into `tree`: what both have is one node (a trie). `bit` is the other
    drafter's in `Tree.sources`."""
    children = {(parent, token): node for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True))}
    place = {0: 0}
    told = len(tree.reached) == len(tree) and len(other.reached) == len(other)
    tree.reached = tree.reached if told else []
    for node in range(1, len(other)):
        parent = place.get(other.parents[node])
        if parent is None or node in other.window:
            continue
        key = (parent, other.tokens[node])
        known = children.get(key)
        if known is None:
            if len(tree) >= budget:
                continue
            known = children[key] = tree.add(other.tokens[node], parent)
            tree.sources.append(0)
            if told:
                tree.reached.append(other.reached[node])
        elif told:
            tree.reached[known] = max(tree.reached[known], other.reached[node])
        tree.sources[known] |= bit
        place[node] = known
