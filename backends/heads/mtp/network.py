"""The forward pass of an MTP layer, which predicts the token after the next. A session (`eagle.EagleSession`) runs it again on
its own output for the tokens after that.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437, section 2.2; Gloeckle et al., "Better & Faster Large
Language Models via Multi-token Prediction" (2024), arXiv:2404.19737.
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
        embedded = self._enorm(F.embedding(on_device(tokens, self.device), self._embeddings))
        parts = [embedded, self._hnorm(features)]
        if self._states_first:
            parts.reverse()
        out = self._run(F.linear(torch.cat(parts, -1), self._fc), on_device(places, self.device)[None], mask, cache)
        if last:
            out = out[-1:]
        return self.logits(out), out

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
