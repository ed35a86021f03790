"""A preallocated KV cache for transformers models: K and V are written in place into slots.

transformers' `DynamicCache` concatenates at every step, which copies the whole context for each token. Here a pass writes its
new K/V behind those in use and attention reads a view, so a step costs what its own tokens cost. Sliding-window layers keep the
full history too: tree nodes and rewinding need what a ring buffer would have overwritten; the window is a view or a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from ..sessions.tree import Node
from ..transfer import on_device
from .attention import PAD_KEYS, in_view

FIRST_CAPACITY = 256
"""Slots of a new cache; it doubles when full, up to the session's context."""

ARENA_BYTES = 256 << 20
"""Layers share one tensor up to this size at full context: moving K/V is then one copy for all of them (on a model of 8 small
layers 32 copies cost as much as 5 % of a step), while growing never holds more than this twice."""


@dataclass(slots=True)
class SlotNode(Node):
    """A tentative token in a slot."""

    slot: int
    bits: int
    """Its ancestors and itself, bit i for slot length + i."""


@dataclass(frozen=True, slots=True)
class KVSpec:
    """Shapes and types that one layer caches, as observed in a first pass over the model."""

    key: tuple[int, int]
    """(K/V heads, width of a head)."""
    value: tuple[int, int]
    """The same for V; latent attention has another width here."""
    dtype: torch.dtype
    device: torch.device

    @property
    def slot_bytes(self) -> int:
        """Bytes of one token's K and V in this layer."""
        return (self.key[0] * self.key[1] + self.value[0] * self.value[1]) * self.dtype.itemsize


class Arena:
    """K and V of neighbouring layers with one shape, each in one tensor [layers, 1, K/V heads, slots, width]."""

    keys: Tensor
    values: Tensor

    def __init__(self, spec: KVSpec) -> None:
        self.spec = spec
        self.layers = 0
        self.slots = 0

    def _empty(self, shape: tuple[int, int], slots: int) -> Tensor:
        heads, width = shape
        # Not `empty`: a pass through some layers leaves slots unwritten in the others, and a mask does not hide a NaN.
        return torch.zeros((self.layers, 1, heads, slots, width), dtype=self.spec.dtype, device=self.spec.device)

    def resize(self, slots: int, used: int) -> None:
        """Reallocate for `slots`, keeping the first `used`; nothing has changed if the memory is not there."""
        keys, values = self._empty(self.spec.key, slots), self._empty(self.spec.value, slots)
        if used:
            keys[..., :used, :] = self.keys[..., :used, :]
            values[..., :used, :] = self.values[..., :used, :]
        self.keys = keys
        self.values = values
        self.slots = slots

    def move(self, source: Tensor, start: int) -> None:
        """Copy the slots `source` [n] to `start` … `start` + n; the ranges may overlap, for the gather makes a copy first."""
        for tensor in (self.keys, self.values):
            tensor.narrow(3, start, len(source)).copy_(tensor.index_select(3, source))


class SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's view of the cache. `first` is the oldest slot that the next pass reads (its window's edge)."""

    is_sliding = False
    keys: Tensor
    values: Tensor

    def __init__(self, cache: SlotCache, *, used: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cache = cache
        self.first = 0
        self.is_initialized = used  # Mllama asks it of layers that see images, which it leaves out without one

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the cache allocates before the pass."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the pass's K and V [1, heads, n, width]; return those in view of its queries, from `first` on."""
        cache = self.cache
        if cache.places is not None:
            self.keys.index_copy_(2, cache.places, key_states)
            self.values.index_copy_(2, cache.places, value_states)
            return self.keys, self.values
        start, count = cache.start, cache.count
        self.keys.narrow(2, start, count).copy_(key_states)
        self.values.narrow(2, start, count).copy_(value_states)
        first = self.first
        length = cache.seen(first)
        return self.keys.narrow(2, first, length), self.values.narrow(2, first, length)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of keys in view of the queries and the position of the first."""
        return self.cache.seen(self.first), self.first

    def get_seq_length(self) -> int:
        """Slots in use before this pass."""
        return self.cache.start

    def get_max_length(self) -> int:
        """Most slots."""
        return self.cache.context


class SlotCache(Cache):
    """All layers' slots. The session says which slots a pass writes (`begin`); the layers write when the model calls them.

    Args:
        specs: by layer; None for a layer that caches no K/V.
        context: most slots.
        padded: passes see more slots than are in use, behind a mask (see `attention.padded`).
    """

    def __init__(self, specs: Sequence[KVSpec | None], context: int, padded: bool = False) -> None:
        self.context = context
        self.padded = padded
        self._most = self._rounded(context)
        self.capacity = 0
        self.start = 0
        self.count = 0
        self.places: Tensor | None = None
        """Slots of a pass over static buffers [n]: it reads the whole cache (see graphs.py)."""
        self.slots = [SlotLayer(self, used=spec is not None) for spec in specs]
        super().__init__(layers=list(self.slots))
        self.arenas: list[Arena] = []
        self._places: list[tuple[SlotLayer, Arena, int]] = []
        for index, spec in enumerate(specs):
            if spec is None:
                continue
            arena = self.arenas[-1] if self.arenas else None
            if arena is None or arena.spec != spec or (arena.layers + 1) * spec.slot_bytes * context > ARENA_BYTES:
                arena = Arena(spec)
                self.arenas.append(arena)
            self._places.append((self.slots[index], arena, arena.layers))
            arena.layers += 1
        self.reserve(min(FIRST_CAPACITY, self._most), used=0)

    def reserve(self, slots: int, used: int) -> None:
        """Make room for `slots` slots and their padding, of which `used` hold something; without the memory nothing changes."""
        if slots <= self.capacity:
            return
        capacity = max(1, self.capacity)
        while capacity < slots:
            capacity *= 2
        capacity = min(self._rounded(capacity), self._most)
        for arena in self.arenas:
            if arena.slots < capacity:
                arena.resize(capacity, used)
        for layer, arena, index in self._places:
            layer.keys = arena.keys[index]
            layer.values = arena.values[index]
        self.capacity = capacity

    def _rounded(self, slots: int) -> int:
        return -(-slots // PAD_KEYS) * PAD_KEYS if self.padded else slots

    def seen(self, first: int) -> int:
        """Count the slots that the pass sees from `first` on."""
        slots = self.start + self.count - first
        return in_view(slots) if self.padded else slots

    def begin(self, start: int, count: int) -> None:
        """Have the next pass write slots `start` … `start` + `count`."""
        self.start = start
        self.count = count

    def look_from(self, firsts: Sequence[int]) -> None:
        """Set the oldest slot that each layer's next pass reads."""
        for layer, first in zip(self.slots, firsts, strict=True):
            layer.first = first

    def move(self, source: Sequence[int], start: int) -> None:
        """Copy slots `source` to `start` onwards, in all layers."""
        for arena in self.arenas:
            arena.move(on_device(source, arena.spec.device), start)

    # Asked for in every pass, so without the general case's checks.

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one layer's new K and V; return those in view of its queries."""
        return self.slots[layer_idx].update(key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in use before this pass."""
        return self.start
