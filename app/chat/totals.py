"""An answer's totals, kept where it is drawn: the decoders' own sums over the steps as they come in."""

from __future__ import annotations

from dataclasses import dataclass

from ...decoders.stats import Totals
from ...decoders.tree import Tree
from ...engine.messages import StepRecord

__all__ = ["Totals", "counted"]


@dataclass(frozen=True, slots=True)
class Counted:
    """A step record as Totals reads it."""

    tokens: list[int]
    drafted: int
    accepted: int
    nodes: int
    draft_seconds: float
    forward_seconds: float
    other_seconds: float
    tree: Tree | None
    path: list[int]
    prefilled: int
    earlier: int
    checked: int


def counted(step: StepRecord) -> Counted:
    """A step record as Totals reads it; one without a tree counts as a chain."""
    tree = Tree(step.tree_tokens, step.tree_parents) if step.tree_tokens else None
    return Counted(
        step.tokens,
        step.drafted,
        step.accepted,
        step.nodes,
        step.draft_seconds,
        step.forward_seconds,
        step.other_seconds,
        tree,
        step.path,
        step.prefilled,
        step.earlier,
        step.checked,
    )
