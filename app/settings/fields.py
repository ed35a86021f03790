"""Every setting, with its default and what is said of it. Those of a load and of sampling are declared where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...engine.options import DRAFTING, LOADING, AnswerOptions, DraftOptions, LoadOptions, Sampling
from ...option import AT_ONCE, NEXT_ANSWER, NEXT_LOAD, NEXT_START, Option, declared_options, option


@dataclass(frozen=True, kw_only=True)
class Settings(LoadOptions, DraftOptions, AnswerOptions):
    """Everything that can be set. The defaults are those of a missing file."""

    model: str = option(
        "builtin",
        "The model: builtin, a folder with safetensors weights, FILE.gguf, OWNER/NAME on the Hub (OWNER/NAME:Q4_K_M for a GGUF "
        "file there), ollama:NAME:TAG, or the address of a server (http://HOST:PORT, #NAME behind it for one of its models).",
        "MODEL",
        when=NEXT_LOAD,
    )
    draft_model: tuple[str, ...] = option(
        (),
        "Draft model or trained drafter, given like the model, or several draft models; the built-in model has its own.",
        "MODEL",
        when=NEXT_LOAD,
    )
    model_folders: tuple[str, ...] = option(
        (), "More folders to search for models, besides the usual places.", when="when the list of models is read again"
    )
    method: str | None = option(
        None,
        "Decoding method; if not set, draft with a draft model (the built-in model has one), else lookup. `specchat methods` "
        "lists them.",
        group="Decoding",
        when=NEXT_ANSWER,
    )
    system: str | None = option(None, "System prompt for new chats.", "TEXT", group="Prompt", when=NEXT_ANSWER)
    theme: str = option("dark", "Colour theme; F3 lists them.", group="Look", when=AT_ONCE)
    colours: str = option(
        "length",
        "How passes are coloured: length (by their tokens) or off.",
        choices=("length", "off"),
        group="Look",
        when=AT_ONCE,
    )
    thoughts: str = option(
        "folded",
        "How thoughts are shown: open, folded to a line once the answer begins, or hidden.",
        choices=("open", "folded", "hidden"),
        group="Look",
        when=AT_ONCE,
    )
    pace: int = option(
        0,
        "Slow answers and races to N passes a second, to watch them; 0 is full speed.",
        "N",
        group="Look",
        when=AT_ONCE,
        low=0,
        high=20,
    )
    panel: str = option(
        "off",
        "Page of the side panel at the start: {}.",
        choices=("numbers", "tree", "method", "speed", "off"),
        group="Look",
        when=NEXT_START,
    )
    history: bool = option(True, "Save chats: true or false.", group="Chat", when=NEXT_START)
    past: bool = option(
        True,
        "Let lookup, fusion and suffix draft from your saved answers too: true or false (which also deletes their index).",
        group="Chat",
        when=NEXT_START,
    )
    notify: bool = option(
        True,
        "Notify you when a long answer ends while the terminal is in the background: true or false.",
        group="Chat",
        when=AT_ONCE,
    )
    editor: str | None = option(
        None, "Command of the editor for your message; by default $VISUAL or $EDITOR.", group="Chat", when=AT_ONCE
    )
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of decoding methods, one table per method."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults per model, by the name in `model`; they override the general settings. `specchat tune` writes here."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What a chat may take over under a name; `/preset save` writes here."""
    servers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Servers that `model` may name, as SERVER says."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys of the chat, by id of the binding; several separated by commas."""
    layers: Any = field(default=None, compare=False, repr=False)
    """Where the values come from (`Layers`); None if nobody noted it."""

    def load_options(self) -> dict[str, Any]:
        """What the engine is told about a load beside the target's name (fields of its message `Load`)."""
        told = {name: getattr(self, name) for name in ("draft_model", *DRAFTING, *LOADING)}
        return told | {"servers": {name: dict(server) for name, server in self.servers.items()}}


TABLES = ("methods", "sampling", "keymap", "models", "presets", "servers")

SERVER = {
    "url": "Address of the server, like http://localhost:8080.",
    "model": "Which of its models to ask for; by default its first one.",
    "key_env": "Environment variable that holds the server's key. The key itself is never in the settings.",
    "key_file": "File that holds the server's key.",
}
"""Settings of a server, with a line about each."""

SAMPLING = tuple(declared_options(Sampling))
"""Settings of the table `sampling`."""

_OWN = declared_options(Settings)
_FOUND = {
    **{name: _OWN[name] for name in ("model", "draft_model", "method")},  # each comes before how
    **{f"sampling.{name}": said for name, said in declared_options(Sampling).items()},
    **_OWN,
}
GROUPS = ("Model", "GGUF models", "Decoding", "Sampling and limits", "Prompt", "Look", "Chat")
OPTIONS: Mapping[str, Option] = {key: said for group in GROUPS for key, said in _FOUND.items() if said.group == group}
"""Dotted key → what is said of that setting, in the order in which they are shown: all but those of methods, models, servers
and keys."""

PLAIN = tuple(key for key in OPTIONS if key in _OWN)
"""Settings that are not in tables."""

CHAT_KEYS = tuple(key for key, said in OPTIONS.items() if said.when == NEXT_ANSWER)
"""What a chat, a preset or a model's defaults may hold, besides `[methods.NAME]`: what counts from an answer on."""


def is_chat_key(parts: tuple[str, ...]) -> bool:
    """Whether a setting may differ by chat, preset and model."""
    return ".".join(parts) in CHAT_KEYS or (len(parts) == 3 and parts[0] == "methods")
