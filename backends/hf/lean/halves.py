"""Products with weights that are half floats, in a model of float32 on a CPU.

Small models and trained drafters are published in 16 bits. A pass over a token or two waits for its weights; read as the half
floats they are they have half the bytes, and nothing is lost: each is widened on its way and the sums are float32's. A row has
the same bits among any number of others. The built-in model's products take 0.43 ms for one row and 1.2 ms for 8; packed
bfloat16 takes 1.0 and 1.3, float32 as it is stored 2.3 and 4.1 (one core with AVX-512, which other programs use as well).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .packed import Packed, pays
from .products import product, stacked

MOST_BYTES = 4 << 20
"""Larger matrices stay as they are: one thread reads these, and theirs are worth several."""


def halves(owner: Any, *names: str) -> Callable[[Tensor], Tensor]:
    """Make one product with half floats of linear layers on the same input, which stay as they are: all their outputs [n, sum
    of outputs] for inputs [n, inputs]."""
    return _product(*stacked(owner, *names))


def slim(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """Make the quickest product of a linear layer (weight [outputs, inputs]) with inputs [n, inputs]."""
    weight = weight.detach()
    if in_halves(weight):
        return _product(weight, bias)
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
    return small and _known() and torch.equal(weight.half().float(), weight)


def _product(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    packed, multiply = torch.fbgemm_pack_gemm_matrix_fp16(weight), torch.fbgemm_linear_fp16_weight_fp32_activation
    offset = None if bias is None else bias.detach()
    return lambda inputs: multiply(inputs, packed, offset)


@cache
def _known() -> bool:
    """Whether this torch, on this CPU, has FBGEMM's kernel and it multiplies right."""
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # torch says once that a later version will not have it
            inputs, weight = torch.eye(8), torch.arange(128.0).view(16, 8)
            packed = torch.fbgemm_pack_gemm_matrix_fp16(weight)
            return torch.equal(torch.fbgemm_linear_fp16_weight_fp32_activation(inputs, packed, None), weight.t())
    except (AttributeError, RuntimeError):
        return False
