"""What the settings are about: groups, descriptions, and when a change counts."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...engine.options import Sampling
from .checks import CHOICES, catalog, method_params, theme_names
from .fields import FIELDS, LOADING, PLAIN, SAMPLING, SERVER, Settings, is_chat_key
from .key_path import join, split
from .keymap import ALL as KEYS
from .keymap import GROUPS as KEYS_WHERE

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Model": (
        "model",
        "draft_model",
        "draft_device",
        "draft_dtype",
        "draft_threads",
        "device",
        "dtype",
        "context",
        "threads",
        "revision",
        "backend",
        "exact",
        "guard",
        "model_folders",
    ),
    "GGUF models": ("gpu_layers", "split_mode", "flash_attention", "kv_type", "rpc"),
    "Decoding": ("method", "accept"),
    "Sampling and limits": (*(f"sampling.{name}" for name in SAMPLING), "max_tokens", "stop", "stop_loops"),
    "Prompt": ("system",),
    "Look": ("theme", "colours", "panel"),
    "Chat": ("history", "past", "notify", "editor"),
}
"""Group → its settings, in the order in which they are shown. Those of methods and the keys have groups of their own."""

KEY_GROUPS = {f"Keys {heading[:1].lower()}{heading[1:]}": keys for heading, keys in KEYS_WHERE.items()}

AT_ONCE = "applies immediately"
NEXT_ANSWER = "applies from the next answer"
NEXT_CHAT = "applies from the next start"
NEXT_LOAD = "applies from the next start, when a model is loaded"


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting as it is listed."""

    key: str
    group: str
    what: str
    """What it is about, in a sentence."""
    when: str
    """When a change counts."""
    choices: tuple[str, ...] = ()
    """What it may be; empty where that is not one of a few words."""

    @property
    def per_model(self) -> bool:
        """Whether a model may have its own."""
        return is_chat_key(split(self.key))


def entries(methods: Mapping[str, Any] | None = None) -> list[Entry]:
    """Every setting, in groups.

    Args:
        methods: decoding methods by name, each with its `params`; those of the catalog if None.
    """
    out = [_plain(key, group) for group, keys in GROUPS.items() for key in keys]
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
            out.append(Entry(key, f"Method {name}", str(param["doc"]), NEXT_ANSWER, choices))
    out += [Entry(join(("keymap", key.id)), group, key.what, AT_ONCE) for group, keys in KEY_GROUPS.items() for key in keys]
    return out


def _plain(key: str, group: str) -> Entry:
    choices = CHOICES.get(key, ())
    if key == "theme":
        choices = tuple(theme_names())
    elif key == "method":
        choices = tuple(entry["name"] for entry in catalog())
    elif key != "model" and key in FIELDS and str(FIELDS[key].type) == "bool":
        choices = ("true", "false")
    if key in LOADING or key in ("model", "model_folders"):
        when = "applies when the list of models is read again" if key == "model_folders" else NEXT_LOAD
    elif key in ("theme", "colours", "notify", "editor"):
        when = AT_ONCE
    elif key in ("panel", "history", "past"):
        when = NEXT_CHAT
    else:
        when = NEXT_ANSWER
    return Entry(key, group, about(key), when, choices)


@cache
def _docs(kind: type) -> dict[str, str]:
    """The line of documentation below each field of a dataclass."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    out = {}
    for item, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and isinstance(after, ast.Expr):
            out[item.target.id] = str(getattr(after.value, "value", ""))
    return out


def about(key: str) -> str:
    """What a setting is about; '' if nobody said."""
    match split(key):
        case ("sampling", name):
            return _docs(Sampling).get(name, "")
        case ("models", _, *inner):
            return about(join(inner))
        case ("methods", method, name):
            return next((str(param["doc"]) for param in method_params(method) if param["name"] == name), "")
        case ("servers", _, name):
            return SERVER.get(name, "").replace("`", "")
        case ("keymap", binding):
            return next((found.what for found in KEYS if found.id == binding), "")
        case (name,):
            return _docs(Settings).get(name, "").replace("`", "")
    return ""


def listed() -> list[str]:
    """Every key that is always shown: all but those of methods, models and keys."""
    grouped = [key for keys in GROUPS.values() for key in keys]
    return [*grouped, *(key for key in PLAIN if key not in grouped)]
