"""The floating-point operations (FLOPs) of forward passes; a multiplication and an addition are two.

    FLOPs of a pass = nodes · 2 · active weights of the layers + rows · 2 · width · vocabulary
                      + Σ over nodes and layers: keys seen · 2 · heads · (key width + value width)

The first two terms are the 2N a token of Kaplan et al., "Scaling Laws for Neural Language Models" (2020), arXiv:2001.08361,
section 2.1; the last one is QKᵀ and AV, a third of the 12·L·H·Q·T that Chowdhery et al., "PaLM" (2022), arXiv:2204.02311,
appendix B, count for a training step's three passes. *Active* weights: of a mixture's experts the chosen ones. A table of
embeddings is looked up, not multiplied; the LM head is, for each row that is scored. Keys seen are a node's own position and
those before it, or its layer's window. Norms, activations and softmax are left out, as in both papers (about one per cent), and
so is what a device computes in vain: padding, and scores that a mask hides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..base import Block

_lock = threading.Lock()
_computed = 0.0


def computed() -> float:
    """FLOPs of all passes that this process has counted, whichever model made them. As with a clock, only differences mean
    something."""
    return _computed


def spend(flops: float) -> None:
    """Count a computation. Threads may: a draft model can run in one of its own."""
    global _computed
    with _lock:
        _computed += flops


@dataclass(frozen=True, slots=True)
class LayerFlops:
    """What one decoder layer takes."""

    attention: float
    """For each node: 2 × the weights of the attention block, or of what stands in its place."""
    mlp: float
    """For each node: 2 × the active weights of everything else."""
    key: float = 0.0
    """For each node and key that it sees: 2 × heads × (key width + value width)."""
    window: int = 0
    """The most keys that a node sees; 0 for all. A chunk counts as a window."""
    cached: float = 0.0
    """For each token in the cache, once a pass: latent attention may make its keys and values anew every time."""


class Flops:
    """The FLOPs of one network's passes.

    Args:
        layers: its decoder layers.
        row: for each scored row: 2 × width × vocabulary.
        node: for each node, outside the layers.
    """

    def __init__(self, layers: Sequence[LayerFlops] = (), row: float = 0.0, node: float = 0.0) -> None:
        self.layers, self.row, self.node = tuple(layers), row, node
        self._plans: dict[tuple[int | Block, ...] | None, tuple[float, float, dict[int, float]]] = {}

    def of(self, positions: Sequence[int], rows: int, run: tuple[int | Block, ...] | None = None) -> float:
        """FLOPs of a pass.

        Args:
            positions: of its nodes [n].
            rows: how many of them are scored.
            run: the layers and blocks that run; None for all.
        """
        each, cached, keys = self._plans.get(run) or self._plan(run)
        n, total = len(positions), rows * self.row
        if not n:
            return total
        seen, furthest = sum(positions) + n, max(positions) + 1
        for window, key in keys.items():
            total += key * (seen if not window or furthest <= window else sum(min(at + 1, window) for at in positions))
        return total + n * each + min(positions) * cached

    def count(self, positions: Sequence[int], rows: int, run: tuple[int | Block, ...] | None = None) -> float:
        """Count a pass that was made, and return its FLOPs; arguments as above."""
        flops = self.of(positions, rows, run)
        spend(flops)
        return flops

    def _plan(self, run: tuple[int | Block, ...] | None) -> tuple[float, float, dict[int, float]]:
        """FLOPs for each node, for each token in the cache, and for each key by window."""
        each, cached, keys = self.node, 0.0, dict[int, float]()
        for part in range(len(self.layers)) if run is None or not self.layers else run:
            layer = self.layers[part.layer if isinstance(part, Block) else part]
            kind = part.kind if isinstance(part, Block) else ""
            if kind != "mlp":
                each += layer.attention
                cached += layer.cached
                keys[layer.window] = keys.get(layer.window, 0.0) + layer.key
            if kind != "attention":
                each += layer.mlp
        self._plans[run] = each, cached, {window: key for window, key in keys.items() if key}
        return self._plans[run]


NOTHING = Flops()
"""The cost of a network whose weights are not known."""


class Weight(NamedTuple):
    """A matrix that each node is multiplied by."""

    layer: int
    """The decoder layer that it is in; -1 outside them."""
    attention: bool
    size: int
    """Numbers in it."""
    expert: bool = False
    """Whether it is one of a mixture's experts, or all of them stacked."""


def flops_of(
    weights: Iterable[Weight],
    layers: int,
    *,
    active: float | Mapping[int, float] = 1.0,
    row: float,
    keys: Mapping[int, LayerFlops],
) -> Flops:
    """The FLOPs of a network made of these matrices.

    Args:
        weights: all but embeddings and LM head.
        layers: how many it has; those behind are not counted (MTP layers run on their own).
        active: the share of a mixture's experts that a node is sent to; by layer where it differs.
        row: as `Flops`.
        keys: of each layer that attends, all but its weights.
    """
    attention, mlp, node = [0.0] * layers, [0.0] * layers, 0.0
    for weight in weights:
        chosen = active if isinstance(active, float) else active.get(weight.layer, 1.0)
        flops = 2.0 * weight.size * (chosen if weight.expert else 1.0)
        if weight.layer < 0:
            node += flops
        elif weight.layer < layers:
            (attention if weight.attention else mlp)[weight.layer] += flops
    seen = [keys.get(at, LayerFlops(0, 0)) for at in range(layers)]
    return Flops([replace(k, attention=a, mlp=m) for a, m, k in zip(attention, mlp, seen, strict=True)], row, node)
