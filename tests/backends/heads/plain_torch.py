"""The parts of published drafters in plain torch, a whole text at once: what ours are compared with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor


class PlainTorch:
    """A drafter's weights, and what its layers do with them.

    Args:
        epsilon: of its norms.
        base: of its rotary positions.
        vocabulary: of the target.
    """

    def __init__(self, weights: Mapping[str, Tensor], epsilon: float, base: float, vocabulary: int) -> None:
        self.w = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
        self.epsilon, self.base, self.vocabulary = epsilon, base, vocabulary

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.w[f"{name}.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def turn(self, x: Tensor, first: int = 0) -> Tensor:
        """Rotary positions from `first` on of x [n, heads, width]."""
        half = x.shape[-1] // 2
        angles = torch.arange(first, first + len(x))[:, None] * self.base ** (-torch.arange(half) / half)
        cos, sin = (torch.cat((f(angles), f(angles)), -1)[:, None] for f in (torch.cos, torch.sin))
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        """What rows [n, heads, width] take from the keys that they see [n, keys]; key heads may be fewer [n, heads × width]."""
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return torch.einsum("hij,jhd->ihd", weights, v).reshape(len(q), -1)

    def mlp(self, x: Tensor, at: str) -> Tensor:
        gate, up = self.linear(x, f"{at}mlp.gate_proj"), self.linear(x, f"{at}mlp.up_proj")
        return self.linear(F.silu(gate) * up, f"{at}mlp.down_proj")

    def widened(self, logits: Tensor) -> Tensor:
        """Logits [..., drafted] over the target's vocabulary."""
        if "d2t" not in self.w:
            return logits
        full = torch.full((*logits.shape[:-1], self.vocabulary), -torch.inf)
        full[..., torch.arange(len(self.w["d2t"])) + self.w["d2t"]] = logits
        return full
