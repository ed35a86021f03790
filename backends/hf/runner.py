"""The part of a loaded model that sessions run passes with."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .early_layers import LayerList
from .graphs import Graphs
from .lean.lean import LeanModel
from .masks import MaskPlan
from .rope import Rope
from .slot_cache import KVSpec


@dataclass(frozen=True, slots=True)
class Runner:
    """A loaded model as sessions run it."""

    module: torch.nn.Module
    plan: MaskPlan
    specs: tuple[KVSpec | None, ...]
    dtype: torch.dtype
    device: torch.device
    """Device of the model's token ids."""
    takes_positions: bool
    takes_rows: bool
    """Whether `forward` has `logits_to_keep`; without it the LM head runs over every node."""
    layers: LayerList | None = None
    """Location of the decoder layers of `network`; None if early passes do not work on it."""
    tapped: LayerList | None = None
    """The same; None if hidden states cannot be read there."""
    lean: LeanModel | None = None
    """A quicker pass over the same weights, if there is one (see lean/lean.py)."""
    hybrid: bool = False
    """Whether it has linear attention beside full, so that its sessions are transformers' own caches (see plain.py)."""
    padded: bool = False
    """Whether attention is padded so that a node's logits do not depend on what else is in its pass (see
    `attention.padded`)."""
    fewest: int = 1
    """Fewest rows of a pass: from this many on products give each row the same bits (see `prove.ROWS`)."""
    exact: bool = False
    """Whether they then are the same bits, as was measured at load."""
    graphs: type[Graphs] | None = None
    """Recorder of passes of few nodes, if they are recorded."""
    rope: Rope | None = None
    """Its rotary positions, if they depend on the length of the text."""

    @property
    def network(self) -> torch.nn.Module:
        """Module that runs the passes."""
        return self.module if self.lean is None else self.lean
