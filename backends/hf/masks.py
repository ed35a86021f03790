"""Attention masks of a token tree, one per layer type, and which of them a model takes.

A node sees the committed prefix, its ancestors and itself. transformers takes a 4-D mask as it is, so sliding windows have to
be in it, and they go by *position*: two nodes in neighbouring slots may stand at the same position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..transfer import on_device
from .attention import NAME as ATTENTION
from .attention import in_view

FULL = "full_attention"
SLIDING = "sliding_attention"
CHUNKED = "chunked_attention"
KNOWN = frozenset((FULL, SLIDING, CHUNKED))

Style = Literal["mapping", "single", "native"]
"""mapping: the model takes a dict of masks by layer type; single: one mask; native: it makes its own, so chains only."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Range that a layer type sees: everything before, the last `window` positions, or its own chunk of `chunk` positions."""

    window: int | None = None
    chunk: int | None = None

    def first(self, position: int) -> int:
        """Return the oldest position that a query at `position` sees."""
        if self.window is not None:
            return max(0, position - self.window + 1)
        if self.chunk is not None:
            return position - position % self.chunk
        return 0

    @property
    def full(self) -> bool:
        """Whether it sees everything."""
        return self.window is None and self.chunk is None


@dataclass(frozen=True, slots=True)
class MaskPlan:
    """Form in which a model takes its masks."""

    style: Style
    reaches: dict[str, Reach]
    """Layer type → what it reaches."""
    layer_types: tuple[str, ...]
    """The type of each layer."""
    causal_without: bool
    """A chain on an empty cache needs no mask (not so with transformers' eager attention)."""
    group: int = 1
    """Times each mask row is repeated: query heads per K/V head for our attention function, 1 for transformers' own."""

    @property
    def windows(self) -> list[int]:
        """The most positions that a query of each layer sees; 0 for all."""
        reaches = [self.reaches[kind] for kind in self.layer_types]
        return [reach.window or reach.chunk or 0 for reach in reaches]

    @property
    def full(self) -> bool:
        """Whether every layer sees everything."""
        return all(reach.full for reach in self.reaches.values())


def plans_for(config: Any) -> list[MaskPlan]:
    """List the forms of masks for a (text) configuration, likeliest first; loading proves which one is right."""
    name = config._attn_implementation
    causal_without = name in ("sdpa", ATTENTION)
    layers = int(config.num_hidden_layers)
    window = getattr(config, "sliding_window", None)
    group = 1
    if name == ATTENTION and not config.is_heterogeneous:  # as Gemma 4, whose layers differ: attention repeats masks itself
        group = config.num_attention_heads // (getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    plans = []
    types = getattr(config, "layer_types", None)
    if types and set(types) <= KNOWN:
        # Models look up FULL and SLIDING by name whether or not a layer uses them.
        reaches = {FULL: Reach(), SLIDING: Reach(window=window)}
        if CHUNKED in types:
            reaches[CHUNKED] = Reach(chunk=config.attention_chunk_size)
        plans.append(MaskPlan("mapping", reaches, tuple(types), causal_without, group))
    one = FULL if window is None else SLIDING
    plans.append(MaskPlan("single", {one: Reach(window=window)}, (one,) * layers, causal_without, group))
    return plans


def native_plan(config: Any) -> MaskPlan:
    """Make the plan of a model that makes its own masks."""
    return MaskPlan("native", {FULL: Reach()}, (FULL,) * int(config.num_hidden_layers), True)


def unpack(bits: Sequence[int], width: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Unpack integers into rows of booleans [n, width], lowest bit first."""
    size = (width + 7) // 8
    raw = np.frombuffer(b"".join(b.to_bytes(size, "little") for b in bits), dtype=np.uint8).reshape(len(bits), size)
    return np.unpackbits(raw, axis=1, count=width, bitorder="little").view(np.bool_)


def tree_mask(
    bits: Sequence[int],
    positions: Sequence[int],
    slot_positions: Sequence[int],
    length: int,
    reach: Reach,
    first: int,
    dtype: torch.dtype,
    device: torch.device,
    group: int = 1,
    padded: bool = False,
) -> Tensor:
    """Make the additive mask of new nodes [1, 1, group × n, slots in view]: 0 where they see, the type's lowest value
    where not.

    Args:
        bits: for each new node its ancestors and itself as bits over the tentative slots [n].
        positions: absolute position of each new node [n].
        slot_positions: absolute position of what each tentative slot holds [m].
        length: committed tokens; their slots are their positions.
        reach: range that this layer type sees.
        first: the oldest slot in view.
        dtype, device: of the mask.
        group: times the rows are repeated.
        padded: there are as many slots as a padded pass shows; those behind the last node are hidden.
    """
    n, m = len(bits), len(slot_positions)
    if padded:
        m += in_view(length - first + m) - (length - first + m)
    low = torch.finfo(dtype).min
    visible_nodes = unpack(bits, m)
    if group > 1:
        visible_nodes = np.tile(visible_nodes, (group, 1))
    if reach.full:
        # Only the small tentative part is made on the CPU; the prefix, seen by all, is filled where it is needed.
        tail = torch.zeros((group * n, m), dtype=dtype).masked_fill_(torch.from_numpy(~visible_nodes), low)
        mask = torch.zeros((group * n, length - first + m), dtype=dtype, device=device)
        mask[:, length - first :] = on_device(tail, device)
        return mask[None, None]
    oldest = np.tile([reach.first(p) for p in positions], group)[:, None]
    visible_nodes[:, : len(slot_positions)] &= np.asarray(slot_positions)[None, :] >= oldest
    prefix = np.arange(first, length)[None, :] >= oldest
    visible = torch.from_numpy(np.concatenate((prefix, visible_nodes), axis=1))
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, low)
    return on_device(mask, device)[None, None]
