"""Tensors of a GGUF file as numbers: what a drafter computes here rather than in llama.cpp."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....errors import UserError
from ...files.gguf_file import Tensor as FileTensor
from ...options import pip_command
from ..library import library

WHOLE: dict[int, np.dtype[Any]] = {0: np.dtype(np.float32), 1: np.dtype(np.float16), 27: np.dtype(np.int64)}
"""Types that need no decoding."""


@cache
def _ggml() -> Any:
    """ggml's own library."""
    return ctypes.CDLL(str(next(Path(library()._lib._name).parent.glob("*ggml-base*"))))


def numbers(file: Path, tensor: FileTensor) -> Tensor:
    """A tensor in float32, or in int64 if it holds whole numbers.

    Raises:
        UserError: this build of ggml does not say how to decode it.
    """
    data = np.fromfile(file, np.uint8, tensor.length, offset=tensor.begin)
    if tensor.kind in WHOLE:
        found = data.view(WHOLE[tensor.kind])
        return torch.from_numpy(found if tensor.kind == 27 else found.astype(np.float32)).reshape(tensor.shape)
    out = torch.empty(tensor.shape)
    try:
        name = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)(("ggml_type_name", _ggml()))(tensor.kind).decode()
        decode = getattr(_ggml(), "ggml_bf16_to_fp32_row" if name == "bf16" else f"dequantize_row_{name}")
    except (StopIteration, OSError, AttributeError):
        raise UserError(
            f"This build of llama.cpp does not decode {tensor.name}, which drafting needs. Take the drafter in F16, or run: "
            f"{pip_command()} --upgrade"
        ) from None
    decode.argtypes, decode.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    decode(data.ctypes.data, out.data_ptr(), out.numel())
    return out
