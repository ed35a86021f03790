"""Options that several commands take: the model and how it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ..settings.checks import CHOICES, DTYPES
from .complete import BY_OPTION

OPTIONS = {
    "model": "--model",
    "draft_model": "--draft-model",
    "draft_device": "--draft-device",
    "draft_dtype": "--draft-dtype",
    "draft_threads": "--draft-threads",
    "device": "--device",
    "dtype": "--dtype",
    "context": "--context",
    "threads": "--threads",
    "revision": "--revision",
    "backend": "--backend",
    "exact": "--exact",
    "guard": "--guard",
    "gpu_layers": "--gpu-layers",
    "split_mode": "--split-mode",
    "flash_attention": "--flash-attention",
    "kv_type": "--kv-type",
    "rpc": "--rpc",
    "method": "--method",
    "theme": "--theme",
    "system": "--system",
    "history": "--no-history",
    "accept": "--accept",
    "max_tokens": "--max-tokens",
    "stop": "--stop",
    "stop_loops": "--stop-loops",
    "sampling.temperature": "--temperature",
    "sampling.top_k": "--top-k",
    "sampling.top_p": "--top-p",
    "sampling.min_p": "--min-p",
    "sampling.repetition_penalty": "--repetition-penalty",
    "sampling.seed": "--seed",
}
"""Setting → the option that sets it for one run."""


def option(name: str, help_text: str, metavar: str) -> Any:
    """An option with a value."""
    return typer.Option(name, help=help_text, metavar=metavar, show_default=False, autocompletion=BY_OPTION.get(name))


def flag(name: str, help_text: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=help_text, show_default=False)


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


_MODEL_HELP = (
    "The model: builtin, a folder with safetensors weights, FILE.gguf, OWNER/NAME on the Hub (OWNER/NAME:Q4_K_M for a GGUF "
    "file there), ollama:NAME:TAG, or the address of a server (http://HOST:PORT, #NAME behind it for one of its models)."
)
Model = Annotated[str | None, option("--model", _MODEL_HELP, "MODEL")]
DraftModel = Annotated[
    list[str] | None,
    option("--draft-model", "Draft model or trained drafter, given like --model. Repeat for more draft models.", "MODEL"),
]
DraftDevice = Annotated[str | None, option("--draft-device", "Device of the draft model; by default the model's.", "DEVICE")]
DraftDtype = Annotated[str | None, option("--draft-dtype", "Number type of the draft model; by default the model's.", "DTYPE")]
DraftThreads = Annotated[
    int | None, option("--draft-threads", "CPU threads of the draft model's own, to draft on while the model verifies.", "N")
]
Device = Annotated[str | None, option("--device", "Device: auto, cpu, cuda, cuda:N or mps.", "DEVICE")]
Dtype = Annotated[str | None, option("--dtype", f"Number type of the weights: {_or(DTYPES)}.", "DTYPE")]
ContextSize = Annotated[int | None, option("--context", "Context in tokens; by default the model's own limit.", "N")]
Threads = Annotated[int | None, option("--threads", "CPU threads; by default all physical cores.", "N")]
Revision = Annotated[str | None, option("--revision", "Branch, tag or commit of the model's Hub repository.", "NAME")]
Backend = Annotated[str | None, option("--backend", f"Runtime of the built-in model: {_or(CHOICES['backend'])}.", "NAME")]
Exact = Annotated[
    str | None,
    option("--exact", f"Make passes of many nodes give the same bits as passes of one: {_or(CHOICES['exact'])}.", "WHEN"),
]
Guard = Annotated[str | None, option("--guard", f"Decide near ties in a pass of their own: {_or(CHOICES['guard'])}.", "WHEN")]
GpuLayers = Annotated[
    int | None, option("--gpu-layers", "GGUF: layers on the GPU; 0 for none, by default all if there is a GPU.", "N")
]
SplitMode = Annotated[
    str | None, option("--split-mode", f"GGUF: how several GPUs share the model: {_or(CHOICES['split_mode'])}.", "MODE")
]
FlashAttention = Annotated[
    str | None, option("--flash-attention", f"GGUF: flash attention: {_or(CHOICES['flash_attention'])}.", "WHEN")
]
KvType = Annotated[str | None, option("--kv-type", f"GGUF: KV cache type: {_or(CHOICES['kv_type'])}.", "TYPE")]
Rpc = Annotated[str | None, option("--rpc", "GGUF: llama.cpp RPC servers that hold layers of the model.", "HOST:PORT,…")]
Method = Annotated[str | None, option("--method", "Decoding method; `specchat methods` lists them.", "NAME")]
System = Annotated[str | None, option("--system", "System prompt.", "TEXT")]
Preset = Annotated[str | None, option("--preset", "Preset: system prompt, method, sampling and limits under a name.", "NAME")]
AsJson = Annotated[bool, flag("--json", "Print one JSON object.")]
