"""The masks of a session's passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UserError
from .attention import PAD_KEYS, in_view, padded, parts_of
from .masks import tree_mask
from .runner import Runner
from .slot_cache import SlotCache, SlotNode

VIEW = 512
"""What a sliding window sees of a padded pass begins at a multiple of this: torch's attention takes keys in blocks of 512, and
the bits of a sum depend on where its blocks begin."""


class PassMasks:
    """Makes what a pass over some nodes gets as `attention_mask`.

    Args:
        run: the model.
        cache: the session's; its layers are told where their view starts.
        context: most tokens.
    """

    def __init__(self, run: Runner, cache: SlotCache, context: int) -> None:
        self._run, self._cache, self._context = run, cache, context
        self._bounded = not run.plan.full
        self.edge: Tensor | None = None
        """What masks of single nodes are cut out of where attention is padded: zeros for what is in view, then the padding."""
        if run.padded:
            self.edge = torch.zeros(context + PAD_KEYS, dtype=run.dtype, device=run.device)
            self.edge[context:] = torch.finfo(run.dtype).min

    def of(self, new: Sequence[SlotNode], living: Iterable[SlotNode], length: int, chain: bool) -> Any:
        """The masks of a pass.

        Args:
            new: its nodes, in the last slots.
            living: those of earlier passes.
            length: committed tokens.
            chain: whether each node sees every slot before its own.
        """
        plan, edge = self._run.plan, self.edge
        n, start = len(new), new[0].slot
        if plan.style == "native":
            if not chain:
                raise UserError("This model evaluates chains only, not branching trees.")
            return None
        lowest = min(node.position for node in new)
        # One node that sees all before it needs no mask: a window is then just a shorter view.
        bare = chain and n == 1
        if edge is not None:
            bare = bare and all(reach.first(lowest) == 0 for reach in plan.reaches.values())
        elif chain and start == 0 and plan.causal_without:
            bare = all(reach.first(n - 1) == 0 for reach in plan.reaches.values())
        firsts = {}
        for kind, reach in plan.reaches.items():
            first = reach.first(lowest)
            if edge is not None:
                first -= first % VIEW
            firsts[kind] = first if bare else min(first, length)
        if self._bounded:
            self._cache.look_from([firsts[kind] for kind in plan.layer_types])
        if bare:
            alone = None
            if edge is not None:
                behind = self._context - start - 1
                alone = padded(edge.narrow(0, behind, in_view(start + 1)).view(1, 1, 1, -1), ())
            return dict.fromkeys(plan.reaches, alone) if plan.style == "mapping" else alone
        # What the tentative slots hold; those of dropped nodes are seen by none.
        slot_positions = [length] * (start - length + n)
        for nodes in (living, new):
            for node in nodes:
                slot_positions[node.slot - length] = node.position
        bits, positions = [node.bits for node in new], [node.position for node in new]
        masks: dict[Any, Tensor] = {}
        out = {}
        for kind, reach in plan.reaches.items():
            # A window that nothing falls out of is a full mask; they share one tensor.
            key = None if reach.first(max(positions)) == 0 else reach
            if key not in masks:
                masks[key] = tree_mask(
                    *(bits, positions, slot_positions, length, reach, firsts[kind]),
                    *(self._run.dtype, self._run.device, plan.group, self._cache.padded),
                )
                if edge is not None:
                    padded(masks[key], parts_of(start - firsts[kind], n))
            out[kind] = masks[key]
        return out if plan.style == "mapping" else next(iter(out.values()))
