"""DFlash drafters: a few layers that turn a block of mask tokens into the next tokens, reading the target's hidden states as
the keys and values of the text. So are DSpark and DFlash 2, whose guesses go by the token before as well (paths.py).

Chen et al., "DFlash: Block Diffusion for Flash Speculative Decoding" (2026), arXiv:2602.06036.

The token at position i of the text, by the target's states, stands in slot i; a block stands behind the text, and is gone with
the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...base import PREFILL_CHUNK
from ...hf.lean.lean import LeanLayer
from ...hf.lean.products import product
from ...hf.slot_cache import KVSpec, SlotCache
from ...scores import TorchScores
from ..base import BlockSession
from ..layers import DrafterParts, Modules, guarded
from .format import DFlashFormat, Selector, View
from .paths import MarkovBlock, PathBlockSession, SelectorBlock, SelectorHead, path_head


class Convolution:
    """The convolutions around attention or the MLP. They see nothing before the block; each position has its own kernels.

    Args:
        base: the part of the kernels shared by all positions [2, taps, width].
        projection: maps the input to each position's addition, a number per group of channels [2 * taps * groups, width].
    """

    def __init__(self, base: Tensor, projection: Tensor) -> None:
        _, taps, width = base.shape
        groups = len(projection) // (2 * taps)
        self._base = base.view(2, taps, groups, width // groups)
        self._projection = projection

    def __call__(self, rows: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `part` between its two convolutions to its normed input [n, width]."""
        _, taps, groups, _ = self._base.shape
        # [n, 2, taps, groups, channels]
        kernels = self._base + F.linear(rows, self._projection).view(len(rows), 2, taps, groups, 1)
        before, after = kernels.unbind(1)
        return convolved(part(convolved(rows, before)), after)


def convolved(rows: Tensor, kernels: Tensor) -> Tensor:
    """Compute out[t] = Σ_j kernels[t, j] · rows[t - j], for rows [n, width] and kernels [n, taps, groups, channels]."""
    n, taps, groups, channels = kernels.shape
    grouped = rows.view(n, groups, channels)
    out = kernels[:, 0] * grouped
    for tap in range(1, min(taps, n)):
        out[tap:] += kernels[tap:, tap] * grouped[: n - tap]
    return out.view(n, -1)


class ConvolvedLayer(LeanLayer):
    """A decoder layer with convolutions.

    Args:
        layer, index, kind: as `LeanLayer`.
        weights: all tensors of the drafter.
    """

    __slots__ = ("_around_attention", "_around_mlp")

    def __init__(self, layer: Any, index: int, kind: str, weights: Mapping[str, Tensor]) -> None:
        super().__init__(layer, index, kind)

        def convolution(part: str) -> Convolution:
            prefix = f"layers.{index}.{part}_conv"
            return Convolution(weights[f"{prefix}.base_kernel"], weights[f"{prefix}.kernel_projection.weight"])

        self._around_attention = convolution("attention")
        self._around_mlp = convolution("mlp")

    def __call__(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        rows = hidden[0]
        attention = self._around_attention(self._before(rows), lambda x: self.mixed(self._qkv(x), cos, sin, mask, cache))
        rows = rows + attention
        return (rows + self._around_mlp(self._after(rows), lambda x: self._down(self._inner(x))))[None]


class DFlashNetwork:
    """The forward pass of a drafter of this format, with its tensors on one device and of one type."""

    def __init__(self, format: DFlashFormat, weights: Mapping[str, Tensor], parts: DrafterParts) -> None:
        config = parts.config
        modules, count = Modules(weights, config), len(format.views)
        read = [f"layers.{i}.self_attn.{name}_proj" for i in range(count) for name in "kv"]
        biases = [weights[f"{prefix}.bias"] for prefix in read if f"{prefix}.bias" in weights]
        # The text's keys and values of all layers are one product; so these are in memory twice, which is a few percent.
        self._text = product(torch.cat([weights[f"{prefix}.weight"] for prefix in read]), torch.cat(biases) if biases else None)
        self._key_norms = torch.stack([weights[f"layers.{i}.self_attn.k_norm.weight"] for i in range(count)])[:, None, None]
        self._epsilon = config.rms_norm_eps
        self._heads = config.num_key_value_heads
        self._width = config.head_dim
        layers = [modules.layer(f"layers.{i}") for i in range(count)]
        if isinstance(format.paths, Selector):
            self.layers: list[LeanLayer] = [ConvolvedLayer(layer, i, str(i), weights) for i, layer in enumerate(layers)]
        else:
            self.layers = [LeanLayer(layer, i, str(i)) for i, layer in enumerate(layers)]
        self.paths = path_head(weights, format.paths)
        self.device = parts.embeddings.device
        self.dtype = parts.embeddings.dtype
        shape = (self._heads, self._width)
        self.specs = [KVSpec(shape, shape, self.dtype, self.device)] * count
        self.views = format.views
        self._rotations = parts.rotations()
        self.format = format
        self.parts = parts
        self._fc = product(weights["fc.weight"], None)
        self._hidden_norm = modules.norm("hidden_norm.weight")
        self._norm = modules.norm("norm.weight")
        self._embedding_scale = format.embedding_scale
        self._logit_scale = format.logit_scale
        self._softcap = format.softcap

    def read(self, states: Tensor, start: int, cache: SlotCache) -> None:
        """Write the keys and values of text into the slots from `start` on.

        Args:
            states: the target's [n, taps × width].
            start: position of the first.
            cache: takes K and V.
        """
        read = self._hidden_norm(self._fc(states))
        n, count = len(read), len(self.layers)
        # [layers, 2, K/V heads, n, width of a head]
        both = self._text(read).view(n, count, 2, self._heads, self._width).permute(1, 2, 3, 0, 4)
        wide = both[:, 0].float()
        keys = (wide * torch.rsqrt(wide.pow(2).mean(-1, True) + self._epsilon)).to(self.dtype) * self._key_norms
        cos, sin = self._rotations(read, torch.arange(start, start + n, device=self.device)[None], cache.context)
        half = self._width // 2
        keys = keys * cos + torch.cat((keys[..., half:], keys[..., :half]), -1) * sin
        cache.begin(start, n)
        cache.look_from([0] * count)  # where the last block's windows began may lie behind a text that was rewound
        for i in range(count):
            cache.update(keys[i][None], both[i, 1][None], i)

    def __call__(self, tokens: Sequence[int], start: int, outputs: slice, cache: SlotCache) -> tuple[Tensor, Tensor]:
        """Run a block; return states [outputs, width] and logits [outputs, drafted] after some of its tokens.

        Args:
            tokens: of the block: the pending one, and masks.
            start: position of the first.
            outputs: the tokens to score.
            cache: holds the text in the slots before `start`.
        """
        n = len(tokens)
        hidden = self.parts.embedded(tokens)[None]
        if self._embedding_scale != 1:
            hidden = hidden * self._embedding_scale
        cos, sin = self._rotations(hidden, torch.arange(start, start + n, device=self.device)[None], cache.context)
        cache.begin(start, n)
        # A window's first position is that of the block's first token.
        cache.look_from([0 if view.window is None else max(0, start - view.window + 1) for view in self.views])
        view_masks = {view: self._mask(view, start, n) for view in dict.fromkeys(self.views)}
        masks = {str(i): view_masks[view] for i, view in enumerate(self.views)}
        for layer in self.layers:
            hidden = layer(hidden, cos, sin, masks, cache)
        states = self._norm(hidden[0, outputs])
        logits = self.parts.lm_head(states)
        if self._logit_scale != 1:
            logits = logits * self._logit_scale
        if self._softcap > 0:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return states, logits

    def _mask(self, view: View, start: int, count: int) -> Tensor:
        """Build the additive mask of a block of `count` tokens [1, 1, count, keys in view]; one row if all see everything."""
        window = view.window
        first = 0 if window is None else max(0, start - window + 1)
        options: dict[str, Any] = {"dtype": self.dtype, "device": self.device}
        if not view.causal and (window is None or window >= start + count):
            return torch.zeros((1, 1, 1, start + count - first), **options)
        rows = torch.arange(start, start + count, device=self.device)[:, None]
        away = rows - torch.arange(first, start + count, device=self.device)[None]
        hidden = away < 0 if view.causal else torch.zeros_like(away, dtype=torch.bool)
        if window is not None:
            hidden = hidden | (away.abs() >= window)
        return torch.zeros(away.shape, **options).masked_fill_(hidden, torch.finfo(self.dtype).min)[None, None]


class DFlashSession(BlockSession):
    """One conversation's cache: the text in the slots of its positions, and room for a block behind it."""

    def __init__(self, network: DFlashNetwork, context: int) -> None:
        super().__init__(context)
        self._network = network
        self._cache = guarded(lambda: SlotCache(network.specs, context + network.format.block), network.device)

    def extend(self, states: Tensor) -> None:
        self.check_room(len(states))
        network, cache, start, end = self._network, self._cache, self.length, self.length + len(states)

        def take() -> None:
            cache.reserve(end, used=start)
            for at in range(start, end, PREFILL_CHUNK):
                part = states[at - start : at - start + PREFILL_CHUNK]
                network.read(part.to(network.device, network.dtype), at, cache)

        guarded(take, network.device)
        self.length = end

    def guess(self, token: int, count: int) -> TorchScores:
        """Score the next positions (see `BlockSession.guess`). The pass always runs a whole block, as in training."""
        logits = guarded(lambda: self._network.parts.spread(self._run(token, count)[1]), self._network.device)
        return TorchScores(logits, tuple(range(count)), tuple(range(self.length + 1, self.length + 1 + count)))

    def _run(self, token: int, count: int) -> tuple[Tensor, Tensor]:
        """Compute states and logits of the next positions (see `DFlashNetwork`)."""
        cache, format, start = self._cache, self._network.format, self.length
        cache.reserve(start + format.block, used=start)
        return self._network(format.tokens(token), start, slice(format.first, format.first + count), cache)

    def close(self) -> None:
        super().close()
        self._cache = SlotCache((), 0)


class DFlashPathSession(DFlashSession, PathBlockSession):
    """A session of a drafter whose guesses depend on the token before."""

    def __init__(self, network: DFlashNetwork, context: int) -> None:
        super().__init__(network, context)
        self.device = network.device

    def _run_block(self, token: int, count: int) -> MarkovBlock | SelectorBlock:
        paths, (states, logits) = self._network.paths, self._run(token, count)
        assert paths is not None
        return SelectorBlock(paths, states, logits) if isinstance(paths, SelectorHead) else MarkovBlock(paths, logits)

    def _spread(self, logits: Tensor) -> Tensor:
        return self._network.parts.spread(logits)
