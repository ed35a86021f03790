"""The declaration of every setting, by its dotted key, and values checked by it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from ...errors import UserError, did_you_mean
from ...option import AT_ONCE, Option
from .fields import CHAT_KEYS, OPTIONS, SERVER_OPTIONS, TABLES, is_chat_key
from .key_path import join, split
from .keymap import ALL as KEYS
from .keymap import KeyBinding, is_typed

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")
BELOW = {
    "methods": "the method's settings",
    "models": "the model's settings",
    "presets": "its settings",
    "servers": "the server's url",
}
"""Table of tables → words for what stands in one."""


def checked(key: str, value: Any, name: str) -> Any:
    """Convert a value, typed by a person or as TOML gives it, to the type of its setting.

    Args:
        name: of the setting in an error message.

    Raises:
        UserError: an unknown key (with the nearest known one), a wrong type, or a value out of its range.
    """
    return find_option(key, name).parse(value, name)


def find_option(key: str, name: str = "") -> Option:
    """Find the declaration of a setting.

    Args:
        key: dotted.
        name: of the setting in an error message, if not the key.

    Raises:
        UserError: there is none; suggests the nearest.
    """
    name = name or key
    match split(key):
        case ("methods", method, param):
            return _method_option(name, method, param)
        case ("keymap", binding):
            return _key_option(name, binding)
        case ("servers", server, field) if server:
            return _server_option(name, server, field)
        case ("models" | "presets" as kind, owner, *inner) if owner and inner:
            if is_chat_key(tuple(inner)):
                return find_option(join(inner), name)
            raise UserError(f"a {kind.removesuffix('s')} has no setting {name}: {did_you_mean(join(inner), CHAT_KEYS)}")
        case parts if (plain := join(parts)) in OPTIONS:
            return OPTIONS[plain]
    table, _, rest = key.partition(".")
    if table in TABLES and not rest:
        raise UserError(f"{name} is a table. Write [{key}] and its settings below it.")
    if table in BELOW:
        raise UserError(f"{name} must be a table. Write [{key}] and {BELOW[table]} below it.")
    listed = f"choose from {', '.join(OPTIONS)}, [methods.NAME], [models.NAME], [presets.NAME], [servers.NAME], [keymap]."
    raise UserError(f"There is no setting {name}: {did_you_mean(key, OPTIONS, listed)}")


def _method_option(name: str, method: str, param: str) -> Option:
    from ...engine.catalog import find_param, get  # 30 ms with what it needs, and most files name no method

    try:
        return find_param(get(method), param)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


@cache
def _bindings() -> dict[str, KeyBinding]:
    return {key.id: key for key in KEYS}


def _key_option(name: str, id: str) -> Option:
    if (binding := _bindings().get(id)) is None:
        raise UserError(f"there is no binding {name}: {did_you_mean(id, list(_bindings()))}")
    return Option(
        binding.what,
        "KEYS",
        AT_ONCE,
        type="tuple[str, ...]",
        pattern=r"(?s)[^,]*[^,\s][^,]*(,[^,]*[^,\s][^,]*)*",
        takes='keys such as "ctrl+n" or ["f2", "ctrl+n"]',
        check=partial(_check_keys, id),
        default=binding.keys,
    )


def _check_keys(id: str, texts: Sequence[str]) -> str:
    """Join keys with commas, as a binding has them."""
    keys = [key.strip() for key in ",".join(texts).split(",")]
    if typing := [key for key in keys if is_typed(id, key)]:
        raise UserError(f"{typing[0]} always types in the chat. Take a key with ctrl or alt, or F1 to F12.")
    return ",".join(keys)


def _server_option(name: str, server: str, field: str) -> Option:
    if not SERVER_NAME.fullmatch(server):
        raise UserError(f"{name}: a server's name has letters, digits, - and _ only.")
    if field in ("key", "api_key", "token", "password"):
        raise UserError(f"{name}: keys are never in the settings. Write key_env = and the name of a variable that holds it.")
    if field not in SERVER_OPTIONS:
        raise UserError(f"a server has no setting {name}: {did_you_mean(field, SERVER_OPTIONS)}")
    return SERVER_OPTIONS[field]
