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
    """Model: `builtin`, a folder with safetensors weights, FILE.gguf, `owner/name` or `owner/name:Q4_K_M` on the Hub."""
    draft_model: tuple[str, ...] = ()
    """Draft model or trained drafter, given in the same way, or a list of several; the built-in model has its own."""
    device: str = "auto"
    """Device that the model runs on: auto, cpu, cuda, cuda:N or mps."""
    dtype: str = "auto"
    """Number type of the weights: auto, float32, bfloat16 or float16."""
    draft_device: str | None = None
    """Device that the draft model runs on; by default the model's own."""
    draft_dtype: str | None = None
    """Number type of the draft model's weights; by default as for the model."""
    draft_threads: int | None = field(default=None, metadata={"low": 1})
    """CPU threads of the draft model's own, beside the model's; by default they take turns on the same ones."""
    context: int | None = field(default=None, metadata={"low": 1})
    """Context in tokens; by default the model's own limit."""
    threads: int | None = field(default=None, metadata={"low": 1})
    """CPU threads; by default all physical cores."""
    revision: str | None = None
    """Branch, tag or commit of the model's Hub repository."""
    backend: str = "auto"
    """Runtime of the built-in model: auto, transformers or llama.cpp; other models run on one only."""
    gpu_layers: int | None = field(default=None, metadata={"low": 0})
    """GGUF: layers on the GPU; 0 for none, by default all if there is a GPU."""
    split_mode: str = "layer"
    """GGUF: how several GPUs share the model: layer, row or none."""
    flash_attention: str = "auto"
    """GGUF: flash attention: auto, on or off."""
    kv_type: str = "auto"
    """GGUF: type of the KV cache: f16, f32, bf16, q8_0, q5_1, q5_0, q4_1 or q4_0; auto is f16."""
    exact: str = "auto"
    """Make passes of many nodes give the same bits as passes of one: auto (where that is cheap), bits (always) or off."""
    guard: str = "on"
    """Decide near ties in a pass of their own, where passes of many nodes round differently: on or off."""
    rpc: str = ""
    """GGUF: llama.cpp RPC servers that hold layers of the model, as host:port,host:port."""
    method: str | None = None
    """Decoding method for new chats; if not set, `draft` with a draft model (the built-in model has one), else `lookup`."""
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of decoding methods, one table per method."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults per model, by the name in `model`; they override the general settings. `specchat tune` writes here."""
    servers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Servers that `model` may name: url, model, and where the key is: key_env, key_file or keyring."""
    theme: str = "dark"
    """Colour theme: the name of a file in `themes/`."""
    colours: str = "length"
    """How runs are coloured: length (tokens per pass), cycle (hues in turn), underline (no colours) or off."""
    panel: str = "off"
    """Page of the side panel at the start: numbers, tree, method or off."""
    sampling: Sampling = field(default_factory=Sampling)
    """How the target picks a token: temperature, top_k, top_p, min_p, repetition_penalty, seed."""
    accept: str = "exact"
    """When a draft token is accepted: exact, rejection, soft:BETA or typical:EPSILON,DELTA."""
    max_tokens: int | None = field(default=None, metadata={"low": 1})
    """Stop an answer after so many tokens; by default when the context is full."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    stop_loops: bool = True
    """Stop answers that repeat themselves far beyond what ordinary text does: true or false."""
    system: str | None = None
    """System prompt for new chats."""
    history: bool = True
    """Save chats: true or false."""
    past: bool = True
    """Let `lookup`, `fusion` and `suffix` draft from your saved answers too: true or false (which also deletes their index)."""
    model_folders: tuple[str, ...] = ()
    """More folders to search for models, besides the usual places."""
    editor: str | None = None
    """Command of the editor for your message; by default $VISUAL or $EDITOR."""
    notify: str = "auto"
    """How to notify you of a long answer that ends while the terminal is in the background: auto, osc9, osc777, bell or off."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys of the chat, by id of the binding; several separated by commas."""
    layers: Any = field(default=None, compare=False, repr=False)
    """Where the values come from (`Layers`); None if nobody noted it."""

    def load_options(self) -> dict[str, Any]:
        """What the engine is told about a load beside the target's name (fields of its message `Load`)."""
        return {name: getattr(self, name) for name in LOADING} | {"servers": {k: dict(v) for k, v in self.servers.items()}}


LOADING = (
    *("draft_model", "draft_device", "draft_dtype", "draft_threads"),
    *("device", "dtype", "context", "threads", "revision", "backend", "exact", "guard"),
    *("gpu_layers", "split_mode", "flash_attention", "kv_type", "rpc"),
)
"""Settings that count when a model is loaded."""

TABLES = ("methods", "sampling", "keymap", "models", "servers")

SERVER = {
    "url": "Address of the server, like http://localhost:8080.",
    "model": "Which of its models to ask for; by default its first one.",
    "plain": "Of a pair in place of url: the server that serves the model without speculation, by its address or name here.",
    "with": "Of a pair: the server that serves the same model with speculation.",
    "key_env": "Environment variable that holds the server's key. The key itself is never in the settings.",
    "key_file": "File that holds the server's key.",
    "keyring": "Name under which the desktop's keyring holds the server's key, for `specchat`.",
}
"""Settings of a server, with a line about each."""

FIELDS = {f.name: f for f in fields(Settings) if f.name != "layers"}
PLAIN = tuple(name for name in FIELDS if name not in TABLES)
"""Settings that are not tables."""

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
