"""DFlash 2's layers: short convolutions along the block before and after attention, and before and after the MLP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ...hf.lean.lean import LeanLayer


class Convolution:
    """The convolutions around attention or the MLP. They see nothing before the block; each position has kernels of its own.

    Args:
        base: what the kernels of all positions have in common [2, taps, width].
        projection: makes the rest of what the part reads, one number for each group of channels [2 * taps * groups, width].
    """

    def __init__(self, base: Tensor, projection: Tensor) -> None:
        _, taps, width = base.shape
        groups = len(projection) // (2 * taps)
        self._base, self._projection = base.view(2, taps, groups, width // groups), projection

    def __call__(self, rows: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """What the part gives between its convolutions [n, width], for its normed input [n, width]."""
        _, taps, groups, _ = self._base.shape
        # [n, 2, taps, groups, channels]
        kernels = self._base + F.linear(rows, self._projection).view(len(rows), 2, taps, groups, 1)
        before, after = kernels.unbind(1)
        return convolved(part(convolved(rows, before)), after)


def convolved(rows: Tensor, kernels: Tensor) -> Tensor:
    """out[t] = Σ_j kernels[t, j] · rows[t - j], for rows [n, width] and kernels [n, taps, groups, channels]."""
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
        self._around_attention, self._around_mlp = (
            Convolution(weights[f"{at}.base_kernel"], weights[f"{at}.kernel_projection.weight"])
            for at in (f"layers.{index}.attention_conv", f"layers.{index}.mlp_conv")
        )

    def __call__(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        rows = hidden[0]
        attention = self._around_attention(self._before(rows), lambda x: self.mixed(self._qkv(x), cos, sin, mask, cache))
        rows = rows + attention
        return (rows + self._around_mlp(self._after(rows), lambda x: self._down(self._inner(x))))[None]
