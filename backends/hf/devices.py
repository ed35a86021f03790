"""Which device, dtype and how many threads a transformers model runs with."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Any

import psutil
import torch

from ...errors import UserError
from ..options import INT8
from .lean.int8 import works as int8_works
from .lean.packed import onednn

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


def give_back() -> None:
    """Give the system the memory that a load has freed, some hundred megabytes, which C libraries keep for later."""
    with suppress(AttributeError, OSError, TypeError):  # glibc alone has the call
        ctypes.CDLL(None).malloc_trim(0)


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype | None:
    """The dtype of `LoadOptions.dtype`; None for the file's own. Of INT8, that of all that is no weight.

    Raises:
        UserError: not here.
    """
    if wanted == "auto":
        # Half types are slower than float32 on most CPUs, and float32 is where methods can be compared token by token.
        return torch.float32 if device.type == "cpu" else None
    if wanted == INT8:
        if device.type != "cpu":
            raise UserError("int8 runs on the CPU only. Add --device cpu, or use --dtype bfloat16.")
        if not int8_works():
            raise UserError("int8 needs a CPU that multiplies bytes (AVX-512 VNNI, AVX-VNNI or AMX). Use --dtype auto.")
        return torch.bfloat16
    return DTYPES[wanted]


def quick_in_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16: passes that wait for memory then take half of float32's time."""
    known: Any = torch.cpu
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return onednn() and any(getattr(known, name, bool)() for name in asked)


def thread_counts(wanted: int | None) -> list[int]:
    """Numbers of threads to choose from, the one that is set first; that alone where somebody asked for it."""
    most = torch.get_num_threads()
    if wanted is not None or "OMP_NUM_THREADS" in os.environ:
        return [most]
    return sorted({most, max(1, most // 2), 1}, reverse=True)


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def over_several(needed: int, device: torch.device, wanted: str, name: str) -> bool:
    """Whether the weights go over several GPUs because they do not fit on one.

    Raises:
        UserError: they fit nowhere.
    """
    free = free_memory(device)
    if needed <= free:
        return False
    if device.type == "cuda" and wanted in ("auto", "cuda") and torch.cuda.device_count() > 1:
        together = sum(free_memory(torch.device("cuda", i)) for i in range(torch.cuda.device_count()))
        if needed <= together:
            return True
    raise too_big(name, needed, device)


def device_name(module: Any, device: torch.device) -> str:
    """The device for the interface: cpu, mps, cuda:0, or how many GPUs."""
    used = {p.device for p in module.parameters()}
    return f"{len(used)} devices" if len(used) > 1 else str(device)


def too_big(name: str, needed: int, device: torch.device) -> UserError:
    """What is said of weights for which the memory does not suffice."""
    free = free_memory(device)
    other = "--device cpu, " if device.type == "cuda" else ""
    return UserError(
        f"{name} needs {needed / 1e9:.1f} GB on {device}, but {free / 1e9:.1f} GB are free. Close other programs, or use "
        f"{other}--dtype bfloat16 or a smaller model."
    )
