"""Options for loading a model, the names of the built-in models, and the commands that install llama.cpp."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

BUILTIN = "builtin"
"""The name of the model that ships with specchat."""
BUILTIN_DRAFT = "builtin-draft"
"""The name of the smaller model that drafts for it."""
BUILTIN_EAGLE = "builtin-eagle"
"""The name of the EAGLE head that drafts for it."""
SHIPPED = {BUILTIN: "target", BUILTIN_DRAFT: "draft", BUILTIN_EAGLE: "eagle"}
"""What ships with specchat: name → folder in builtin/weights."""


def draft_names(value: object) -> list[str]:
    """The names in an option `draft_model`, which is one name, several, or None."""
    if isinstance(value, str):
        return [value] if value else []
    return [str(name) for name in value] if isinstance(value, list | tuple) else []


def draft_label(number: int) -> str:
    """What the draft models are called where several draft together, in the order in which they were named: draft, draft-2,
    draft-3. `number` counts from 0."""
    return f"draft-{number + 1}" if number else "draft"


BACKENDS = ("auto", "transformers", "llama.cpp")
StageProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total): "download" in bytes, "weights" in tensors, "check" in passes."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps; auto tries CUDA, then MPS, then the CPU."""
    dtype: str = "auto"
    """auto, float32, bfloat16 or float16; auto is the file's own type on a GPU. On the CPU it is
    float32, but bfloat16 for larger models whose files have that where the CPU multiplies in it (AVX-512 BF16, AMX)."""
    context: int | None = None
    """How many tokens the model can see at once; None for the model's own limit."""
    context_at_most: int | None = None
    """An upper bound where `context` is None: a draft model needs no more than its target."""
    threads: int | None = None
    """The number of CPU threads; None for one per physical core, or fewer where a large model's passes are quicker so."""
    revision: str | None = None
    """Branch, tag or commit of a Hub repository."""
    gpu_layers: int | None = None
    """GGUF only: layers on the GPU; None for all if there is a GPU, 0 for none."""
    split_mode: str = "layer"
    """GGUF only: how several GPUs share the weights: layer, row or none."""
    flash_attention: str = "auto"
    """GGUF only: auto, on or off; auto is off on the CPU, where it is slower, except for quantized caches, which need it."""
    kv_type: str = "auto"
    """GGUF only: the type of the KV cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1 or q4_0; auto follows dtype and is f16 by
    default. f32 turns flash attention off, so that runtimes can be compared."""
    backend: str = "auto"
    """auto, transformers or llama.cpp. Only the built-in models run on both: auto takes llama.cpp, which starts sooner, if it
    is installed and neither a dtype nor a torch GPU is asked for."""
    exact: str = "auto"
    """auto: arrange passes on the CPU so that their size does not change a bit of a node's logits, where that is cheap: in half
    types, and on llama.cpp in contexts of up to 4,096 tokens; bits: also in float32 and in longer contexts; off: never."""
    guard: str = "on"
    """on or off: decide near ties in a pass of their own, where passes of many nodes round differently."""
    rpc: str = ""
    """GGUF only: `host:port,…` of llama.cpp RPC servers, whose devices share the layers with the local ones."""


def pip_command() -> str:
    """The command that installs the llama.cpp bindings into this Python."""
    return f"{quote(sys.executable)} -m pip install llama-cpp-python"


def rebuild_command(flag: str) -> str:
    """The command that rebuilds llama.cpp with a CMake option, such as -DGGML_CUDA=on."""
    return f'CMAKE_ARGS="{flag}" {pip_command()} --force-reinstall --no-deps --no-cache-dir'
