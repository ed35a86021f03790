"""Translation of a user's options to llama.cpp's numbers: device, layers on the GPU, threads, cache types, memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from ...errors import UserError, counted
from ..files.gguf_file import BLOCKS, Header
from ..options import INT8, cpu_threads, rebuild_command
from .context import PAD, Runtime, padded
from .library import Device, backends, devices, library

if TYPE_CHECKING:
    from ..options import LoadOptions

CACHE_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2}
"""Names of cache types → ggml_type."""
DTYPES = {"auto": "f16", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""`LoadOptions.dtype`, which weights in a GGUF file have no use for → the cache's type."""
SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}
FLASH = {"auto": -1, "off": 0, "on": 1}
F32 = 0

MOST_SEQUENCES = 128
"""llama.cpp takes 256 at most, but looks at each pair of them in every pass: 128 cost 14 µs more than one, 256 cost 50."""
FEWEST_SEQUENCES = 64
LOGITS_BYTES = 64 << 20
"""Memory for logits, one row per sequence, before large vocabularies get fewer than MOST_SEQUENCES."""

SHARE = 0.95
"""The share of the free memory that a cache may take."""


def choose_runtime(options: LoadOptions, header: Header) -> Runtime:
    """Choose llama.cpp's numbers for these options.

    Raises:
        UserError: an option has no such value, or this build of llama.cpp cannot do it; says what to do.
    """
    gpus = [device for device in devices() if device.gpu]
    gpu_layers, main_gpu, split = _placement(options, gpus)
    flash = FLASH[options.flash_attention]
    kv_type = options.kv_type
    if kv_type == "auto":
        if options.dtype == INT8:
            raise UserError(
                "GGUF files keep the type of their weights, so there is no --dtype int8. Choose a file in Q8_0, or for the "
                "cache --kv-type q8_0."
            )
        kv_type = DTYPES[options.dtype]
    cache = CACHE_TYPES[kv_type]
    if flash == FLASH["auto"] and BLOCKS[cache][0] == 1 and (cache == F32 or not gpu_layers):
        # On a CPU llama.cpp's own auto would turn it on; at 8k tokens that took 65 instead of 13 ms for one node, and 1,450
        # instead of 108 ms for 33 (7 million parameters, one thread of AVX-512). On a GPU a float32 cache is asked for to
        # compare runtimes, and flash attention's sums are partly in float16.
        flash = FLASH["off"]
    if BLOCKS[cache][0] > 1 and flash == FLASH["off"]:
        raise UserError(f"A KV cache of type {kv_type} needs flash attention. Leave it on, or use f16.")
    return Runtime(
        gpu_layers=gpu_layers,
        split_mode=split,
        main_gpu=main_gpu,
        flash_attention=flash,
        type_k=cache,
        type_v=cache,
        threads=cpu_threads(options.threads),
    )


def even_runtime(runtime: Runtime, options: LoadOptions) -> Runtime | None:
    """Return the same with flash attention, in which a node's bits do not depend on the size of its pass; None where something
    else was asked for, or the model is not on the CPU.

    llama.cpp's other attention takes one row through another kernel than several. Flash attention takes each row alone,
    unless several threads divide one row's keys, which they do only where keys and values have the same type.
    """
    free = options.flash_attention in ("auto", "on") and options.kv_type == "auto" and options.dtype in ("auto", "float16")
    if not free or runtime.gpu_layers:
        return None
    return replace(runtime, flash_attention=FLASH["on"], type_k=CACHE_TYPES["bf16"], type_v=CACHE_TYPES["f16"])


def _placement(options: LoadOptions, gpus: list[Device]) -> tuple[int, int, int]:
    """Choose the layers on the GPU (-1 all), the GPU that is used alone, and the way that several share."""
    split = SPLIT_MODES[options.split_mode]
    kind, _, number = options.device.partition(":")
    requested = kind not in ("auto", "cpu") or bool(options.gpu_layers)
    if kind == "cpu" and options.gpu_layers:
        raise UserError("--gpu-layers needs a GPU as the device. Leave out --gpu-layers or --device.")
    if not library().llama_supports_gpu_offload() or not gpus:
        if requested:
            flag = "-DGGML_METAL=on" if kind == "mps" else "-DGGML_CUDA=on"
            raise UserError(
                f"The installed llama.cpp was built for {' and '.join(backends()) or 'the CPU'}, and finds no GPU. Use "
                f"--device cpu, or rebuild it: {rebuild_command(flag)}"
            )
        return 0, 0, split
    if kind == "cpu":
        return 0, 0, split
    layers = -1 if options.gpu_layers is None else options.gpu_layers
    if number:
        if int(number) >= len(gpus):
            raise UserError(
                f"There is no {options.device}. llama.cpp sees {counted(len(gpus), 'GPU')}, counted from 0. Name one of them."
            )
        return layers, int(number), SPLIT_MODES["none"]
    return layers, 0, split


def device_name(runtime: Runtime) -> str:
    """Name the device for the interface: cpu, or the GPUs' names in llama.cpp."""
    gpus = [device.name for device in devices() if device.gpu] if runtime.gpu_layers else []
    if runtime.split_mode == SPLIT_MODES["none"] and gpus:
        gpus = gpus[runtime.main_gpu : runtime.main_gpu + 1]
    return ", ".join(gpus) or "cpu"


def sequences(vocabulary: int) -> int:
    """Most leaves of a tree."""
    return max(FEWEST_SEQUENCES, min(MOST_SEQUENCES, LOGITS_BYTES // (4 * vocabulary)))


def least_context(header: Header, tensors: Iterable[str], context: int) -> int:
    """Return the fewest tokens of a context in which llama.cpp reads a text as in one of `context`: it chooses between
    LongRoPE's short and long factors by the size of the context, however long the text is. `tensors` are names of the
    file's."""
    original = header.number("rope.scaling.original_context_length") or header.number("context_length")
    return original + 1 if padded(context) > original and any("rope_factors_long" in name for name in tensors) else 1


def cache_bytes(header: Header, runtime: Runtime, context: int) -> int:
    """Estimate the bytes of a KV cache of `context` tokens from the metadata."""
    numbers = 0.0
    for size, kind in zip(header.cache_numbers(), (runtime.type_k, runtime.type_v), strict=True):
        block, block_bytes = BLOCKS[kind]
        numbers += size * block_bytes / block
    return int(numbers * padded(context))


USUAL_CONTEXT = 8192
"""Tokens of context unless others are asked for: a long chat, in memory that is taken at once. The model's own limit is often
sixteen times as much."""
LEAST_CONTEXT = 2048
CACHE_SHARE = 0.5
"""Share of the free memory for the cache of a context that specchat chose."""


def usual_context(header: Header, runtime: Runtime, limit: int) -> int:
    """Choose a context that is useful and fits in memory, where none was asked for."""
    size = min(limit, USUAL_CONTEXT)
    while size > LEAST_CONTEXT and cache_bytes(header, runtime, size) > CACHE_SHARE * free_memory(runtime)[0]:
        size //= 2
    return size


def free_memory(runtime: Runtime) -> tuple[int, str]:
    """Return the free bytes of memory for a cache, and where that is."""
    if not runtime.gpu_layers:
        return int(psutil.virtual_memory().available), "in memory"
    return sum(device.free for device in devices() if device.gpu), "on the GPU"


def check_memory(name: str, header: Header, runtime: Runtime, context: int) -> None:
    """Refuse a context whose cache does not fit beside what is in memory already.

    Raises:
        UserError: says how much is missing, and which context would fit.
    """
    free, where = free_memory(runtime)
    free = int(free * SHARE)
    needed = cache_bytes(header, runtime, context)
    if needed <= free:
        return
    token_bytes = max(1, cache_bytes(header, runtime, PAD) // PAD)
    fits = free // token_bytes // PAD * PAD
    smaller = f"Use --context {fits}" if fits else "Close other programs"
    raise UserError(
        f"A context of {context:,} tokens takes {needed / 1e9:.1f} GB for {name}, but {free / 1e9:.1f} GB are free {where}. "
        f"{smaller}, or use a smaller model."
    )
