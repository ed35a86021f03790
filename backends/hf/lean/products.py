"""Products of linear layers, several on the same input as one, in the form that this CPU reads quickest.

*Packed*: as models store weights, oneDNN and MKL bring them into an order of their own in every pass of several rows, which
reads and writes each of them once more: in float32 the products of a model of 360 million parameters take 117 ms for one row
and 231 for 8 (two threads of AVX-512). In that order from the start they take 69 and 82.

*Halves*: small models and trained drafters are published in 16 bits, and a pass over a token or two waits for its weights.
Read as the half floats they are they have half the bytes, and nothing is lost: each is widened on its way and the sums are
float32's. A row has the same bits among any number of others. The built-in model's products take 0.43 ms for one row and 1.2
ms for 8; packed bfloat16 takes 1.0 and 1.3, float32 as it is stored 2.3 and 4.1 (one core with AVX-512, which other programs
use as well).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

Linear = Callable[..., Callable[[Tensor], Tensor]]
"""Maker of a product from linear layers' owner and their names, as `fused`."""


def stacked(owner: Any, *names: str) -> tuple[Tensor, Tensor | None]:
    """Concatenate weights [sum of outputs, inputs] and biases of an owner's linear layers on the same input."""
    parts = [getattr(owner, name) for name in names]
    weights = [part.weight.detach() for part in parts]
    biases = [part.bias.detach() for part in parts if part.bias is not None]
    if len(parts) == 1:
        return weights[0], biases[0] if biases else None
    return torch.cat(weights), torch.cat(biases) if biases else None


def fused(owner: Any, *names: str) -> Callable[[Tensor], Tensor]:
    """Make one product of linear layers on the same input: all their outputs [n, sum of outputs] for inputs [n, inputs]. The
    layers' own parameters become views of one matrix, so that nothing is in memory twice."""
    weight, bias = stacked(owner, *names)
    start = 0
    for name in names:
        part = getattr(owner, name)
        end = start + part.weight.shape[0]
        part.weight.data = weight[start:end]
        if bias is not None:
            part.bias.data = bias[start:end]
        start = end
    return product(weight, bias)


def product(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Make the product of a linear layer with inputs [n, inputs], as `F.linear` is, which first looks at their axes."""
    across = weight.t()
    if bias is None:
        return lambda inputs: torch.mm(inputs, across)
    offset = bias.detach()
    return lambda inputs: torch.addmm(offset, inputs, across)


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
        if ALIKE_ROWS < n <= 2 * ALIKE_ROWS and inputs.dtype != torch.float32:  # a tree's rows keep their bits
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


MOST_BYTES = 4 << 20
"""Larger matrices stay as they are: one thread reads these, and theirs are worth several."""


def halves(owner: Any, *names: str) -> Callable[[Tensor], Tensor]:
    """Make one product with half floats of linear layers on the same input, which stay as they are: all their outputs [n, sum
    of outputs] for inputs [n, inputs]."""
    return _in_halves(*stacked(owner, *names))


def slim(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """Make the quickest product of a linear layer (weight [outputs, inputs]) with inputs [n, inputs]."""
    weight = weight.detach()
    if in_halves(weight):
        return _in_halves(weight, bias)
    return Packed(weight, bias).rows if pays([weight]) else product(weight, bias)


def slimmed(owner: Any, *names: str) -> Callable[[Tensor], Tensor]:
    """Make the quickest product of linear layers on the same input, as `halves` does. The layers go, for nothing is to be in
    memory twice."""
    weight, bias = stacked(owner, *names)
    for name in names:
        delattr(owner, name)
    return slim(weight, bias)


def in_halves(weight: Tensor) -> bool:
    """Whether a matrix may be read as half floats: a small one in float32, of which nothing is lost."""
    small = weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.nbytes <= MOST_BYTES
    return small and halves_known() and torch.equal(weight.half().float(), weight)


def _in_halves(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    packed, multiply = torch.fbgemm_pack_gemm_matrix_fp16(weight), torch.fbgemm_linear_fp16_weight_fp32_activation
    offset = None if bias is None else bias.detach()
    return lambda inputs: multiply(inputs, packed, offset)


@cache
def halves_known() -> bool:
    """Whether this torch, on this CPU, has FBGEMM's kernel and it multiplies right."""
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # torch says once that a later version will not have it
            inputs, weight = torch.eye(8), torch.arange(128.0).view(16, 8)
            packed = torch.fbgemm_pack_gemm_matrix_fp16(weight)
            return torch.equal(torch.fbgemm_linear_fp16_weight_fp32_activation(inputs, packed, None), weight.t())
    except (AttributeError, RuntimeError):
        return False
