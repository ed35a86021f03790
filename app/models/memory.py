"""Whether a model fits in memory: its needs against the memory that the system calls available, or that is free on the GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ...backends.files.model_card import USUAL, Needs
from ...backends.options import LoadOptions
from ..text.amounts import size_of

FEWEST_TOKENS = 1024
"""Fewest tokens of context worth loading a model for."""

PROBE_SECONDS = 30
GPU_LIBRARIES = ("cuda", "hip", "xpu", "vulkan", "sycl")
"""Parts of the names of libraries that come with builds for GPUs only."""

# In a process of its own: this one imports no runtime.
_PROBE = """
import json
from contextlib import suppress
free = []
with suppress(Exception):
    import torch
    gpu = torch.accelerator.current_accelerator(check_available=True)
    if gpu is not None:
        module = torch.get_device_module(gpu)
        free += [module.mem_get_info(number)[0] for number in range(module.device_count())]
with suppress(Exception):
    from specchat.backends.llama.library import devices
    free += [device.free for device in devices() if device.gpu]
print(json.dumps(free))
"""


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Free memory where models are loaded."""

    free: int
    """Bytes."""
    where: str
    """Its place in words: in memory, on the GPU."""
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Whether a model fits in memory."""

    verdict: Literal["fits", "short", "too large", "unknown"]
    """short: fits with a shorter conversation than usual."""
    sentence: str = ""
    """The verdict with its reasons."""


def room(device: str = "auto", gpu_layers: int | None = None, ours: int = 0) -> FreeMemory:
    """Return the free memory for another model.

    Args:
        device: the setting.
        gpu_layers: the setting; 0 keeps GGUF files off the GPU.
        ours: bytes that the loaded model frees when it is unloaded.
    """
    import psutil

    if device != "cpu" and not device.startswith("mps") and gpu_layers != 0 and (free := gpu_free()):
        return FreeMemory(free + ours, "on the GPU", gpu=True)
    return FreeMemory(int(psutil.virtual_memory().available) + ours, "in memory")


def _built_for_gpus() -> bool:
    """Whether an installed runtime is built for GPUs; no runtime is imported."""
    specs = [find_spec(name) for name in ("torch", "llama_cpp")]
    packages = [spec.origin for spec in specs if spec is not None and spec.origin]
    libraries = [file.name for origin in packages for file in Path(origin).with_name("lib").glob("*")]
    return any(kind in name for name in libraries for kind in GPU_LIBRARIES)


@lru_cache(1)
def gpu_free() -> int:
    """Return the free bytes on the GPU with most of them, of the GPUs that the installed runtimes use; 0 without one."""
    if not _built_for_gpus():
        return 0
    try:
        answer = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=PROBE_SECONDS, check=True).stdout
        return max(json.loads(answer), default=0)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def judge(needs: Needs, free: FreeMemory, options: LoadOptions) -> MemoryFit:
    """Judge whether a model fits if it is loaded with these options."""
    model = needs.footprint(gpu=free.gpu, dtype=options.dtype, kv_type=options.kv_type)
    if not model.weights:
        return MemoryFit("unknown", "Its memory use is unknown.")
    context = options.context or USUAL
    tokens = min(context, needs.context or context)
    cache = model.cache(tokens)
    parts = f"{size_of(model.weights)} of weights{' as float32' if model.widened else ''}"
    parts += f" and {size_of(cache)} of KV cache for {tokens:,} tokens" if cache else ", KV cache not counted"
    available = f"{size_of(free.free)} free {free.where}"
    if model.base + cache <= free.free:
        return MemoryFit("fits", f"Fits: {parts}; {available}.")
    left = free.free - model.base
    shorter = int(left / model.token) // 256 * 256 if model.token and left > 0 else 0
    if shorter >= FEWEST_TOKENS:
        return MemoryFit("short", f"Fits with {shorter:,} tokens of context (--context {shorter}): {parts}; {available}.")
    return MemoryFit("too large", f"Too large: {parts}; {available}.")
