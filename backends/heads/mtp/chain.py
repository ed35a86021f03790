"""The forward pass of an MTP layer, and sessions with several layers, each of which predicts one token further than the last.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437, section 2.2; Gloeckle et al., "Better & Faster Large
Language Models via Multi-token Prediction" (2024), arXiv:2404.19737.

In layer k (from 0) the token at position p has a row. It reads the token's embedding beside layer k - 1's output for the token
before it (in layer 0: the target's state there), and attends to the rows of the text before it in the same layer. So a draft
token d places behind the text has rows in the layers from d on, and layer d's output predicts its children. Further down the
last layer goes on from its own output, as a single layer does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from ...hf.slot_cache import KVSpec, SlotCache
from ...transfer import on_device
from ..layers import guarded
from ..sessions import SlotSession


class MtpNetwork:
    """The forward pass (see `eagle.Network`).

    Args:
        module: the model, as transformers loads it.
        block: the layer.
        weights: the tensors before and after it (`format.OUTSIDE`).
        embeddings: the model's table [vocab, width].
        states_first: as `MtpFormat.states_first`.
    """

    whole = True

    def __init__(
        self, module: Any, block: nn.Module, weights: Mapping[str, Tensor], embeddings: Tensor, states_first: bool
    ) -> None:
        decoder_layer: Any = block
        kind, epsilon = type(decoder_layer.input_layernorm), module.config.get_text_config(decoder=True).rms_norm_eps

        def norm(name: str) -> nn.Module:
            layer: nn.Module = kind(len(weights[name]), eps=epsilon)
            layer.weight = nn.Parameter(weights[name], requires_grad=False)
            return layer

        self.device = embeddings.device
        self.dtype = embeddings.dtype
        self._enorm = norm("enorm.weight")
        self._hnorm = norm("hnorm.weight")
        self._norm = norm("shared_head.norm.weight")
        self._fc = weights["eh_proj.weight"]
        self._block = block
        self._embeddings = embeddings
        self._states_first = states_first
        head = module.get_output_embeddings()
        self._rotary = module.get_decoder().rotary_emb
        self.logits = cast("Callable[[Tensor], Tensor]", head)
        self.specs: list[KVSpec] = []
        probe = DynamicCache()
        self._run(
            torch.zeros(2, len(weights["hnorm.weight"])).to(embeddings), torch.arange(2).to(self.device)[None], None, probe
        )
        cached: Any = probe.layers[0]
        shapes = [(tensor.shape[1], tensor.shape[3]) for tensor in (cached.keys, cached.values)]
        self.specs.append(KVSpec(shapes[0], shapes[1], self.dtype, self.device))

    def features(self, states: Tensor) -> Tensor:
        """Return the states, which the layer reads as they are."""
        return states

    def __call__(
        self, tokens: Sequence[int], features: Tensor, places: Sequence[int], mask: Any, cache: SlotCache, *, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Run one pass (see `EagleNetwork.__call__`)."""
        ids = on_device(tokens, self.device)
        positions = on_device(places, self.device)
        out = self.rows(ids, features, positions[None], mask, cache)
        if last:
            out = out[-1:]
        return self.logits(out), out

    def rows(self, tokens: Tensor, features: Tensor, positions: Tensor, mask: Any, cache: SlotCache) -> Tensor:
        """Run one pass without the LM head, with the arguments of `__call__`; return its outputs."""
        parts = [self._enorm(F.embedding(tokens, self._embeddings)), self._hnorm(features)]
        if self._states_first:
            parts.reverse()
        return self._run(F.linear(torch.cat(parts, -1), self._fc), positions, mask, cache)

    def _run(self, hidden: Tensor, positions: Tensor, mask: Any, cache: Any) -> Tensor:
        """Run the layer and the norm behind it [n, width]."""
        around = self._rotary(hidden[None], position_ids=positions)
        out = self._block(
            hidden[None],
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            position_embeddings=around,
        )
        rows: Tensor = self._norm((out[0] if isinstance(out, tuple) else out)[0])
        return rows


class MtpChainSession(SlotSession):
    """One conversation's caches, one for each layer. Pair i, the token at position i + 1, stands in slot i - k of layer k: the
    text's first tokens have no rows in the further layers. Nodes stand behind. Outputs are those of each layer
    [nodes, layers, hidden], and zeros in layers where a node has no row."""

    def __init__(self, networks: Sequence[MtpNetwork], context: int) -> None:
        super().__init__(context, networks[0].device, networks[0].dtype)
        self._networks = list(networks)
        self._last = len(networks) - 1
        """Number of the last layer."""
        self._pairs = torch.empty(0)
        """Each pair's outputs, with room for more [capacity, layers, hidden]. The pairs that follow a rewind read them too."""
        self._caches = guarded(lambda: [SlotCache(network.specs, context) for network in networks], self.device)

    def _take(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        start, end = self.length, self.length + len(tokens)
        ids, pairs = on_device(tokens, self.device), self._room(end, states)
        features = states.to(self.device, self.dtype)
        for layer, (network, cache) in enumerate(zip(self._networks, self._caches, strict=True)):
            first = max(start, layer)
            if first >= end:
                break
            if layer:
                features = pairs[first - 1 : end - 1, layer - 1]
            slot, n = first - layer, end - first
            cache.reserve(slot + n, used=slot)
            cache.begin(slot, n)
            mask = self._causal_mask(n, slot) if slot and n > 1 else None
            positions = torch.arange(first, end, device=self.device)[None]
            pairs[first:end, layer] = network.rows(ids[first - start :], features, positions, mask, cache)
        last = pairs[end - 1 : end]
        return self._networks[0].logits(last[:, 0]), last

    def _room(self, pairs: int, like: Tensor) -> Tensor:
        """Return `_pairs` with room for at least `pairs`."""
        if len(self._pairs) < pairs:
            shape = (min(self.context, max(256, 2 * pairs)), len(self._networks), like.shape[-1])
            grown = torch.zeros(shape, dtype=self.dtype, device=self.device)
            if self.length:
                grown[: self.length] = self._pairs[: self.length]
            self._pairs = grown
        return self._pairs

    def _branch(
        self, tokens: Sequence[int], parents: Sequence[int], depths: Sequence[int], above: Tensor
    ) -> tuple[Tensor, Tensor]:
        ids, living, n = on_device(tokens, self.device), len(self._depths), len(tokens)
        bits = self._hang(parents)
        out, nodes = torch.zeros_like(above), torch.arange(n, device=self.device)
        positions = on_device([[self.length - 1 + depth for depth in depths]], self.device)
        for layer in range(min(*depths, self._last), self._last + 1):
            network, cache = self._networks[layer], self._caches[layer]
            # Below its depth the last layer goes on from its own output.
            sources = [layer if layer == self._last and depth > layer else layer - 1 for depth in depths]
            features = above[nodes, on_device(sources, self.device)]
            slot = max(0, self.length - layer)
            cache.reserve(slot + living + n, used=slot + living)
            cache.begin(slot + living, n)
            mask = self._mask(self._visible(bits, depths, layer), slot)
            out[:, layer] = network.rows(ids, features, positions, mask, cache)
        predicting = out[nodes, on_device([min(depth, self._last) for depth in depths], self.device)]
        return self._networks[0].logits(predicting), out

    def _visible(self, bits: Sequence[int], depths: Sequence[int], layer: int) -> list[int]:
        """Clear the bits of ancestors that have no row in a layer, as happens behind a text shorter than the layer's number."""
        if self.length > layer:
            return list(bits)
        living = len(self._depths)
        absent = sum(1 << i for i, depth in enumerate((*self._depths, *depths)) if self.length - 1 + depth < layer)
        return [ancestors & ~absent | 1 << (living + i) for i, ancestors in enumerate(bits)]

    def close(self) -> None:
        super().close()
        self._caches = []
        self._pairs = torch.empty(0)
