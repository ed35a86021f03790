"""Whether a model fits in memory: its weights and its KV cache against what is free.

How it is judged: weights as they will be held (on the CPU transformers holds floating-point numbers in 32 bits unless a dtype
is set), plus the KV cache of a conversation as long as the context that is asked for (where none is set: the model's own limit,
at most USUAL tokens), plus SPARE of the weights for what a pass needs; against what the system calls available, or what a GPU
that will be used has free.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ..text.amounts import size_of

USUAL = 8192
"""Tokens of a long conversation, where no context is set."""

LEAST = 1024
"""Tokens below which a chat is not worth loading a model for."""

SPARE = 0.05
"""Of the weights, for what a pass needs beside them."""

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
KV_BYTES = {"f32": 4.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}
"""Of a number in llama.cpp's KV cache; those not here take 2."""

PROBE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Room:
    """What is free where models are loaded."""

    free: int
    """Bytes."""
    where: str
    """In words: in memory, on the GPU."""
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """What a model needs, and whether it is there."""

    verdict: Literal["fits", "short", "too large", "unknown"]
    """short: with a shorter conversation than usual."""
    needed: int = 0
    tokens: int = 0
    """Of the conversation that was reckoned with; short: that fits."""
    told: str = ""
    """How it was judged, as a sentence."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Of a model: what its card says, or the Hub."""

    backend: str
    weights: int
    """Bytes as they lie on the disk."""
    held: int
    """Bytes once loaded as 32-bit numbers; the same as `weights` where they are quantized."""
    context: int
    cache_numbers: int


def room(device: str = "auto", gpu_layers: int | None = None, ours: int = 0) -> Room:
    """What is free.

    Args:
        device: the setting.
        gpu_layers: the setting; 0 keeps GGUF files off the GPU.
        ours: bytes that come back when the loaded model goes.
    """
    import psutil

    if device != "cpu" and not device.startswith("mps") and gpu_layers != 0 and (free := gpu_free()):
        return Room(free + ours, "on the GPU", gpu=True)
    return Room(int(psutil.virtual_memory().available) + ours, "in memory")


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


def judge(needs: Needs, free: Room, options: Mapping[str, Any]) -> Fit:
    """Whether a model fits.

    Args:
        needs: of the model.
        free: what there is.
        options: of a load: context, dtype, kv_type.
    """
    dtype = str(options.get("dtype") or "auto")
    wide = dtype == "float32" or (dtype == "auto" and not free.gpu)
    if needs.backend == "llama.cpp":
        weights, number = needs.weights, KV_BYTES.get(str(options.get("kv_type") or "auto"), 2.0)
        held = ""
    else:
        weights = needs.held if wide else needs.weights
        number = 4.0 if wide else 2.0
        held = " as float32" if wide and needs.held > needs.weights else ""
    if not weights:
        return Fit("unknown", told="How much memory it takes is not known.")
    asked = options.get("context")
    tokens = min(asked or USUAL, needs.context or asked or USUAL)
    cache = int(needs.cache_numbers * tokens * number)
    base = int(weights * (1 + SPARE))
    needed = base + cache
    parts = f"{size_of(weights)} of weights{held}"
    parts += f" and {size_of(cache)} of KV cache for {tokens:,} tokens" if cache else ", KV cache not counted"
    there = f"{size_of(free.free)} are free {free.where}"
    if needed <= free.free:
        return Fit("fits", needed, tokens, f"Fits: {parts}; {there}.")
    each = needs.cache_numbers * number
    shorter = int((free.free - base) / each) // 256 * 256 if each and free.free > base else 0
    if shorter >= LEAST:
        return Fit(
            "short", needed, shorter, f"Fits with {shorter:,} tokens of context (--context {shorter}): {parts}; {there}."
        )
    return Fit("too large", needed, tokens, f"Too large: {parts}; {there}.")
