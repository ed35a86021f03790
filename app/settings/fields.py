"""Every setting, with its default and a line about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ...engine.options import Sampling


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. The defaults are those of a missing file."""

    model: str = "builtin"
    """Target model: `builtin`, a folder with safetensors weights, FILE.gguf, `owner/name` or `owner/name:Q4_K_M` on the Hub."""
    draft_model: str | None = None
    """Model that drafts for the target, named in the same way; the built-in target brings its own."""
    device: str = "auto"
    """Where the target runs: auto, cpu, cuda, cuda:N or mps."""
    dtype: str = "auto"
    """Type of the weights: auto, float32, bfloat16 or float16."""
    context: int | None = field(default=None, metadata={"low": 1})
    """Most tokens of a conversation; the model's own limit where not set."""
    threads: int | None = field(default=None, metadata={"low": 1})
    """CPU threads; all physical cores where not set."""
    revision: str | None = None
    """Branch, tag or commit of the target's Hub repository."""
    backend: str = "auto"
    """Runtime of the built-in model: auto, transformers or llama.cpp; other models come for one only."""
    gpu_layers: int | None = field(default=None, metadata={"low": 0})
    """GGUF: layers on the GPU; all where there is one if not set, 0 for none."""
    split_mode: str = "layer"
    """GGUF: how several GPUs share the target: layer, row or none."""
    flash_attention: str = "auto"
    """GGUF: whether attention is computed in blocks (flash attention): auto, on or off."""
    kv_type: str = "auto"
    """GGUF: type of the KV cache: f16, f32, bf16, q8_0, q5_1, q5_0, q4_1 or q4_0; auto is f16."""
    exact: str = "auto"
    """Whether passes are arranged so that drafting moves no bit of the logits: auto (where that is cheap), bits or off."""
    guard: str = "on"
    """Whether near ties are decided in a pass of their own where passes of many nodes round otherwise: on or off."""
    rpc: str = ""
    """GGUF: llama.cpp RPC servers that hold layers of the target, as host:port,host:port."""
    method: str = "lookup"
    """Decoding method that a chat starts with."""
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of decoding methods: a table per method."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults per model: by its name as `model` has it, what goes before the settings for all; `specchat tune` writes here."""
    theme: str = "dark"
    """Colour theme: the name of a file in `themes/`."""
    colours: str = "length"
    """How runs are coloured: length (tokens per pass), cycle (hues in turn), underline (no colours) or off."""
    panel: str = "off"
    """Page of the side panel that a chat starts with: numbers, tree, method or off."""
    sampling: Sampling = field(default_factory=Sampling)
    """How the target picks a token: temperature, top_k, top_p, min_p, repetition_penalty, seed."""
    accept: str = "exact"
    """When a draft token is accepted: exact, rejection, soft:BETA or typical:EPSILON,DELTA."""
    max_tokens: int | None = field(default=None, metadata={"low": 1})
    """Most tokens of an answer; as many as the context holds where not set."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    stop_loops: bool = True
    """Whether an answer that repeats itself far beyond what text does is stopped: true or false."""
    system: str | None = None
    """System prompt that a chat starts with."""
    history: bool = True
    """Whether chats are kept: true or false."""
    model_folders: tuple[str, ...] = ()
    """Folders with models, which the list of models looks into besides the places that it knows."""
    editor: str | None = None
    """Command that opens the draft; $VISUAL or $EDITOR where not set."""
    notify: str = "auto"
    """How to say that a long answer has ended while the terminal is not in front: auto, osc9, osc777, bell or off."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys of the chat's bindings: the binding's id to its keys, separated by commas."""
    layers: Any = field(default=None, compare=False, repr=False)
    """Where the values come from (`Layers`); None if nobody noted it."""

    def load_options(self) -> dict[str, Any]:
        """What the engine is told about a load beside the target's name (fields of its message `Load`)."""
        return {name: getattr(self, name) for name in LOADING}


LOADING = (
    *("draft_model", "device", "dtype", "context", "threads", "revision", "backend", "exact", "guard"),
    *("gpu_layers", "split_mode", "flash_attention", "kv_type", "rpc"),
)
"""Settings that count when a model is loaded."""

TABLES = ("methods", "sampling", "keymap", "models")

FIELDS = {f.name: f for f in fields(Settings) if f.name != "layers"}
PLAIN = tuple(name for name in FIELDS if name not in TABLES)
"""Settings that are no tables."""

SAMPLING = {f.name: f for f in fields(Sampling)}

CHAT_KEYS = ("method", "accept", "max_tokens", "stop", "stop_loops", "system")
"""Besides `[sampling]` and `[methods.NAME]` what a chat, a preset or a model's defaults may hold."""


def is_chat_key(parts: tuple[str, ...]) -> bool:
    """Whether a setting may differ by chat, preset and model."""
    match parts:
        case ("sampling", name):
            return name in SAMPLING
        case ("methods", _, _):
            return True
        case (name,):
            return name in CHAT_KEYS
    return False


def chat_keys() -> list[str]:
    """These settings, but for those of methods."""
    return [*CHAT_KEYS, *(f"sampling.{name}" for name in SAMPLING)]
