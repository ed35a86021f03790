"""Every setting that has a fixed name. Options of loads, answers and sampling are declared where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...engine.options import AnswerOptions, ModelSelection, Sampling, parse_url
from ...errors import UserError
from ...option import AT_ONCE, NEXT_ANSWER, NEXT_START, Option, declared_options, option
from .locations import theme_names

Values = Mapping[str, Any]
"""Dotted key of a setting → its value."""


def _method_names() -> list[str]:
    from ...engine.catalog import methods  # 30 ms with what it needs, and most files name no method

    return list(methods())


def _check_method(name: str) -> str:
    from ...engine.catalog import get

    get(name)
    return name


def _check_theme(name: str) -> str:
    if (names := theme_names()) and name not in names:
        raise UserError(f"There is no theme {name!r}. Choose from {', '.join(names)}.")
    return name


look = partial(option, group="Look", when=AT_ONCE)


@dataclass(frozen=True, kw_only=True)
class Settings(ModelSelection, AnswerOptions):
    """Everything that can be set. The defaults are those of a missing file."""

    model_folders: tuple[str, ...] = option(
        (),
        "More folders to search for models, besides the usual places.",
        group="Model",
        when="when the list of models is read again",
        title="Folders of models",
    )
    method: str | None = option(
        None,
        "Decoding method; if not set, draft with a draft model (the built-in model has one), else lookup. `specchat methods` "
        "lists them.",
        group="Decoding",
        unset="what suits the model",
        offers=_method_names,
        check=_check_method,
    )
    system: str | None = option(None, "System prompt for new chats.", "TEXT", group="Prompt", title="System prompt")
    theme: str = look("dark", "Colour theme; F3 lists them.", offers=theme_names, check=_check_theme)
    colours: str = look("length", "How passes are coloured: length (by their tokens) or off.", choices=("length", "off"))
    thoughts: str = look(
        "folded",
        "How thoughts are shown: open, folded to a line once the answer begins, or hidden.",
        choices=("open", "folded", "hidden"),
    )
    pace: int = look(0, "Slow answers and races to N passes a second, to watch them; 0 is full speed.", "N", low=0, high=20)
    panel: str = look(
        "off",
        "Page of the side panel at the start: {}.",
        choices=("numbers", "tree", "method", "speed", "off"),
        when=NEXT_START,
        title="Side panel",
    )
    history: bool = option(True, "Save chats: true or false.", group="Chat", when=NEXT_START)
    past: bool = option(
        True,
        "Let lookup, fusion and suffix draft from your saved answers too: true or false (which also deletes their index).",
        group="Chat",
        when=NEXT_START,
        title="Past answers",
    )
    notify: bool = option(
        True,
        "Notify you when a long answer ends while the terminal is in the background: true or false.",
        group="Chat",
        when=AT_ONCE,
        title="Notifications",
    )
    editor: str | None = option(
        None,
        "Command of the editor for your message; by default $VISUAL or $EDITOR.",
        group="Chat",
        when=AT_ONCE,
        unset="$VISUAL or $EDITOR",
    )
    methods: Mapping[str, Values] = field(default_factory=dict)
    """Settings of decoding methods, one table per method."""
    models: Mapping[str, Values] = field(default_factory=dict)
    """Defaults per model, by the name in `model`; they override the general settings. `specchat tune` writes here."""
    presets: Mapping[str, Values] = field(default_factory=dict)
    """Settings that a chat takes over under a name; `/preset save` writes here."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys of the chat, by id of the binding; several separated by commas."""
    layers: object = field(default=None, compare=False, repr=False)
    """Sources of the values (`precedence.layers_of`); None for settings made by hand."""


TABLES = ("methods", "sampling", "keymap", "models", "presets", "servers")


def _check_address(url: str) -> str:
    parse_url(url)
    return url


server = partial(option, "", secret=True, pattern=r"(?s).*\S.*")


@dataclass(frozen=True)
class ServerOptions:
    """Settings of a server. No error message has a value: it may be a key that was written there by mistake."""

    url: str = server("Address of the server, like http://localhost:8080.", check=_check_address)
    model: str = server("Which of its models to ask for; by default its first one.")
    key_env: str = option(
        "",
        "Environment variable that holds the server's key. The key itself is never in the settings.",
        secret=True,
        pattern=r"[A-Za-z_][A-Za-z0-9_]*",
        takes="the name of an environment variable, not the key itself",
    )
    key_file: str = server("File that holds the server's key.")


SERVER_OPTIONS = declared_options(ServerOptions)

SAMPLING = tuple(declared_options(Sampling))
"""Settings of the table `sampling`."""

_plain = declared_options(Settings)
_ordered = {
    **{name: _plain[name] for name in ("model", "draft_model", "method")},  # before the options of their load
    **{f"sampling.{name}": option for name, option in declared_options(Sampling).items()},
    **_plain,
}
GROUPS = ("Model", "GGUF models", "Decoding", "Sampling and limits", "Prompt", "Look", "Chat")
OPTIONS: Mapping[str, Option] = {key: entry for group in GROUPS for key, entry in _ordered.items() if entry.group == group}
"""Dotted key → option, in the order in which they are listed: all but those of methods, models, servers and keys."""

PLAIN = tuple(key for key in OPTIONS if key in _plain)
"""Settings that are not in tables."""

CHAT_KEYS = tuple(key for key, entry in OPTIONS.items() if entry.when == NEXT_ANSWER)
"""Settings that a chat, a preset or a model's defaults may hold, besides `[methods.NAME]`: those that apply from an answer
on."""


def is_chat_key(parts: tuple[str, ...]) -> bool:
    """Whether a setting may differ by chat, preset and model."""
    return ".".join(parts) in CHAT_KEYS or (len(parts) == 3 and parts[0] == "methods")
