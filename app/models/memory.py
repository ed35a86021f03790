"""Whether a model fits in memory: what it takes against what the system calls available, or what a GPU that will be used has
free."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ...backends.files.memory import USUAL, Needs
from ..text.amounts import size_of

LEAST = 1024
"""Tokens below which a chat is not worth loading a model for."""

PROBE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Memory that is free where models are loaded."""

    free: int
    """Bytes."""
    where: str
    """Where, in words: in memory, on the GPU."""
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """The memory that a model needs, and whether it is there."""

    verdict: Literal["fits", "short", "too large", "unknown"]
    """short: with a shorter conversation than usual."""
    told: str = ""
    """How it was judged, as a sentence."""


def room(device: str = "auto", gpu_layers: int | None = None, ours: int = 0) -> FreeMemory:
    """What is free.

    Args:
        device: the setting.
        gpu_layers: the setting; 0 keeps GGUF files off the GPU.
        ours: bytes that come back when the loaded model goes.
    """
    import psutil

    if device != "cpu" and not device.startswith("mps") and gpu_layers != 0 and (free := gpu_free()):
        return FreeMemory(free + ours, "on the GPU", gpu=True)
    return FreeMemory(int(psutil.virtual_memory().available) + ours, "in memory")


@lru_cache(1)
def gpu_free() -> int:
    """Bytes that are free on the NVIDIA GPU with most of them; 0 where there is none (or its driver says nothing)."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    query = [tool, "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=PROBE_SECONDS, check=True).stdout
        return max(int(line) for line in told.split()) * 1024 * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def judge(needs: Needs, free: FreeMemory, options: Mapping[str, Any]) -> MemoryFit:
    """Whether a model fits.

    Args:
        options: of a load: context, dtype, kv_type.
    """
    model = needs.footprint(gpu=free.gpu, dtype=options.get("dtype") or "auto", kv_type=options.get("kv_type") or "auto")
    if not model.weights:
        return MemoryFit("unknown", "Its memory use is unknown.")
    asked = options.get("context")
    tokens = min(asked or USUAL, needs.context or asked or USUAL)
    cache = model.cache(tokens)
    parts = f"{size_of(model.weights)} of weights{' as float32' if model.widened else ''}"
    parts += f" and {size_of(cache)} of KV cache for {tokens:,} tokens" if cache else ", KV cache not counted"
    there = f"{size_of(free.free)} free {free.where}"
    if model.base + cache <= free.free:
        return MemoryFit("fits", f"Fits: {parts}; {there}.")
    left = free.free - model.base
    shorter = int(left / model.token) // 256 * 256 if model.token and left > 0 else 0
    if shorter >= LEAST:
        return MemoryFit("short", f"Fits with {shorter:,} tokens of context (--context {shorter}): {parts}; {there}.")
    return MemoryFit("too large", f"Too large: {parts}; {there}.")
