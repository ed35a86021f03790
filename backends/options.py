"""How a model is loaded: the options, the names of the built-in models, and the commands that install llama.cpp."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

BUILTIN = "builtin"
"""Name of the model that ships with specchat."""
BUILTIN_DRAFT = "builtin-draft"
"""Name of the smaller model that ships with it, to draft for it."""
BACKENDS = ("auto", "transformers", "llama.cpp")
StageProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total): "download" in bytes, "weights" in tensors, "check" in passes."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:N, mps; auto takes CUDA, then MPS, then the CPU."""
    dtype: str = "auto"
    """auto, float32, bfloat16, float16; auto is the file's own type on a GPU and float32 on the CPU."""
    context: int | None = None
    """Most tokens of a conversation; None for the model's own limit."""
    context_at_most: int | None = None
    """Where `context` is None: use less than the model's own limit. For draft models, which need no more than the target."""
    threads: int | None = None
    """CPU threads; None for all physical cores."""
    revision: str | None = None
    """Branch, tag or commit of a Hub repository."""
    gpu_layers: int | None = None
    """GGUF only: layers on the GPU; None for all where there is one, 0 for none."""
    split_mode: str = "layer"
    """GGUF only: how several GPUs share the weights: layer, row, none."""
    flash_attention: str = "auto"
    """GGUF only: auto, on, off; auto is off on the CPU, where it is slower, but for quantized caches, which need it."""
    kv_type: str = "auto"
    """GGUF only: type of the KV cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0; auto follows dtype and is f16 by default.
    f32 leaves flash attention off, so that runtimes can be compared."""
    backend: str = "auto"
    """auto, transformers or llama.cpp. Only the built-in models come for both: auto takes llama.cpp, which starts sooner, where
    it is installed and neither a dtype nor a GPU of torch is asked for."""
    exact: str = "auto"
    """auto: passes on the CPU are arranged so that the number of nodes moves no bit of a node's logits, where that is cheap: in
    half types, and on llama.cpp in contexts of up to 4,096 tokens; bits: also in float32 and longer contexts; off: nowhere."""
    guard: str = "on"
    """on, off: whether near ties are decided in a pass of their own where passes of many nodes round otherwise."""
    rpc: str = ""
    """GGUF only: `host:port,…` of llama.cpp's RPC servers, whose devices share the layers with those here."""


def pip_command() -> str:
    """What installs the bindings of llama.cpp into this Python."""
    return f"{quote(sys.executable)} -m pip install llama-cpp-python"


def rebuild_command(flag: str) -> str:
    """What builds llama.cpp anew with a CMake option, such as -DGGML_CUDA=on."""
    return f'CMAKE_ARGS="{flag}" {pip_command()} --force-reinstall --no-deps --no-cache-dir'
