"""Which device, dtype and how many threads a transformers model runs with."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psutil
import torch

from ...errors import UserError
from ..options import DTYPES as CHOICES
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


def give_back() -> None:
    """Give the system the memory that a load has freed, some hundred megabytes, which C libraries keep for later."""
    with suppress(AttributeError, OSError, TypeError):  # glibc alone has the call
        ctypes.CDLL(None).malloc_trim(0)


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype | None:
    """The dtype of `LoadOptions.dtype`; None for the file's own. Of INT8, that of all that is no weight.

    Raises:
        UserError: not one of those we know, or not here.
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
    if wanted not in DTYPES:
        raise UserError(f"There is no dtype {wanted!r}: choose from {', '.join(CHOICES)}.")
    return DTYPES[wanted]


def quick_in_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16: passes that wait for memory then take half of float32's time."""
    known: Any = torch.cpu
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return onednn() and any(getattr(known, name, bool)() for name in asked)


TRIES = 2
"""Passes on each number of threads that are compared, the first of them to warm up."""

BUSY = 3.0
"""Times what it should take: a pass that takes longer has others compared."""

HELD = 64
"""Passes before they are compared again."""

MOST_NODES = 64
"""Passes over more are prompts: nobody knows what those should take."""


class Threads:
    """How many threads torch computes on: those that proved quickest at load, until a pass takes BUSY times what it should.
    Then other programs want the cores, and threads that wait for each other may take longer than one alone; the next passes
    try all the numbers in turn, and again every so often until the first is best once more.

    Args:
        seconds: by number of threads what passes took at load, as `pass_times.pass_seconds` gives it.
        use: told the number to compute on.
    """

    def __init__(
        self, seconds: Mapping[int, tuple[tuple[int, float], ...]], use: Callable[[int], None] = torch.set_num_threads
    ) -> None:
        self._use = use
        self._best = min(seconds, key=lambda count: sum(taken for nodes, taken in seconds[count] if nodes in (1, 8)))
        self._expected = seconds[self._best]
        self._counts = sorted(seconds, reverse=True)
        self._trials: list[int] = []
        """Numbers still to try, the last first."""
        self._found: dict[int, float] = {}
        """Numbers tried → how many times what it should a pass took."""
        self._held = 0
        self.now = self._best
        use(self._best)

    def learn(self, nodes: int, seconds: float) -> None:
        """Take in a pass, and set the number of threads for the next."""
        if nodes > MOST_NODES:
            return
        times = seconds / self._should(nodes)
        if self._trials:
            self._found[self._trials.pop()] = times
            if self._trials:
                self._set(self._trials[-1])
                return
            self._set(min(self._found, key=lambda count: self._found[count]))
            self._held = HELD
        elif self._held:
            self._held -= 1
        elif times > BUSY or self.now != self._best:
            self._found.clear()
            self._trials = [count for count in self._counts for _ in range(TRIES)]
            self._set(self._trials[-1])

    def _should(self, nodes: int) -> float:
        """What a pass took at load."""
        (n, taken), *more = self._expected
        for above, longer in more:
            if nodes <= above:
                return taken + (longer - taken) * max(0, nodes - n) / (above - n)
            n, taken = above, longer
        return taken * nodes / n

    def _set(self, count: int) -> None:
        if count != self.now:
            self.now = count
            self._use(count)


def thread_counts(wanted: int | None) -> list[int]:
    """Numbers of threads to choose from, those that `set_threads` set first; that alone where somebody asked for it."""
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
