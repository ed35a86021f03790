"""An estimate of a model's memory from its files or the Hub's figures, before it is loaded: the weights (on the CPU
transformers holds floating-point numbers in 32 bits unless a dtype is set), SPARE of them for passes, and the KV cache of each
conversation.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..options import INT8
from .model_card import Card

USUAL = 8192
"""Tokens of a long conversation: for a cache that grows as it fills, or if no context is set."""

SPARE = 0.05
"""Memory of a pass, as a share of the weights'."""

KV_BYTES = {"f32": 4.0, "float32": 4.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}
"""Bytes of a number in llama.cpp's KV cache; types not here take 2."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a loaded model."""

    weights: int
    """Bytes."""
    widened: bool
    """Whether they take more than on the disk, as 32-bit numbers."""
    token: float
    """Bytes of a KV cache for each token; 0 if unknown."""

    @property
    def base(self) -> int:
        """Bytes without any KV cache."""
        return int(self.weights * (1 + SPARE))

    def cache(self, tokens: int) -> int:
        """Estimate the bytes of a KV cache of `tokens` tokens."""
        return int(self.token * tokens)


@dataclass(frozen=True, slots=True)
class Needs:
    """The figures of a model, from its card or the Hub, that its memory depends on."""

    backend: str
    weights: int
    """Bytes on the disk."""
    held: int
    """Bytes once loaded as 32-bit numbers; the same as `weights` if they are quantized."""
    context: int
    cache_numbers: int
    """Numbers in its KV cache for each token, about."""

    def footprint(self, *, gpu: bool, dtype: str = "auto", kv_type: str = "auto") -> Footprint:
        """Estimate the memory with these options of a load.

        Args:
            gpu: whether it is loaded onto a GPU.
            dtype, kv_type: as in LoadOptions.
        """
        if self.backend == "llama.cpp":
            kind = dtype if kv_type == "auto" else kv_type
            return Footprint(self.weights, False, self.cache_numbers * KV_BYTES.get(kind, 2.0))
        wide = dtype == "float32" or (dtype == "auto" and not gpu)
        weights = self.held if wide else self.weights
        if dtype == INT8:
            weights = self.held // 4
        return Footprint(weights, weights > self.weights, self.cache_numbers * (4.0 if wide else 2.0))


def needs_of(card: Card) -> Needs:
    """Read the figures of a model on the disk off its card."""
    return Needs(card.backend, card.size, card.weight_bytes(4), card.context, card.cache_numbers)
