"""Whether a model fits beside those that are loaded, reckoned from its files before anything of it is read."""

from __future__ import annotations

from pathlib import Path

from ..backends.files.gguf_file import read_header
from ..backends.files.model_card import Card, read_card
from ..backends.options import LoadOptions
from ..errors import UserError

GROWN = 4096
"""Tokens in a KV cache that takes its memory as it fills: a long prompt and its answer."""

UNKNOWN_CONTEXT = 32_768
"""Of models that state none."""


def check_room(name: str, path: Path, options: LoadOptions, lanes: int) -> None:
    """Refuse a model that does not fit.

    Args:
        name: as the user named it.
        path: its folder or GGUF file.
        options: how it is going to be loaded.
        lanes: conversations that are going to share it.

    Raises:
        UserError: says what it needs, and what is free.
    """
    card = read_card(path)
    if card.problem:  # which the load itself words better
        return
    context = options.context or min(card.context or UNKNOWN_CONTEXT, options.context_at_most or UNKNOWN_CONTEXT)
    weights, cache, free, where = (_gguf if card.backend == "llama.cpp" else _folder)(card, options, context)
    needed = weights + cache * lanes
    if free is None or needed <= free:
        return
    panes = f"{lanes} panes" if lanes > 1 else "a pane"
    takes = f"{_gigabytes(needed)} ({_gigabytes(weights)} of weights, the rest for what {panes} will write)"
    raise UserError(
        f"{name} does not fit beside the chat's model: it takes about {takes}, and {_gigabytes(free)} are free {where}: race a "
        "smaller model, or close other programs."
    )


def _gguf(card: Card, options: LoadOptions, context: int) -> tuple[int, int, int | None, str]:
    """Bytes of the weights and of each cache, bytes that are free, and where."""
    import psutil

    from ..backends.llama.library import devices
    from ..backends.llama.options import cache_bytes, choose_runtime

    header = read_header(card.path)
    runtime = choose_runtime(options, header)
    cache = cache_bytes(header, runtime, context)
    if runtime.gpu_layers:
        return card.size, cache, sum(device.free for device in devices() if device.gpu), "on the GPU"
    return card.size, cache, int(psutil.virtual_memory().available), "in memory"


def _folder(card: Card, options: LoadOptions, context: int) -> tuple[int, int, int | None, str]:
    """The same of a model for transformers."""
    from ..backends.devices import choose_device, choose_dtype, free_memory

    device = choose_device(options.device)
    dtype = choose_dtype(options.dtype, device)
    size = dtype.itemsize if dtype is not None else None
    cache = card.cache_bytes(min(context, GROWN), size or 2)
    return card.weight_bytes(size), cache, free_memory(device), "in memory" if device.type == "cpu" else f"on {device}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 / 2 else f"{max(1, round(count / 1e6))} MB"
