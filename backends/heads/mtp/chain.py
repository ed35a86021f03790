"""The forward pass of an MTP layer; several of them, each of which predicts one token further on than the one before.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437, section 2.2; Gloeckle et al., "Better & Faster Large
Language Models via Multi-token Prediction" (2024), arXiv:2404.19737.

In layer k (from 0) the token at position p has a row. It reads the token's embedding beside layer k - 1's output for the token
before it (in layer 0: the target's state there), and attends to the rows of the text before it in the same layer. So a draft
token d places behind the text has rows in the layers from d on, and what layer d makes of it predicts its children. Further
down the last layer goes on from its own output, as a single one does.
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
from ..slots import SlotHeadSession
from .format import OUTSIDE


class MtpNetwork:
    """The forward pass (see `eagle.Network`).

    Args:
        module: the model, as transformers loads it.
        block: the layer.
        weights: the tensors OUTSIDE it.
        embeddings: the model's table [vocab, width].
        states_first: as `MtpFormat.states_first`.
    """

    whole = True

    def __init__(
        self, module: Any, block: nn.Module, weights: Mapping[str, Tensor], embeddings: Tensor, states_first: bool
    ) -> None:
        own: Any = block
        kind, epsilon = type(own.input_layernorm), module.config.get_text_config(decoder=True).rms_norm_eps

        def norm(name: str) -> nn.Module:
            made: nn.Module = kind(len(weights[name]), eps=epsilon)
            made.weight = nn.Parameter(weights[name], requires_grad=False)
            return made

        self.device, self.dtype = embeddings.device, embeddings.dtype
        self._enorm, self._hnorm, self._norm = (norm(name) for name in OUTSIDE if "norm" in name)
        self._fc, self._block, self._embeddings = weights["eh_proj.weight"], block, embeddings
        self._states_first = states_first
        head = module.get_output_embeddings()
        self._rotary, self.logits = module.get_decoder().rotary_emb, cast("Callable[[Tensor], Tensor]", head)
        self.specs: list[KVSpec] = []
        seen = DynamicCache()
        self._run(
            torch.zeros(2, len(weights["hnorm.weight"])).to(embeddings), torch.arange(2).to(self.device)[None], None, seen
        )
        layer: Any = seen.layers[0]
        shapes = [(tensor.shape[1], tensor.shape[3]) for tensor in (layer.keys, layer.values)]
        self.specs.append(KVSpec(shapes[0], shapes[1], self.dtype, self.device))

    def features(self, states: Tensor) -> Tensor:
        """What the layer reads of the model's states: the states themselves."""
        return states

    def __call__(
        self, tokens: Sequence[int], features: Tensor, places: Sequence[int], mask: Any, cache: SlotCache, *, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """One pass (see `EagleNetwork.__call__`)."""
        ids, positions = (on_device(each, self.device) for each in (tokens, places))
        out = self.rows(ids, features, positions[None], mask, cache)
        if last:
            out = out[-1:]
        return out, self.logits(out)

    def rows(self, tokens: Tensor, features: Tensor, positions: Tensor, mask: Any, cache: SlotCache) -> Tensor:
        """One pass without the LM head: arguments and first result are `__call__`'s."""
        parts = [self._enorm(F.embedding(tokens, self._embeddings)), self._hnorm(features)]
        if self._states_first:
            parts.reverse()
        return self._run(F.linear(torch.cat(parts, -1), self._fc), positions, mask, cache)

    def _run(self, hidden: Tensor, positions: Tensor, mask: Any, cache: Any) -> Tensor:
        """The layer and the norm behind it [n, width]."""
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


class MtpChainSession(SlotHeadSession):
    """One conversation's caches, one for each layer. Pair i, the token at position i + 1, stands in slot i - k of layer k: the
    text's first tokens have no rows in the further layers. Nodes stand behind."""

    def __init__(self, networks: Sequence[MtpNetwork], context: int) -> None:
        super().__init__(context, networks[0].device, networks[0].dtype)
        self._networks = list(networks)
        self._last = len(networks) - 1
        """The last layer."""
        self._drafted = torch.empty(0)
        """What each node gave in each layer [nodes, layers, hidden]; rows that it does not have are zeros."""
        self._given = torch.empty(0)
        """The same of each pair, with room for more [pairs, layers, hidden]: what follows a shorter text reads it too."""
        self._caches = guarded(lambda: [SlotCache(network.specs, context) for network in networks], self.device)

    def _take(self, tokens: Sequence[int], states: Tensor) -> Tensor:
        start, end = self.length, self.length + len(tokens)
        ids, given = self._ids(tokens), self._room(end, states)
        features = states.to(self.device, self.dtype)
        for layer, (network, cache) in enumerate(zip(self._networks, self._caches, strict=True)):
            first = max(start, layer)
            if first >= end:
                break
            if layer:
                features = given[first - 1 : end - 1, layer - 1]
            slot, n = first - layer, end - first
            cache.reserve(slot + n, used=slot)
            cache.begin(slot, n)
            mask = self._mask([(2 << i) - 1 for i in range(n)], slot) if slot and n > 1 else None
            positions = torch.arange(first, end, device=self.device)[None]
            given[first:end, layer] = network.rows(ids[first - start :], features, positions, mask, cache)
        return self._networks[0].logits(given[end - 1 : end, 0])

    def _room(self, pairs: int, like: Tensor) -> Tensor:
        """Place for what so many pairs give."""
        if len(self._given) < pairs:
            shape = (min(self.context, max(256, 2 * pairs)), len(self._networks), like.shape[-1])
            given = torch.zeros(shape, dtype=self.dtype, device=self.device)
            if self.length:
                given[: self.length] = self._given[: self.length]
            self._given = given
        return self._given

    def _grow(self, tokens: Sequence[int], parents: Sequence[int], depths: list[int], bits: list[int]) -> Tensor:
        ids, living, n = self._ids(tokens), len(self._depths), len(tokens)
        known = self._given[self.length - 1 : self.length]
        above = (torch.cat((known, self._drafted)) if living else known)[[parent + 1 for parent in parents]]
        out, each = torch.zeros_like(above), torch.arange(n, device=self.device)
        places = [self.length - 1 + depth for depth in depths]
        positions = on_device([places], self.device)
        for layer in range(min(*depths, self._last), self._last + 1):
            network, cache = self._networks[layer], self._caches[layer]
            # Below its depth the last layer goes on from its own output.
            sources = [layer if layer == self._last and depth > layer else layer - 1 for depth in depths]
            features = above[each, on_device(sources, self.device)]
            slot = max(0, self.length - layer)
            cache.reserve(slot + living + n, used=slot + living)
            cache.begin(slot + living, n)
            out[:, layer] = network.rows(ids, features, positions, self._mask(self._there(bits, depths, layer), slot), cache)
        shown = out[each, on_device([min(depth, self._last) for depth in depths], self.device)]
        logits = self._networks[0].logits(shown)
        self._drafted = torch.cat((self._drafted, out)) if living else out
        return logits

    def _there(self, bits: Sequence[int], depths: Sequence[int], layer: int) -> list[int]:
        """The ancestors' bits without those that have no row in a layer: the text may be too short for one."""
        if self.length > layer:
            return list(bits)
        gone = sum(1 << i for i, depth in enumerate((*self._depths, *depths)) if self.length - 1 + depth < layer)
        own = len(self._depths)
        return [seen & ~gone | 1 << (own + i) for i, seen in enumerate(bits)]

    def _ids(self, tokens: Sequence[int]) -> Tensor:
        return on_device(tokens, self.device)

    def drop(self, first: int) -> None:
        super().drop(first)
        self._drafted = self._drafted[:first]

    def close(self) -> None:
        super().close()
        self._caches, self._given = [], torch.empty(0)
