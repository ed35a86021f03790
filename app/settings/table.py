"""The settings as they are listed: in groups, each with what it is about, what it may be and when a change counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...option import AT_ONCE, NEXT_ANSWER
from .checks import catalog, method_params, theme_names
from .fields import OPTIONS, SERVER, is_chat_key
from .key_path import join, split
from .keymap import ALL as KEYS
from .keymap import GROUPS as KEYS_WHERE


@dataclass(frozen=True, slots=True)
class ListedSetting:
    """A setting as it is listed."""

    key: str
    group: str
    what: str
    """What it is about, in a sentence."""
    when: str
    """When a change takes effect."""
    choices: tuple[str, ...] = ()
    """What it may be; empty where that is not one of a few words."""

    @property
    def per_model(self) -> bool:
        """Whether a model may have its own."""
        return is_chat_key(split(self.key))


def entries(methods: Mapping[str, Any] | None = None) -> list[ListedSetting]:
    """Every setting, in groups; those of these decoding methods by name, or of all in the catalog."""
    out = [_plain(key) for key in OPTIONS]
    params = (
        {name: method.params for name, method in methods.items()}
        if methods is not None
        else {entry["name"]: entry["params"] for entry in catalog()}
    )
    for name in params:
        for param in params[name]:
            choices = tuple(map(str, param.get("choices") or ()))
            if not choices and isinstance(param["default"], bool):
                choices = ("true", "false")
            key = join(("methods", name, param["name"]))
            out.append(ListedSetting(key, f"Method {name}", str(param["doc"]), NEXT_ANSWER, choices))
    for where, keys in KEYS_WHERE.items():
        group = f"Keys {where[:1].lower()}{where[1:]}"
        out += [ListedSetting(join(("keymap", key.id)), group, key.what, AT_ONCE) for key in keys]
    return out


def _plain(key: str) -> ListedSetting:
    said = OPTIONS[key]
    choices = said.choices or (("true", "false") if said.kind == "bool" else ())
    if key == "theme":
        choices = tuple(theme_names())
    elif key == "method":
        choices = tuple(entry["name"] for entry in catalog())
    return ListedSetting(key, said.group, about(key), said.when, choices)


def about(key: str) -> str:
    """What a setting is about; '' if nobody said."""
    match split(key):
        case ("models", _, *inner):
            return about(join(inner))
        case ("methods", method, name):
            return next((str(param["doc"]) for param in method_params(method) if param["name"] == name), "")
        case ("servers", _, name):
            return SERVER.get(name, "").replace("`", "")
        case ("keymap", binding):
            return next((found.what for found in KEYS if found.id == binding), "")
    return OPTIONS[key].help.replace("`", "") if key in OPTIONS else ""
