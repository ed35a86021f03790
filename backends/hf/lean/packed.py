"""Weights in the order in which the CPU's matrix products read them.

As models store them, oneDNN and MKL bring weights into an order of their own in every pass of several rows, which reads and
writes each of them once more: in float32 the products of a model of 360 million parameters take 117 ms for one row and 231 for
8 (two threads of AVX-512). In that order from the start they take 69 and 82.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from .products import stacked

ROWS = 8
"""Rows that the order is chosen for; oneDNN chooses the same for 4 to 64."""

WIDE = 2
"""Layers of half types with this many outputs for each input are packed for a single row: up to 16 rows take 2 to 12% less, a
prompt's 256 up to 42% more (two threads of AMX). Answers usually take more passes than their prompts."""

FEWEST_ROWS = 4
"""Fewer rows are filled up to this many: four take three quarters of one row's time, for their kernel reads ahead (two threads
of AVX-512), and in float32 a row has the same bits among any number of others from two on."""

ALIKE_ROWS = 32
"""Among up to this many others a row has the same bits in half types; from 33 on AMX sums in another order."""


class Packed(nn.Module):
    """A linear layer of packed weights [outputs, inputs]."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features = weight.shape[0]
        self.in_features = weight.shape[1]
        wide = weight.dtype != torch.float32 and self.out_features >= WIDE * self.in_features
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), 1 if wide else ROWS)
        self.bias = None if bias is None else bias.detach()
        self._multiply = torch.ops.mkldnn._linear_pointwise.default

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [… n, outputs] for inputs [… n, inputs]."""
        if inputs.ndim == 2:
            return self.rows(inputs)
        return self.rows(inputs.reshape(-1, self.in_features)).view(*inputs.shape[:-1], self.out_features)

    def rows(self, inputs: Tensor) -> Tensor:
        """The same for inputs [n, inputs]."""
        n = len(inputs)
        if n < FEWEST_ROWS:
            return self.rows(filled(inputs))[:n]
        if halved(inputs):
            return torch.cat([self.rows(half) for half in inputs.chunk(2)])
        out: Tensor = self._multiply(inputs, self._packed, self.bias, "none", [], "")
        return out

    @property
    def weight(self) -> Tensor:
        """The weights in their own order [outputs, inputs]: a copy."""
        return self._packed.to_dense()


class Part(nn.Module):
    """A linear layer whose weights are the outputs `start` to `end` of another."""

    def __init__(self, whole: Any, start: int, end: int) -> None:
        super().__init__()
        self.whole = whole
        self.span = slice(start, end)
        self.out_features = end - start

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [… n, outputs] for inputs [… n, inputs]."""
        out: Tensor = self.whole(inputs)[..., self.span]
        return out

    @property
    def weight(self) -> Tensor:
        """Its weights [outputs, inputs]: a copy."""
        weight: Tensor = self.whole.weight[self.span]
        return weight


def onednn() -> bool:
    """Whether this torch has oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def pays(weights: Iterable[Tensor]) -> bool:
    """Whether packing a model's weights is possible here and makes its passes faster."""
    kinds = {(weight.device.type, weight.dtype) for weight in weights}
    return len(kinds) == 1 and _known(*kinds.pop())


@cache
def _known(device: str, dtype: torch.dtype) -> bool:
    if device != "cpu" or not onednn():
        return False
    try:
        with torch.inference_mode():
            sample = Packed(torch.eye(64, dtype=dtype), None)
            return torch.equal(sample(sample.weight), sample.weight)
    except (AttributeError, RuntimeError):  # this torch, or this CPU, has none in the type
        return False


def halved(inputs: Tensor) -> bool:
    """Whether inputs [n, width] go in two halves, so that each row keeps its bits: a tree's do, a prompt's need not."""
    return ALIKE_ROWS < len(inputs) <= 2 * ALIKE_ROWS and inputs.dtype != torch.float32


def filled(inputs: Tensor) -> Tensor:
    """Fill inputs [n, width] up to FEWEST_ROWS with zeros."""
    return torch.cat((inputs, _zeros(FEWEST_ROWS - len(inputs), inputs.shape[1], inputs.dtype)))


@cache
def _zeros(rows: int, width: int, dtype: torch.dtype) -> Tensor:
    """Make read-only zeros [rows, width]."""
    return torch.zeros((rows, width), dtype=dtype)


def packed(owner: Any, *names: str) -> Callable[[Tensor], Tensor]:
    """Pack an owner's linear layers on the same input as one, which gives all their outputs [n, sum of outputs]; the
    owner keeps them in their places, with nothing in memory twice."""
    sizes = [getattr(owner, name).weight.shape[0] for name in names]
    whole = Packed(*stacked(owner, *names))
    if len(names) == 1:
        setattr(owner, names[0], whole)
    else:
        start = 0
        for name, size in zip(names, sizes, strict=True):
            setattr(owner, name, Part(whole, start, start + size))
            start += size
    return whole.rows
