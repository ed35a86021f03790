"""The settings: what they are, and how the file is read, checked and changed.

Settings are addressed by dotted keys, the same in the file, in changes made by the chat, and in messages: `theme`,
`sampling.temperature`, `methods.lookup.max_draft`, `keymap.next_method`, `models."owner/name".method`. `precedence.py` says
which value counts where several are given.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..text.amounts import short_path
from . import locations
from .checks import checked
from .fields import OPTIONS, PLAIN, SAMPLING, TABLES, Settings
from .key_path import join, split
from .toml import each_value, leaves, parse, read_text, rewrite


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What the settings file and the environment said. Values are checked; a key of either is dotted."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """A sentence for each thing that is wrong; all else counts."""


def changed(settings: Settings, changes: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Settings:
    """Settings with some of them changed: by dotted key the value as TOML would give it. `names` says what messages call a key
    (`{"sampling.top_k": "--top-k"}`).

    Raises:
        UserError: an unknown key (with the nearest known one), a wrong type, or a value out of its range.
    """
    return merged(settings, {key: checked(key, value, (names or {}).get(key, key)) for key, value in changes.items()})


def merged(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings with some of them changed to values that are checked already."""
    values: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    methods = {name: dict(table) for name, table in settings.methods.items()}
    named = {kind: {name: dict(table) for name, table in getattr(settings, kind).items()} for kind in ("models", "presets")}
    servers = {name: dict(table) for name, table in settings.servers.items()}
    keymap = dict(settings.keymap)
    for key, value in changes.items():
        match split(key):
            case ("sampling", name):
                sampling[name] = value
            case ("methods", method, name):
                methods.setdefault(method, {})[name] = value
            case ("keymap", binding):
                keymap[binding] = value
            case ("servers", server, name):
                servers.setdefault(server, {})[name] = value
            case ("models" | "presets" as kind, name, *inner):
                named[kind].setdefault(name, {})[join(inner)] = value
            case (name,):
                values[name] = value
    return replace(
        settings,
        **values,
        sampling=replace(settings.sampling, **sampling) if sampling else settings.sampling,
        methods=methods,
        keymap=keymap,
        models=named["models"],
        presets=named["presets"],
        servers=servers,
    )


def flat(settings: Settings) -> dict[str, Any]:
    """What differs from the defaults, by dotted keys."""
    default = Settings()
    out = {name: getattr(settings, name) for name in PLAIN if getattr(settings, name) != getattr(default, name)}
    for name in SAMPLING:
        if (value := getattr(settings.sampling, name)) != getattr(default.sampling, name):
            out[f"sampling.{name}"] = value
    out |= {join(("methods", method, name)): v for method, table in settings.methods.items() for name, v in table.items()}
    for kind in ("models", "presets"):
        named = getattr(settings, kind)
        out |= {join((kind, name, *split(key))): value for name, table in named.items() for key, value in table.items()}
    out |= {join(("servers", server, name)): v for server, table in settings.servers.items() for name, v in table.items()}
    return out | {join(("keymap", binding)): keys for binding, keys in settings.keymap.items()}


# The file and the environment


def read(path: Path | None = None) -> ReadSettings:
    """What the file says, and, for the user's own (None), the environment. What is wrong is left out and told; never raises."""
    own, path = path is None, path or locations.settings_file()
    environment: dict[str, Any] = {}
    problems: list[str] = []
    for key in OPTIONS if own else ():
        if text := os.environ.get(variable(key)):
            try:
                environment[key] = checked(key, from_text(key, text), f"${variable(key)}")
            except UserError as error:
                problems.append(f"{error} Correct it in your shell, or unset it.")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}

    def take(parts: tuple[str, ...], value: Any, line: int) -> None:
        key = join(parts)
        values[key] = checked(key, value, key)
        lines[key] = line

    try:
        wrong = each_value(read_text(path) or "", short_path(path), TABLES, take)
    except UserError as error:
        wrong = [str(error)]
    return ReadSettings(path, values, lines, environment, (*wrong, *problems))


def save(changes: Mapping[str, Any], path: Path | None = None) -> None:
    """Write changes into the settings file (the user's own if None), all or nothing; comments and order stay.

    Each dotted key has a value, or None to remove it, so that its default holds again.

    Raises:
        UserError: a change does not check, the file is no TOML as it is, or it cannot be written.
    """
    path = path or locations.settings_file()
    values = {split(key): None if value is None else checked(key, value, key) for key, value in changes.items()}
    rewrite(path, read_text(path) or "", values)


def spots(path: Path) -> list[tuple[str, ...]]:
    """Every key of a settings file, those that are no settings among them.

    Raises:
        UserError: it is no TOML.
    """
    return [parts for parts, _ in leaves(parse(read_text(path) or "", short_path(path)), ())]


def takes_many(key: str) -> bool:
    """Whether a setting takes several values."""
    match split(key):
        case ("models" | "presets", _, *inner):
            return takes_many(join(inner))
        case ("keymap", _):
            return True
    return key in OPTIONS and OPTIONS[key].kind == "tuple[str, ...]"


def variable(key: str) -> str:
    """The environment variable of a setting: `SPECCHAT_SAMPLING_TOP_K`."""
    return "SPECCHAT_" + key.upper().replace(".", "_")


def from_text(key: str, text: str) -> Any:
    """A typed text as TOML would give it for this setting; what does not fit is left for `checked` to refuse."""
    match split(key):
        case ("models" | "presets", _, *inner):
            return from_text(join(inner), text)
        case ("methods", _, _):
            return _value(text)
    match OPTIONS[key].kind if key in OPTIONS else "str":
        case "str":
            return text
        case "tuple[str, ...]" if not text.lstrip().startswith("["):
            return [text] if text else []
        case "bool":
            from ...engine.catalog import ON_OFF  # as in `check_method`

            return ON_OFF.get(text.strip().lower(), text)
    return _value(text)


def _value(text: str) -> Any:
    """A number, a list or true and false where a text is one."""
    try:
        return tomllib.loads(f"x = {text.strip()}")["x"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
