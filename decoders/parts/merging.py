"""The trees of other drafters, merged into a method's own."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UserError
from ..base import Context, Drafter
from ..tree import Tree

MERGED = ("lookup", "ngram", "recycle", "suffix", "fusion")
"""Drafters that may be merged into a model's tree: they cost next to nothing."""


def drafters_to_merge(method: str, names: str, context: Context) -> list[Drafter]:
    """Look up the drafters whose trees to merge into a method's.

    Args:
        method: its name.
        names: theirs, separated by commas.
        context: of the step.

    Raises:
        UserError: one that cannot be.
    """
    listed = [name for name in names.replace(" ", "").split(",") if name]
    for name in listed:
        if name not in MERGED:
            raise UserError(f"{method}.merge takes {', '.join(MERGED)}, not {name!r}.")
    if not listed or context.drafter is None or not context.branching:
        return []
    return [context.drafter(name) for name in dict.fromkeys(listed)]


def merge(tree: Tree, name: str, drafters: Sequence[Drafter], context: Context, budget: int, spent: int | None = None) -> None:
    """Merge the trees of other drafters into a method's, each as far as there is room, and note which drafter guessed what.

    Args:
        tree: the method's; it grows.
        name: of the method.
        drafters: whose trees to merge in.
        context: of the step.
        budget: most nodes.
        spent: nodes that count as spent already; nodes that the trees share count too. For drawn nodes, as otherwise the draw
            would decide how many other nodes there are. None to count the tree's actual nodes.
    """
    if drafters and not tree.drafters and len(tree) > 1:
        tree.drafters = (name,)
        tree.sources = [0] + [1] * (len(tree) - 1)
    for drafter in drafters:
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
    """Merge another tree of the same pending token into `tree`; equal paths share their nodes (a trie). `bit` is the other
    drafter's in `Tree.sources`."""
    children = tree.lookup()
    place = {0: 0}
    with_reached = len(tree.reached) == len(tree) and len(other.reached) == len(other)
    tree.reached = tree.reached if with_reached else []
    for node in range(1, len(other)):
        parent = place.get(other.parents[node])
        if parent is None or node in other.window:
            continue
        key = (parent, other.tokens[node])
        merged = children.get(key)
        if merged is None:
            if len(tree) >= budget:
                continue
            merged = children[key] = tree.add(other.tokens[node], parent)
            tree.sources.append(0)
            if with_reached:
                tree.reached.append(other.reached[node])
        elif with_reached:
            tree.reached[merged] = max(tree.reached[merged], other.reached[node])
        tree.sources[merged] |= bit
        place[node] = merged
