"""Products of linear layers, several on the same input as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

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
