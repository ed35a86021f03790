"""How many rows a matrix product needs for each of them to have the bits that it has among more.

A product of few rows may sum in another order than one of many: oneDNN's of one row in bfloat16 does where a layer has more
than some 1,400 inputs, MKL's of fewer than four in float32 always (torch 2.13, AVX-512). Passes that are filled up to the
number found here give a token tree the bits of plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

MOST = 8
"""Most rows that a pass is filled up to."""
AMONG = (9, 12, 16, 24)
"""Rows of products that others are compared with: more than a kernel of oneDNN's takes at once."""
MOST_OUTPUTS = 128
"""Outputs that are computed: the order of a sum depends on how many inputs there are."""


def fewest_rows(module: nn.Module) -> int:
    """Find how many rows the products of a model's linear layers need on the CPU, at least; 1 where up to MOST do not help."""
    shapes = set[tuple[int, int, torch.dtype, bool]]()
    for part in module.modules():
        if isinstance(part, nn.Linear | Conv1D):
            across = isinstance(part, Conv1D)
            outputs, inputs = part.weight.shape[::-1] if across else part.weight.shape
            shapes.add((min(outputs, MOST_OUTPUTS), inputs, part.weight.dtype, across))
    found = [_rows(*shape) for shape in shapes]
    return max((rows for rows in found if rows <= MOST), default=1)


@cache
def _rows(outputs: int, inputs: int, dtype: torch.dtype, across: bool) -> int:
    """The same for one shape, whose weights lie input by input if `across`."""
    rows, weight = cancelling(outputs, inputs, dtype)
    if across:
        weight = weight.t().contiguous().t()
    return settled_rows(lambda some: F.linear(some, weight), rows)


def settled_rows(product: Callable[[Tensor], Tensor], rows: Tensor) -> int:
    """Find from how many of some rows [n, inputs] on each has the bits that it has among all."""
    with torch.inference_mode():
        whole = product(rows)
        fewer = (*range(1, MOST + 1), *(n for n in AMONG if n < len(rows)))
        other = (n for n in reversed(fewer) if not torch.equal(product(rows[:n]), whole[:n]))
    return next(other, 0) + 1


def cancelling(outputs: int, inputs: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Make inputs [most of AMONG, inputs] and weights [outputs, inputs] with products of zero.

    Their terms cancel each other, shuffled: of a sum nothing is left but its rounding, which depends on the order of the terms.
    """
    source = torch.Generator().manual_seed(0)
    half = inputs // 2
    order = torch.randperm(2 * half, generator=source)

    def shuffled(count: int, sign: int) -> Tensor:
        terms = torch.randn((count, half), generator=source)
        return F.pad(torch.cat((terms, sign * terms), 1)[:, order], (0, inputs - 2 * half)).to(dtype)

    return shuffled(max(AMONG), -1), shuffled(outputs, 1)
