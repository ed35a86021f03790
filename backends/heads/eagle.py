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

from ..hf.lean.halves import slim, slimmed
from ..hf.lean.lean import LeanLayer, norm
from ..hf.masks import FULL
from ..hf.slot_cache import KVSpec, SlotCache
from ..transfer import on_device
from .eagle_format import EagleFormat
from .layers import Modules, Parts, guarded
from .slots import SlotHeadSession

MOST_LOOKED_UP = 16 << 20
"""Most bytes of a table of what tokens add to the first layer: a small vocabulary's halves what a pass reads there."""


class EagleNetwork:
    """The forward pass of a drafter of this format, with its tensors on one device and of one type."""

    def __init__(self, found: EagleFormat, weights: Mapping[str, Tensor], parts: Parts) -> None:
        config = parts.config
        modules = Modules(weights, config)
        self.third = found.third
        self.device, self.dtype = parts.embeddings.device, parts.embeddings.dtype
        self._token_norm, self._feature_norm = (
            norm(modules.norm(f"layers.0.{n}.weight")) for n in ("input_layernorm", "hidden_norm")
        )
        # The first layer's norm reads the embedding alone (EAGLE-3), or is not there (EAGLE-1).
        layers = [modules.layer(f"layers.{i}", norm_first=i > 0) for i in range(found.layers)]
        self._known = self._looked_up(layers[0].self_attn, parts.embeddings) if self.third else None
        self.layers = [LeanLayer(layer, i, FULL, slimmed) for i, layer in enumerate(layers)]
        shape = (config.num_key_value_heads, config.head_dim)
        self.specs: list[KVSpec] = [KVSpec(shape, shape, self.dtype, self.device)] * found.layers
        self.whole = found.layers > 1
        """Whether a pass takes every node through a layer, even where the output of one is wanted."""
        self.rotations = parts.rotations()
        self.residual_normed = False
        """`norm_before_residual`, as it is read (see `Reading`)."""
        self._parts = parts
        self._fc = slim(weights["fc.weight"], weights.get("fc.bias"))
        self._scale, self._output_normed = found.logit_scale, found.norm_output
        self._norm = norm(modules.norm("norm.weight"))
        self._input_norm = norm(modules.norm("input_norm.weight")) if found.norm_before_fc else None
        taps = weights["fc.weight"].shape[1] // len(weights["fc_norm.0.weight"]) if found.fc_norm else 0
        self._tap_norms = [norm(modules.norm(f"fc_norm.{i}.weight")) for i in range(taps)]

    def _looked_up(self, attention: Any, embeddings: Tensor) -> Tensor | None:
        """What each token's embedding adds to the first layer's queries, keys and values [vocab, all of them], where that is
        worth its memory. The projections are then left with what reads the features."""
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
        """What the layers read of the target's states [n, taps × width]: [n, hidden]."""
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
        """One pass.

        Args:
            tokens: [n].
            features: of true states, or the parents' outputs [n, hidden].
            places: positions [n].
            mask: [1, 1, n, m]; None as `tree_attention` takes it.
            cache: takes K and V.
            last: only the last row is wanted.

        Returns:
            what a child reads in place of true states [rows, hidden], and logits over the target's vocabulary [rows, vocab].
        """
        n = len(tokens)
        if isinstance(places, range) or n == 1:
            cos, sin = self.rotations.from_on(features, places[0], n, cache.capacity)
        else:
            cos, sin = self.rotations(features, on_device([places], self.device), cache.capacity)
        around = (cos, sin, mask, cache)
        kept = torch.arange(n - 1, n, device=self.device) if last and n > 1 else None
        first, *others = self.layers
        wanted = kept if not others else None
        if self.third:
            read = self._feature_norm(features)
            base = read if self.residual_normed else features
            if self._known is not None:
                states = first.read(read).add_(self._known[tokens[0] if n == 1 else on_device(tokens, self._known.device)])
            else:
                states = first.read(torch.cat((self._token_norm(self._parts.embedded(tokens)), read), -1))
            hidden = first.feed(first.mixed(states, *around, wanted).add_(base if wanted is None else base[wanted])[None])
        else:
            hidden = self._fc(torch.cat((self._parts.embedded(tokens), features), -1))[None]
            hidden = first.only(wanted, hidden, *around) if wanted is not None else first(hidden, *around)
        for layer in others:
            final = layer is others[-1]
            hidden = layer.only(kept, hidden, *around) if kept is not None and final else layer(hidden, *around)
        out = hidden[0]
        shown = self._norm(out) if self.third else out
        logits = self._parts.lm_head(shown)
        if self._scale != 1:
            logits = logits * self._scale
        return shown if self._output_normed else out, self._parts.spread(logits)


class Network(Protocol):
    """The forward pass of a drafter that takes in pairs: an EAGLE head's, or that of an MTP layer."""

    device: torch.device
    dtype: torch.dtype
    specs: list[KVSpec]
    whole: bool

    def features(self, states: Tensor) -> Tensor:
        """See `EagleNetwork.features`."""

    def __call__(
        self, tokens: Sequence[int], features: Tensor, places: Sequence[int], mask: Any, cache: SlotCache, *, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """See `EagleNetwork.__call__`."""


class EagleSession(SlotHeadSession):
    """One conversation's cache."""

    def __init__(self, network: Network, context: int) -> None:
        super().__init__(context, network.device, network.dtype)
        self._network = network
        self._outputs = torch.empty(0)
        """Hidden states of the last pair and of each node [1 + nodes, hidden]."""
        self._cache = guarded(lambda: SlotCache(network.specs, context), network.device)

    def every(self, tokens: Sequence[int], states: Tensor) -> Tensor:
        """Logits after each of the first pairs [n, vocab], for a look at how well the drafter knows its target. They are not
        kept."""
        self.rewind(0)
        return guarded(lambda: self._read(tokens, states, every=True)[1], self.device)

    def _take(self, tokens: Sequence[int], states: Tensor) -> Tensor:
        self._outputs, logits = self._read(tokens, states, every=False)
        return logits

    def _read(self, tokens: Sequence[int], states: Tensor, *, every: bool) -> tuple[Tensor, Tensor]:
        """A pass over the next pairs: outputs and logits of all, or of the last one."""
        network, cache, n, start = self._network, self._cache, len(tokens), self.length
        cache.reserve(start + n, used=start)
        cache.begin(start, n)
        mask = None
        if start and n > 1 and (every or network.whole):
            mask = self._mask([(2 << i) - 1 for i in range(n)], start)
        features = network.features(states.to(network.device, network.dtype))
        return network(tokens, features, range(start, start + n), mask, cache, last=not every)

    def _grow(self, tokens: Sequence[int], parents: Sequence[int], depths: list[int], bits: list[int]) -> Tensor:
        network, cache, n, living = self._network, self._cache, len(tokens), len(self._depths)
        start = self.length + living
        cache.reserve(start + n, used=start)
        cache.begin(start, n)
        # One node below all the others sees everything.
        mask = None if n == 1 and bits[0] + 1 == 2 << living else self._mask(bits, self.length)
        first = parents[0] + 1
        features = (
            self._outputs[first : first + 1]
            if n == 1
            else self._outputs[on_device([parent + 1 for parent in parents], self.device)]
        )
        places = [self.length - 1 + depth for depth in depths]
        outputs, logits = network(tokens, features, places, mask, cache)
        self._outputs = torch.cat((self._outputs, outputs))
        return logits

    def drop(self, first: int) -> None:
        super().drop(first)
        self._outputs = self._outputs[: 1 + first]

    def close(self) -> None:
        super().close()
        self._cache = SlotCache((), 0)
