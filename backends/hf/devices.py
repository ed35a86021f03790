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
from ..transfer import accelerator
from .lean.int8 import works as int8_works
from .lean.products import onednn

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str) -> torch.device:
    """Return the device of `LoadOptions.device`: auto takes torch's accelerator (CUDA, MPS, XPU …), or the CPU without one.

    Raises:
        UserError: no such device here.
    """
    if device == "auto":
        current = torch.accelerator.current_accelerator(check_available=True)
        device = current.type if current is not None else "cpu"
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return torch.device("cpu")
    try:
        module = torch.get_device_module(kind)
        usable = module.is_available() and int(number or 0) < module.device_count()
    except (AttributeError, RuntimeError, TypeError):
        usable = False
    if not usable:
        raise UserError(f"PyTorch finds no {device} here. Use --device cpu, or install a torch that was built for it.")
    return torch.device("mps") if kind == "mps" else torch.device(kind, int(number or 0))


def give_back() -> None:
    """Return the memory that a load has freed to the system: some hundred megabytes, which C libraries keep otherwise."""
    with suppress(AttributeError, OSError, TypeError):  # glibc alone has the call
        ctypes.CDLL(None).malloc_trim(0)


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype | None:
    """Choose the dtype of `LoadOptions.dtype`; None for the file's own. For INT8, the one of everything but weights."""
    if dtype == "auto":
        # Half types are slower than float32 on most CPUs, and float32 is where methods can be compared token by token.
        return torch.float32 if device.type == "cpu" else None
    if dtype == INT8:
        if device.type != "cpu" or not int8_works():
            raise UserError("int8 runs on CPUs that multiply bytes (AVX-512 VNNI, AVX-VNNI or AMX). Use --dtype auto.")
        return torch.bfloat16
    return DTYPES[dtype]


def quick_in_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16: passes that wait for memory then take half of float32's time."""
    cpu: Any = torch.cpu
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return onednn() and any(getattr(cpu, name, bool)() for name in checks)


def thread_counts(threads: int | None) -> list[int]:
    """List the numbers of threads to compare, the current one first; it alone where the user set it."""
    most = torch.get_num_threads()
    if threads is not None or "OMP_NUM_THREADS" in os.environ:
        return [most]
    return sorted({most, max(1, most // 2), 1}, reverse=True)


def free_memory(device: torch.device) -> int:
    """Return the free bytes on a device."""
    if (module := accelerator(device)) is not None:
        return int(module.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def over_several(needed: int, device: torch.device, option: str, name: str) -> bool:
    """Whether the weights go over several GPUs because they do not fit on one.

    Raises:
        UserError: they fit nowhere.
    """
    free = free_memory(device)
    if needed <= free:
        return False
    module = accelerator(device)
    if module is not None and option in ("auto", device.type):
        together = sum(free_memory(torch.device(device.type, i)) for i in range(module.device_count()))
        if needed <= together:
            return True
    raise too_big(name, needed, device)


def device_name(module: Any, device: torch.device) -> str:
    """Name the device for the interface: cpu, mps, cuda:0, or the number of GPUs."""
    used = {p.device for p in module.parameters()}
    return f"{len(used)} devices" if len(used) > 1 else str(device)


def too_big(name: str, needed: int, device: torch.device) -> UserError:
    """Make the error for weights that do not fit in memory."""
    free = free_memory(device)
    other = "" if device.type == "cpu" else "--device cpu, "
    return UserError(
        f"{name} needs {needed / 1e9:.1f} GB on {device}, but {free / 1e9:.1f} GB are free. Close other programs, or use "
        f"{other}--dtype bfloat16 or a smaller model."
    )
