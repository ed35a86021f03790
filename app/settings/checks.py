"""Whether a value may be what a setting is set to, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ...engine.options import Sampling, is_url, parse_url
from ...errors import UserError, did_you_mean
from . import locations
from .fields import CHAT_KEYS, OPTIONS, SAMPLING, SERVER, TABLES, is_chat_key
from .key_path import join, split
from .keymap import ALL as KEYS
from .keymap import is_typed
from .shape import checked_shape

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
THEMES = locations.package_folder() / "themes"


def theme_names() -> list[str]:
    """Every theme that `theme` may name: those that ship, and the user's own in the config folder."""
    folders = (THEMES, locations.themes_folder())
    return sorted({file.stem for folder in folders for file in folder.glob("*.toml")})


def checked(key: str, value: Any, called: str) -> Any:
    """A value in the type of its setting.

    Raises:
        UserError: an unknown key (with the nearest known one), a wrong type, or a value out of its range.
    """
    match split(key):
        case ("sampling", name) if name in SAMPLING:
            return check_sampling(called, name, value)
        case ("methods", method, name) if not isinstance(value, dict | list):
            check_method(called, method, {name: value})
            return value.unwrap() if hasattr(value, "unwrap") else value
        case ("keymap", binding):
            return check_keys(called, binding, value)
        case ("servers", server, name) if server:
            return check_server(called, server, name, value)
        case ("models" | "presets", name, *inner) if name and is_chat_key(tuple(inner)):
            return checked(join(inner), value, called)
        case ("models" | "presets" as kind, name, *inner) if name and inner:
            raise UserError(f"a {kind.removesuffix('s')} has no setting {called}: {did_you_mean(join(inner), CHAT_KEYS)}")
        case (name,) if name in OPTIONS:
            return check_value(called, name, value)
    raise UserError(_unknown(called, key))


def known(key: str) -> None:
    """Refuse what is no setting.

    Raises:
        UserError: says which is near.
    """
    match split(key):
        case ("methods", method, name):
            defaults = (param["default"] for param in method_params(method) if param["name"] == name)
            check_method(key, method, {name: next(defaults, "")})
        case ("keymap", binding):
            check_keys(key, binding, "f1")
        case ("servers", server, name) if server and name in SERVER:
            return
        case ("models" | "presets", name, *inner) if name and is_chat_key(tuple(inner)):
            known(join(inner))
        case _ if key not in OPTIONS:
            checked(key, "", key)


def _unknown(called: str, key: str) -> str:
    head, _, rest = key.partition(".")
    if head in TABLES and not rest:
        return f"{called} is a table: write [{key}] and its settings below it"
    below = {
        "methods": "the method's settings",
        "models": "the model's settings",
        "presets": "its settings",
        "servers": "the server's url",
    }
    if head in below:
        return f"{called} must be a table: write [{key}] and {below[head]} below it"
    there = f"choose from {', '.join(OPTIONS)}, [methods.NAME], [models.NAME], [presets.NAME], [servers.NAME], [keymap]."
    return f"There is no setting {called}: {did_you_mean(key, OPTIONS, there)}"


def check_value(called: str, name: str, value: Any) -> Any:
    """A top-level setting in its type; `called` is its name in a message.

    Raises:
        UserError: it is of another type, or out of its range.
    """
    said = OPTIONS[name]
    match said.kind:
        case "str":
            if not isinstance(value, str):
                raise UserError(f"{called} takes a text in quotes, not {value!r}.")
            return _text(called, name, value)
        case "bool":
            if not isinstance(value, bool):
                raise UserError(f"{called} takes true or false, not {value!r}.")
            return value
        case "tuple[str, ...]":
            texts = [value] if isinstance(value, str) else value
            if name == "draft_model" and isinstance(texts, list | tuple):
                check_drafts(called, texts)
            if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
                raise UserError(f"{called} takes a list of non-empty texts, not {value!r}.")
            if said.form and not all(re.fullmatch(said.form, text) for text in texts):
                raise UserError(f"{called} takes {said.shape}, not {value!r}.")
            if name == "stop" and texts:
                check_stops(called, texts)
            return tuple(str(text) for text in texts)
        case kind:
            number = _number(called, kind, value)
            if said.low is not None and number < said.low:
                raise UserError(f"{called} must be at least {said.low}, not {value}.")
            if said.high is not None and number > said.high:
                raise UserError(f"{called} must be at most {said.high}, not {value}.")
            return number


def _text(called: str, name: str, value: str) -> str:
    said = OPTIONS[name]
    if said.choices and value not in said.choices:
        raise UserError(f"{called} takes one of {', '.join(said.choices)}, not {value!r}.")
    if said.form and not re.fullmatch(said.form, value):
        raise UserError(f"{called} takes {said.shape}, not {value!r}.")
    match name:
        case "model" if not value.strip():
            raise UserError(_EMPTY.format(called))
        case "model" if is_url(value):
            parse_url(value)
        case "accept":
            from ...engine.catalog import Acceptance

            try:
                return str(Acceptance.parse(value))
            except UserError as error:
                raise UserError(f"{called}: {error}") from None
        case "method":
            check_method(called, value, {})
        case "schema" | "regex" | "grammar":
            return checked_shape(called, name, value)
        case "theme":
            names = theme_names()
            if names and value not in names:
                raise UserError(f"{called} takes one of {', '.join(names)}, not {value!r}.")
    return str(value)


def _number(called: str, kind: str, value: Any) -> Any:
    whole = not kind.startswith("float")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise UserError(f"{called} takes {'a whole number' if whole else 'a number'}, not {value!r}.")
    return int(value) if whole else float(value)


def check_sampling(called: str, name: str, value: Any) -> Any:
    """A setting of the sampling in its type.

    Raises:
        UserError: it is of another type, or out of its range.
    """
    number = _number(called, OPTIONS[f"sampling.{name}"].kind, value)
    if name == "seed" and not 0 <= value < 2**63:
        raise UserError(f"{called} must be between 0 and 2^63 - 1, not {value}.")
    try:
        Sampling(**{name: number})
    except UserError as error:
        sentence = str(error).replace(name, called, 1).rstrip(".")
        raise UserError(f"{sentence}, not {value}.") from None
    return number


def check_keys(called: str, binding: str, value: Any) -> str:
    """Keys of a binding, separated by commas.

    Raises:
        UserError: there is no such binding (with the nearest), or these are no keys.
    """
    known = [key.id for key in KEYS]
    if binding not in known:
        raise UserError(f"there is no binding {called}: {did_you_mean(binding, known)}")
    keys = [value] if isinstance(value, str) else value
    texts = isinstance(keys, list | tuple) and all(isinstance(each, str) for each in keys)
    each = [key.strip() for key in ",".join(keys).split(",")] if texts else []
    if not all(each) or not each:
        raise UserError(f'{called} takes keys such as "ctrl+n" or ["f2", "ctrl+n"], not {value!r}.')
    if typing := [key for key in each if is_typed(binding, key)]:
        raise UserError(f"{called}: {typing[0]} always types in the chat. Take a key with ctrl or alt, or F1 to F12.")
    return ",".join(each)


def check_server(called: str, server: str, name: str, value: Any) -> str:
    """A setting of a server. No message has its value, which may be a key that somebody wrote there.

    Raises:
        UserError: there is no such setting, or it is not as it must be.
    """
    if not SERVER_NAME.fullmatch(server):
        raise UserError(f"{called}: a server's name has letters, digits, - and _ only.")
    if name in ("key", "api_key", "token", "password"):
        raise UserError(f"{called}: keys are never in the settings. Write key_env = and the name of a variable that holds it.")
    if name not in SERVER:
        raise UserError(f"a server has no setting {called}: {did_you_mean(name, SERVER)}")
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{called} takes a text in quotes.")
    if name == "url":
        parse_url(value)
    if name == "key_env" and not VARIABLE.fullmatch(value):
        raise UserError(f"{called} takes the name of an environment variable, not the key itself.")
    return str(value)


_EMPTY = "{} is empty. Give a model, a folder, a GGUF file, or owner/name on the Hub."


def check_drafts(called: str, names: Sequence[Any]) -> None:
    """Refuse names of draft models that cannot be right.

    Raises:
        UserError: one is blank, or comes twice.
    """
    if any(isinstance(name, str) and not name.strip() for name in names):
        raise UserError(_EMPTY.format(called))
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{called} names {twice[0]} more than once. Each draft model must be another one.")


def check_stops(called: str, texts: Sequence[str]) -> None:
    """Refuse stop strings that no answer could be searched for.

    Raises:
        UserError: they are too many or too long.
    """
    from ...engine.catalog import Stops  # as in `check_method`

    try:
        Stops(texts)
    except UserError as error:
        raise UserError(f"{called}: {error}") from None


def check_method(called: str, method: str, values: Mapping[str, Any]) -> None:
    """Refuse a method or a setting of it that does not exist.

    Raises:
        UserError: says what there is.
    """
    from ...engine.catalog import get, parse_params  # 30 ms with what it needs, and most files name no method

    try:
        parse_params(get(method), dict(values))
    except UserError as error:
        raise UserError(f"{called}: {error}") from None


@cache
def catalog() -> list[dict[str, Any]]:
    """Every decoding method, as `describe` has it."""
    from ...engine.catalog import describe

    return list(describe())


def method_params(method: str) -> list[dict[str, Any]]:
    """The settings of a method: name, default, doc, choices; none for an unknown one."""
    return next((list(entry["params"]) for entry in catalog() if entry["name"] == method), [])
