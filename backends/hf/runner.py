"""What a session needs of a loaded model to run its passes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .early_layers import LayerList
from .graphs.graphs import Graphs
from .lean.lean import LeanModel
from .masks import MaskPlan
from .rope import Rope
from .slot_cache import KVSpec


@dataclass(frozen=True, slots=True)
class Runner:
    """What a session needs to know of a loaded model."""

    module: torch.nn.Module
    plan: MaskPlan
    specs: tuple[KVSpec | None, ...]
    dtype: torch.dtype
    device: torch.device
    """Where the model takes its token ids."""
    takes_positions: bool
    takes_rows: bool
    """Whether `forward` has `logits_to_keep`; without it the LM head runs over every node."""
    layers: LayerList | None = None
    """Where the decoder layers of `network` are; None if early passes do not work on it."""
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
    """Fewest nodes of a pass: its products give each row the same bits from so many rows on (see `proving/prove.py`)."""
    exact: bool = False
    """Whether they then are the same bits, as the proof found."""
    graphs: type[Graphs] | None = None
    """What passes of few nodes are recorded with, if with anything."""
    rope: Rope | None = None
    """Its rotary positions, if they depend on the length of the text."""
    shift: int = 0
    """Added to all positions that the model is told: the proof reads a short text as the end of a long one."""

    @property
    def network(self) -> torch.nn.Module:
        """What runs the passes."""
        return self.module if self.lean is None else self.lean


def out_of_memory(error: BaseException) -> bool:
    """Whether torch could not get memory, on whatever device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("not enough memory" in text or "out of memory" in text)
