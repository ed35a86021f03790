"""Every setting, and values checked by its declaration. Options of loads, answers and sampling are declared where they are
used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...engine.options import AnswerOptions, ModelSelection, Sampling, parse_url
from ...errors import UserError, did_you_mean
from ...option import AT_ONCE, NEXT_ANSWER, NEXT_START, Option, declared_options, option
from .keymap import ALL, is_typed
from .locations import theme_names
from .toml import join, split

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
        "Ring the bell when a long answer ends while the terminal is in the background: true or false.",
        group="Chat",
        when=AT_ONCE,
        title="Notifications",
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
    """Sources of the values (`precedence.layers_of`); None for the defaults."""


NESTED = ("methods", "models", "presets", "servers")
"""Tables of tables."""


server = partial(option, "", secret=True, pattern=r"(?s).*\S.*")


@dataclass(frozen=True)
class ServerOptions:
    """Settings of a server. No error message has a value: it may be a key that was written there by mistake."""

    url: str = server("Address of the server, like http://localhost:8080.", check=lambda url: parse_url(url) and url)
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

CHAT_KEYS = tuple(key for key, entry in OPTIONS.items() if entry.when == NEXT_ANSWER)
"""Settings that a chat, a preset or a model's defaults may hold, besides `[methods.NAME]`: those that apply from an answer
on."""


def is_chat_key(parts: tuple[str, ...]) -> bool:
    """Whether a setting may differ by chat, preset and model."""
    return ".".join(parts) in CHAT_KEYS or (len(parts) == 3 and parts[0] == "methods")


def checked(key: str, value: Any, name: str = "") -> Any:
    """Convert a value, typed by a person or as TOML gives it, to the type of its setting; `name` as for `find_option`.

    Raises:
        UserError: an unknown key (with the nearest known one), a wrong type, or a value out of its range.
    """
    return find_option(key, name).parse(value, name or key)


def find_option(key: str, name: str = "") -> Option:
    """Find the declaration of a setting, which is called `name`, if not by its key, in an error message.

    Raises:
        UserError: there is none; suggests the nearest.
    """
    name = name or key
    names: Iterable[str] = OPTIONS
    match split(key):
        case ("methods", method, param):
            from ...engine.catalog import find_param, get  # 30 ms with what it needs, and most files name no method

            try:
                return find_param(get(method), param)
            except UserError as error:
                raise UserError(f"{name}: {error}") from None
        case ("models" | "presets", _, *inner):
            if is_chat_key(tuple(inner)):
                return find_option(join(inner), name)
            names = CHAT_KEYS
        case ("servers", _, *inner):
            if option := SERVER_OPTIONS.get(join(inner)):
                return option
            names = SERVER_OPTIONS
        case ("keymap", *inner):
            if binding := next((binding for binding in ALL if [binding.id] == inner), None):
                return replace(_KEYS, help=binding.what, default=binding.keys, check=partial(_check_keys, binding.id))
            names = [binding.id for binding in ALL]
        case inner:
            if option := OPTIONS.get(join(inner)):
                return option
    raise UserError(f"There is no setting {name}: {did_you_mean(join(inner) or key, names)}")


_KEYS = Option(
    "",
    "KEYS",
    AT_ONCE,
    type="tuple[str, ...]",
    pattern=r"(?s)[^,]*[^,\s][^,]*(,[^,]*[^,\s][^,]*)*",
    takes='keys such as "ctrl+n" or ["f2", "ctrl+n"]',
)


def _check_keys(id: str, texts: Sequence[str]) -> str:
    """Join keys with commas, as a binding has them."""
    keys = [key.strip() for key in ",".join(texts).split(",")]
    if typing := [key for key in keys if is_typed(id, key)]:
        raise UserError(f"{typing[0]} always types in the chat. Take a key with ctrl or alt, or F1 to F12.")
    return ",".join(keys)
