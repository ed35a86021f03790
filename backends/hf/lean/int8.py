"""Linear layers and embeddings whose weights are eight-bit integers, each output or token with a scale of its own.

Plain decoding waits for memory, which has half as much to bring as in bfloat16. A row of inputs is rounded to sixteen bits
below its length, which is finer than bfloat16, and goes through the weights as two rows of bytes: high + low / 256. Products of
bytes are summed in integers, so a row has the same bits whatever else is in its pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ....errors import Cancelled
from .products import FEWEST_ROWS, Part

SHARE, BYTE = torch.tensor(1 / 127), torch.tensor(256.0)
"""The greatest high byte is 127, and a step of it 256 of the low byte. Numbers of Python's cost a copy in every product."""

MOST_INPUTS = 65_000
"""Wider layers stay as they are: 255 × 128 × inputs must fit in 31 bits."""

SCALE = ".weight_scale"
"""Suffix of a layer's scales in a checkpoint."""

AT_ONCE = 64
"""Rows of a prompt that are multiplied at once, so that what lies between stays in the CPU's cache."""

SHARED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers on the same input."""


class Kernel:
    """FBGEMM's product of rows of whole numbers from -128 to 127 with weights [outputs, inputs], summed in integers."""

    def __init__(self, whole: Tensor, scales: Tensor) -> None:
        zeros = torch.zeros(len(scales), dtype=torch.long)
        quantized = torch._make_per_channel_quantized_tensor(whole, scales.double(), zeros, 0)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self._multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply rows [n, inputs]; return float32 [n, outputs]."""
        out: Tensor = self._multiply(rows, 1.0, 128, self._packed)
        return out

    def weight(self) -> Tensor:
        """Copy the weights, scaled [outputs, inputs]."""
        weight: Tensor = torch.ops.quantized.linear_unpack(self._packed)[0].dequantize()
        return weight


class Int8(nn.Module):
    """A linear layer of eight-bit weights [outputs, inputs]. `scales` [outputs, 1] are those of weights that are
    integers already."""

    def __init__(self, weight: Tensor, bias: Tensor | None, scales: Tensor | None = None) -> None:
        super().__init__()
        self.out_features = weight.shape[0]
        self.in_features = weight.shape[1]
        whole, scales = rounded_rows(weight) if scales is None else (weight.detach().to(torch.int8), scales.float())
        self._kernel = Kernel(whole, scales[:, 0])
        self.bias = None if bias is None else bias.detach().float()

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [… n, outputs] for inputs [… n, inputs], in their type."""
        out = self.rows(inputs.reshape(-1, self.in_features))
        return out.view(*inputs.shape[:-1], self.out_features).to(inputs.dtype)

    def rows(self, inputs: Tensor) -> Tensor:
        """Outputs in float32 [n, outputs] for inputs [n, inputs]."""
        n = len(inputs)
        if not n:
            return torch.zeros((0, self.out_features))
        if n > AT_ONCE:
            return torch.cat([self.rows(inputs[a : a + AT_ONCE]) for a in range(0, n, AT_ONCE)])
        # The greatest number of a row is at most its length as a vector, which is one operator instead of two.
        inputs = inputs.float()
        unit = torch.linalg.vector_norm(inputs, 2, -1, True).mul_(SHARE)
        scaled = torch.div(inputs, unit)
        high = torch.round(scaled)  # a kernel rounds by itself, but one way in the middle and another at the end
        both = self._kernel(torch.cat((high, scaled.sub_(high).mul_(BYTE).round_())))
        out = torch.add(both[:n], both[n : 2 * n], alpha=1 / 256).mul_(unit)
        return out if self.bias is None else out.add_(self.bias)

    @property
    def weight(self) -> Tensor:
        """The weights as they are multiplied [outputs, inputs]: a copy."""
        return self._kernel.weight()


class Int8Table(nn.Module):
    """Embeddings of eight-bit numbers [tokens, width], in the type of the original weights."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.num_embeddings = weight.shape[0]
        self.embedding_dim = weight.shape[1]
        self._dtype = weight.dtype
        self._whole, self._scales = rounded_rows(weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Embeddings [… n, width] of token ids [… n]."""
        flat = ids.reshape(-1)
        rows = self._whole.index_select(0, flat) * self._scales.index_select(0, flat)
        return rows.view(*ids.shape, self.embedding_dim).to(self._dtype)

    @property
    def weight(self) -> Tensor:
        """The embeddings [tokens, width]: a copy."""
        return (self._whole * self._scales).to(self._dtype)


def rounded_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round weights [rows, width] to eight-bit integers; return them and each row's scale [rows, 1]."""
    wide = weight.detach().float().contiguous()
    scales = wide.abs().amax(1, True).div_(127).clamp_min_(torch.finfo(torch.float32).tiny)
    return (wide / scales).round_().to(torch.int8), scales


def together(owner: Any, *names: str) -> Callable[[Tensor], Tensor]:
    """Return the product of layers that `quantize` has joined: all outputs [n, sum of outputs] for inputs [n, inputs]."""
    first = getattr(owner, names[0])
    rows: Callable[[Tensor], Tensor] = (first.whole if isinstance(first, Part) else first).rows
    return rows


def read_scales(module: Any, files: Iterable[Path]) -> None:
    """Attach the scales in a model's files to its linear layers, whose weights are integers already.

    Raises:
        ValueError: they do not belong to its linear layers.
    """
    layers = dict(module.named_modules())
    for file in files:
        with safe_open(str(file), framework="pt", device="cpu") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (not a dict)
                if not name.endswith(SCALE):
                    continue
                layer, scales = layers.get(name.removesuffix(SCALE)), tensors.get_tensor(name)
                if type(layer) is not nn.Linear or layer.in_features > MOST_INPUTS or scales.numel() != layer.out_features:
                    raise ValueError(f"{name} is not of a linear layer with as many outputs")
                layer.scales = scales.reshape(-1, 1)


def quantize(module: Any, shared: bool, cancelled: Callable[[], bool] | None = None) -> None:
    """Replace a model's linear layers and its embeddings by eight-bit ones; experts in one tensor stay.

    Args:
        module: the model.
        shared: whether the layers of SHARED are on the same input.
        cancelled: polled between layers; answering True raises Cancelled.

    Raises:
        ValueError: of layers on the same input, only some have scales.
    """
    with torch.no_grad():
        table = module.get_input_embeddings()
        for owner in list(module.modules()):
            if cancelled is not None and cancelled():
                raise Cancelled
            for names in SHARED if shared else ():
                if all(type(getattr(owner, name, None)) is nn.Linear for name in names):
                    _join(owner, names)
            for name, part in list(owner.named_children()):
                if type(part) is nn.Linear and part.in_features <= MOST_INPUTS:
                    setattr(owner, name, Int8(part.weight, part.bias, getattr(part, "scales", None)))
                elif type(part) is Conv1D:
                    setattr(owner, name, Int8(part.weight.t(), part.bias))
        if type(table) is nn.Embedding:
            module.set_input_embeddings(Int8Table(table.weight))
        for rest in module.parameters():  # copied out of the file, which else stays in memory as a whole
            rest.data = rest.data.clone()


def _join(owner: Any, names: tuple[str, ...]) -> None:
    parts = [getattr(owner, name) for name in names]
    bias = parts[0].bias
    if bias is not None:
        bias = torch.cat([part.bias for part in parts])
    scales = [part.scales for part in parts if hasattr(part, "scales")]
    if len(scales) not in (0, len(parts)):
        raise ValueError(f"of {', '.join(names)} only some have scales")
    whole, start = Int8(torch.cat([part.weight for part in parts]), bias, torch.cat(scales) if scales else None), 0
    for name, part in zip(names, parts, strict=True):
        setattr(owner, name, Part(whole, start, start := start + part.out_features))


@cache
def works() -> bool:
    """Whether this torch and this CPU multiply bytes exactly."""
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch is going to give up tensors of this kind
            return exact(Kernel)
    except (AttributeError, RuntimeError):  # this torch, or this CPU, has no such kernel
        return False


def exact(kernel: type[Kernel]) -> bool:
    """Whether a kernel's sums are right at their greatest."""
    width = 512
    whole = torch.full((width, width), 127, dtype=torch.int8)
    whole[1::2] = torch.arange(width).sub(256).div(2.1).to(torch.int8)
    rows = torch.full((FEWEST_ROWS, width), 127.0)
    rows[1], rows[2] = -128.0, torch.arange(width).remainder(256).sub(128.0)
    multiply, wide = kernel(whole, torch.ones(width)), whole.t().float()
    return torch.equal(multiply(rows), rows @ wide)
