"""Options for loading a model, the names of the built-in models, and the commands that install llama.cpp."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..errors import UserError, shell_line
from ..option import NEXT_LOAD, option

BUILTIN = "builtin"
"""The name of the model that ships with specchat."""
BUILTIN_DRAFT = "builtin-draft"
"""The name of the smaller model that drafts for it."""
BUILTIN_EAGLE = "builtin-eagle"
"""The name of the EAGLE head that drafts for it."""
SHIPPED = {BUILTIN: "target", BUILTIN_DRAFT: "draft", BUILTIN_EAGLE: "eagle"}
"""Models that ship with specchat: name → folder in builtin/weights."""


def draft_label(number: int) -> str:
    """Name one of several draft models that draft together, in the order in which they were given: draft, draft-2, draft-3.
    `number` counts from 0."""
    return f"draft-{number + 1}" if number else "draft"


BACKENDS = ("auto", "transformers", "llama.cpp")
INT8 = "int8"
"""The dtype that is no type of files, but made at load."""
DTYPES = ("auto", "float32", "bfloat16", "float16", INT8)
DEVICE = {"pattern": r"auto|cpu|mps|(cuda|xpu|npu|hpu)(:\d+)?", "takes": "one of auto, cpu, cuda, cuda:N, mps, xpu"}
UNKNOWN_CONTEXT = 32_768
"""Context of models that state none (recurrent ones may go on for ever)."""
StageProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total): "download" in bytes, "weights" in tensors, "check" in passes."""

at_load = partial(option, when=NEXT_LOAD, group="Model")
of_gguf = partial(at_load, group="GGUF models")


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Options for loading a model."""

    device: str = at_load("auto", "Device: auto, cpu, cuda, cuda:N, mps or xpu.", "DEVICE", **DEVICE)
    """auto takes the accelerator that torch finds, else the CPU."""
    dtype: str = at_load("auto", "Data type of the weights: {}.", "DTYPE", choices=DTYPES, title="Data type")
    """auto is the file's own type on a GPU; on the CPU it is float32, but bfloat16 for models whose files have that, where
    the CPU multiplies in it (AVX-512 BF16, AMX). int8 is made of the file's weights at load, on the CPU alone; what is no
    weight is bfloat16."""
    context: int | None = at_load(
        None,
        "Context in tokens; by default the model's own limit, for GGUF at most 8,192.",
        "N",
        low=1,
        unset="the model's own limit",
    )
    threads: int | None = at_load(None, "CPU threads; by default all physical cores.", "N", low=1, unset="all physical cores")
    """The default is fewer where a large model's passes are quicker with fewer."""
    revision: str | None = at_load(
        None, "Branch, tag or commit of the model's Hub repository.", title="Hub revision", unset="the main one"
    )
    backend: str = at_load(
        "auto", "Runtime of the built-in model: {}; other models run on one only.", choices=BACKENDS, title="Runtime"
    )
    """auto is transformers for the built-in model, which gains nothing by passes over several nodes on llama.cpp."""
    chat_template: str = at_load(
        "",
        "File with a chat template (Jinja), in place of the model's own or for one without.",
        "FILE",
        unset="the model's own",
    )
    """Empty for the model's own; a model without any goes on from texts."""
    exact: str = at_load(
        "auto",
        "Hold passes to sizes that give the bits of plain decoding: auto (where that costs at most 15% of speed), on or off.",
        "WHEN",
        choices=("auto", "on", "off"),
        title="Equal bits",
    )
    """Costs nothing where passes of every size give these bits."""
    gpu_layers: int | None = of_gguf(
        None,
        "GGUF: layers on the GPU; 0 for none, by default all if there is a GPU.",
        "N",
        low=0,
        title="GPU layers",
        unset="all, if there is a GPU",
    )
    split_mode: str = of_gguf("layer", "GGUF: how several GPUs share the model: {}.", "MODE", choices=("layer", "row", "none"))
    flash_attention: str = of_gguf("auto", "GGUF: flash attention: {}.", "WHEN", choices=("auto", "on", "off"))
    """auto is off on the CPU, where it is slower, except for quantized caches, which need it."""
    kv_type: str = of_gguf(
        "auto",
        "GGUF: type of the KV cache: {}; auto is f16.",
        "TYPE",
        choices=("auto", "f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"),
        title="KV cache type",
    )
    """auto follows dtype. f32 turns flash attention off, so that runtimes can be compared."""
    context_at_most: int | None = None
    """An upper bound where `context` is None: a draft model needs no more than its target."""

    def size(self, name: str, limit: int) -> int:
        """Return the context in tokens of a model that takes at most `limit`.

        Raises:
            UserError: more were asked for.
        """
        if self.context is not None and self.context > limit:
            raise UserError(f"The context of {name} is at most {limit:,} tokens, not {self.context:,}. Choose a smaller one.")
        return self.context or min(limit, self.context_at_most or limit)


def cpu_threads(threads: int | None) -> int:
    """Return the number of CPU threads: the option's, else OMP_NUM_THREADS, else one per physical core that we may use."""
    import psutil

    if threads is not None:
        return threads
    variable = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if variable.isdigit() and int(variable) > 0:
        return int(variable)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or allowed, allowed))


def pip_command() -> str:
    """Return the command that installs the llama.cpp bindings into this Python."""
    return shell_line(sys.executable, "-m", "pip", "install", "llama-cpp-python")


def rebuild_command(flag: str) -> str:
    """Return the command that rebuilds llama.cpp with a CMake option, such as -DGGML_CUDA=on."""
    return f'CMAKE_ARGS="{flag}" {pip_command()} --force-reinstall --no-deps --no-cache-dir'
