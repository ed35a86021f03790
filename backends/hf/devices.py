"""Which device, dtype and how many threads a transformers model runs with."""

from __future__ import annotations

import os

import psutil
import torch

from ...errors import UserError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(wanted: str) -> torch.device:
    """The device of `LoadOptions.device`: auto takes CUDA, then MPS, then the CPU.

    Raises:
        UserError: no such device here.
    """
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda:0")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and not (kind == "cuda" and number.isdigit())):
        raise UserError(f"There is no device {wanted!r}: choose from auto, cpu, cuda, cuda:N, mps.")
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise UserError("There is no CUDA device here, or this torch was built without CUDA. Use --device cpu.")
        count = torch.cuda.device_count()
        if int(number or 0) >= count:
            raise UserError(f"There is no {wanted}. The CUDA devices here are cuda:0 to cuda:{count - 1}.")
        return torch.device(f"cuda:{number or 0}")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UserError("There is no Apple GPU (MPS) here. Use --device cpu.")
    return torch.device(kind)


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype | None:
    """The dtype of `LoadOptions.dtype`; None for the file's own.

    Raises:
        UserError: not one of those we know.
    """
    if wanted == "auto":
        # Half types are slower than float32 on most CPUs, and float32 is where methods can be compared token by token.
        return torch.float32 if device.type == "cpu" else None
    if wanted not in DTYPES:
        raise UserError(f"There is no dtype {wanted!r}: choose from auto, {', '.join(DTYPES)}.")
    return DTYPES[wanted]


def set_threads(wanted: int | None) -> None:
    """Run torch on this many CPU threads; None: one per physical core that we may use, unless OMP_NUM_THREADS says otherwise.

    Raises:
        UserError: fewer than one.
    """
    if wanted is not None:
        if wanted < 1:
            raise UserError("threads must be 1 or more.")
        torch.set_num_threads(wanted)
    elif "OMP_NUM_THREADS" not in os.environ:
        allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, min(psutil.cpu_count(logical=False) or allowed, allowed)))


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
