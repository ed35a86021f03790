"""EAGLE heads: one decoder layer, or a few, that continue the target's own hidden states.

Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (2024), arXiv:2401.15077; "EAGLE-3: Scaling up
Inference Acceleration of Large Language Models via Training-Time Test" (2025), arXiv:2503.01840. EAGLE-2 has EAGLE-1's
weights.

Pair i of a conversation, the token at position i + 1 and the target's states at i, stands in slot i and has rotary position i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..base import ROOT
from ..hf.lean.lean import LeanLayer
from ..hf.lean.products import slim, slimmed
from ..hf.masks import FULL, Reach, tree_mask
from ..hf.slot_cache import KVSpec, SlotCache
from ..transfer import on_device
from .formats import EagleFormat
from .layers import DrafterParts, Modules, guarded
from .sessions import HeadSession

MOST_LOOKED_UP = 16 << 20
"""Most bytes of a table of the tokens' share in the first layer's projections. For a small vocabulary it halves the bytes that
a pass reads there."""


class EagleNetwork:
    """The forward pass of a drafter of this format, with its tensors on one device and of one type."""

    def __init__(self, format: EagleFormat, weights: Mapping[str, Tensor], parts: DrafterParts) -> None:
        config = parts.config
        modules = Modules(weights, config)
        self.third = format.third
        self.device = parts.embeddings.device
        self.dtype = parts.embeddings.dtype
        self._token_norm = modules.norm("layers.0.input_layernorm.weight")
        self._feature_norm = modules.norm("layers.0.hidden_norm.weight")
        # The first layer's norm reads the embedding alone (EAGLE-3), or is not there (EAGLE-1).
        layers = [modules.layer(f"layers.{i}", norm_first=i > 0) for i in range(format.layers)]
        self._known = self._looked_up(layers[0].self_attn, parts.embeddings) if self.third else None
        self.layers = [LeanLayer(layer, i, FULL, slimmed) for i, layer in enumerate(layers)]
        shape = (config.num_key_value_heads, config.head_dim)
        self.specs: list[KVSpec] = [KVSpec(shape, shape, self.dtype, self.device)] * format.layers
        self.rotations = parts.rotations()
        self._residual_normed = format.norm_before_residual
        self._parts = parts
        self._fc = slim(weights["fc.weight"], weights.get("fc.bias"))
        self._output_normed = format.norm_output
        self._norm = modules.norm("norm.weight")
        self._input_norm = modules.norm("input_norm.weight") if format.norm_before_fc else None
        taps = weights["fc.weight"].shape[1] // len(weights["fc_norm.0.weight"]) if format.fc_norm else 0
        self._tap_norms = [modules.norm(f"fc_norm.{i}.weight") for i in range(taps)]

    def _looked_up(self, attention: Any, embeddings: Tensor) -> Tensor | None:
        """Tabulate what each token's embedding adds to the first layer's queries, keys and values [vocab, q + k + v], if it is
        worth the memory. The projections then keep only the columns that read the features."""
        parts = [getattr(attention, f"{name}_proj") for name in "qkv"]
        outputs = sum(part.out_features for part in parts)
        if self.device.type != "cpu" or self.dtype != torch.float32 or 4 * len(embeddings) * outputs > MOST_LOOKED_UP:
            return None
        width = embeddings.shape[1]
        with torch.inference_mode():
            read = torch.cat([part.weight.detach()[:, :width] for part in parts])
            for part in parts:
                part.weight = nn.Parameter(part.weight.detach()[:, width:].clone(), requires_grad=False)
            added: Tensor = self._token_norm(embeddings) @ read.t()
        return added

    def features(self, states: Tensor) -> Tensor:
        """Project the target's states [n, taps × width] to the layers' input [n, hidden]."""
        if not self.third:
            return states
        if self._input_norm is not None:
            states = self._input_norm(states)
        if self._tap_norms:
            parts = states.chunk(len(self._tap_norms), -1)
            states = torch.cat([normed(part) for normed, part in zip(self._tap_norms, parts, strict=True)], -1)
        return self._fc(states)

    def __call__(
        self, tokens: Sequence[int], features: Tensor, places: Sequence[int], mask: Any, cache: SlotCache, *, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Run one pass.

        Args:
            tokens: [n].
            features: from the target's states, or the parents' outputs [n, hidden].
            places: positions [n].
            mask: [1, 1, n, m]; None as in `tree_attention`.
            cache: receives K and V.
            last: return the last row only.

        Returns:
            logits over the target's vocabulary [rows, vocab], and outputs that children read in place of features
            [rows, hidden].
        """
        n = len(tokens)
        if isinstance(places, range) or n == 1:
            cos, sin = self.rotations.from_on(features, places[0], n, cache.capacity)
        else:
            cos, sin = self.rotations(features, on_device([places], self.device), cache.capacity)
        around = (cos, sin, mask, cache)
        last_row = torch.arange(n - 1, n, device=self.device) if last and n > 1 else None
        first, *further = self.layers
        first_rows = None if further else last_row
        if self.third:
            read = self._feature_norm(features)
            base = read if self._residual_normed else features
            if self._known is not None:
                states = first.read(read).add_(self._known[tokens[0] if n == 1 else on_device(tokens, self._known.device)])
            else:
                states = first.read(torch.cat((self._token_norm(self._parts.embedded(tokens)), read), -1))
            hidden = first.mixed(states, *around).add_(base)[None]
            hidden = first.feed(hidden if first_rows is None else hidden[:, first_rows])
        else:
            hidden = self._fc(torch.cat((self._parts.embedded(tokens), features), -1))[None]
            hidden = first.only(first_rows, hidden, *around) if first_rows is not None else first(hidden, *around)
        for layer in further:
            final = layer is further[-1]
            hidden = layer.only(last_row, hidden, *around) if last_row is not None and final else layer(hidden, *around)
        out = hidden[0]
        normed = self._norm(out) if self.third else out
        return self._parts.spread(self._parts.lm_head(normed)), normed if self._output_normed else out


class Network(Protocol):
    """The forward pass of a drafter that takes in pairs: an EAGLE head or an MTP layer."""

    device: torch.device
    dtype: torch.dtype
    specs: list[KVSpec]

    def features(self, states: Tensor) -> Tensor:
        """See `EagleNetwork.features`."""

    def __call__(
        self, tokens: Sequence[int], features: Tensor, places: Sequence[int], mask: Any, cache: SlotCache, *, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """See `EagleNetwork.__call__`."""


class EagleSession(HeadSession):
    """One conversation with an EAGLE head, or with a single MTP layer: each pair in the slot of its number, and nodes after
    them."""

    def __init__(self, network: Network, context: int) -> None:
        super().__init__(context, network.device)
        self._network = network
        self._bits: list[int] = []
        """Each node's ancestors and itself as a bit set: bit i for node i."""
        self._cache = guarded(lambda: SlotCache(network.specs, context), network.device)

    def _take(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        network, n, start = self._network, len(tokens), self.length
        self._reserve(start, n)
        mask = None
        if start and n > 1:
            mask = self._mask([(2 << i) - 1 for i in range(n)], self.length)
        features = network.features(states.to(network.device, network.dtype))
        return network(tokens, features, range(start, start + n), mask, self._cache, last=True)

    def _branch(
        self, tokens: Sequence[int], parents: Sequence[int], depths: Sequence[int], above: Tensor
    ) -> tuple[Tensor, Tensor]:
        living = len(self._depths)
        self._reserve(self.length + living, len(tokens))
        self._bits += [(self._bits[parent] if parent != ROOT else 0) | 1 << (living + i) for i, parent in enumerate(parents)]
        bits = self._bits[living:]
        # One node below all the others sees everything.
        mask = None if len(tokens) == 1 and bits[0] + 1 == 2 << living else self._mask(bits, self.length)
        return self._network(tokens, above, [self.length - 1 + depth for depth in depths], mask, self._cache)

    def _reserve(self, start: int, count: int) -> None:
        """Begin a pass of `count` rows in the slots from `start` on."""
        self._cache.reserve(start + count, used=start)
        self._cache.begin(start, count)

    def _mask(self, bits: Sequence[int], length: int) -> Tensor:
        """Build the mask of rows that see the first `length` slots and the nodes in their bits."""
        network, places = self._network, [0] * max(bits).bit_length()  # layers without a window do not read them
        return tree_mask(
            bits, places[: len(bits)], places, length, reach=Reach(), first=0, dtype=network.dtype, device=network.device
        )

    def drop(self, first: int) -> None:
        super().drop(first)
        del self._bits[first:]

    def close(self) -> None:
        super().close()
        self._cache = SlotCache((), 0)
