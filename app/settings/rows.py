"""The settings as they are listed: in groups, each with what it is about, what it may be and when a change counts; what is
shown of each, and what was searched for."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...option import NEXT_ANSWER
from ..text.cells import fit, has_words, one_line
from .checks import catalog, method_params, theme_names
from .fields import OPTIONS, SERVER, is_chat_key
from .key_path import join, split
from .keymap import ALL as KEYS
from .precedence import Layers, Origin, default_of

WORDS = {
    "file": "file",
    "model": "this model",
    "environment": "environment",
    "command line": "command line",
    "preset": "preset",
    "chat": "this chat",
}
"""Kind of origin → what stands beside the value."""

DEFAULT = Origin("default", "default")

AS_FOR_ALL = "same as all"
"""What stands where a model has nothing of its own."""


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
    """Every setting but the keys, in groups; those of these decoding methods by name, or of all in the catalog."""
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
        case ("models" | "presets", _, *inner):
            return about(join(inner))
        case ("methods", method, name):
            return next((str(param["doc"]) for param in method_params(method) if param["name"] == name), "")
        case ("servers", _, name):
            return SERVER.get(name, "").replace("`", "")
        case ("keymap", binding):
            return next((found.what for found in KEYS if found.id == binding), "")
    return OPTIONS[key].help.replace("`", "") if key in OPTIONS else ""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A row of the list: a setting, a heading, or (neither) a blank one."""

    title: str = ""
    entry: ListedSetting | None = None
    key: str = ""
    """The key by which it is changed: with the model's name in front where it is one model's."""
    value: Any = None
    text: str = ""
    """The value on a line."""
    origin: Origin = DEFAULT
    mark: str = ""
    """Where it comes from in a word; empty at the default."""


def rows_of(layers: Layers, entries: Sequence[ListedSetting], query: str = "", model: str | None = None) -> list[SettingRow]:
    """Rows of the settings that have all words of a query in their name, description or value, below the headings of their
    groups. With a model, what it has of its own."""
    values = layers.values()
    name, table = layers.of_model(model)
    out: list[SettingRow] = []
    group = ""
    for entry in entries:
        if model is not None and not entry.per_model:
            continue
        row = _row(entry, layers, values) if model is None else _model_row(entry, layers, values, name, table)
        if not has_words(f"{entry.key} {entry.group} {entry.what} {row.text} {row.mark}", query):
            continue
        if entry.group != group:
            group = entry.group
            out += [SettingRow(), SettingRow(group)] if out else [SettingRow(group)]
        out.append(row)
    return out


def _row(entry: ListedSetting, layers: Layers, values: dict[str, Any]) -> SettingRow:
    origin = layers.origin(entry.key)
    value = values.get(entry.key, default_of(entry.key))
    return SettingRow(entry.key, entry, entry.key, value, shown(value), origin, WORDS.get(origin.kind, ""))


def _model_row(entry: ListedSetting, layers: Layers, values: dict[str, Any], name: str, table: dict[str, Any]) -> SettingRow:
    key = join(("models", name, *split(entry.key)))
    if entry.key in table:
        value = table[entry.key]
        origin = Origin("model", layers.place(layers.read.lines.get(key, 0)))
        return SettingRow(entry.key, entry, key, value, shown(value), origin, "this model")
    general = {**layers.read.values, **layers.read.environment}.get(entry.key, default_of(entry.key))
    origin = Origin("default", f"not set for this model: {shown(general)} as for all models")
    return SettingRow(entry.key, entry, key, None, AS_FOR_ALL, origin)


def detail(row: SettingRow) -> list[tuple[str, str]]:
    """What is said of a setting below the list: its lines, each with a style."""
    entry = row.entry
    assert entry is not None
    default = shown(default_of(entry.key))
    said = one_line(row.origin.said)
    own = row.origin.kind != "default" or row.text == AS_FOR_ALL
    parts = [
        f"default {default}",
        *([f"from {said}" if row.origin.kind != "default" else said] if own else []),
        f"applies {entry.when}",
    ]
    lines = [(one_line(entry.what), "$foreground"), (" · ".join(parts), "$quiet")]
    if entry.choices:
        lines.append((f"one of {', '.join(entry.choices)}", "$quiet"))
    return lines


def typed_form(value: Any) -> str:
    """A value as it is typed; `from_text` reads it again."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(json_module.dumps(each, ensure_ascii=False) for each in value) + "]" if value else ""
    return one_line(str(value)) if not str(value).isprintable() else str(value)


def shown(value: Any) -> str:
    """A value on a line, as people read it."""
    if value in (None, "", [], ()):
        return "–"
    if isinstance(value, list | tuple):
        return one_line(", ".join(json_module.dumps(each, ensure_ascii=False) for each in value))
    return one_line(word(value))


def word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def preset_summary(values: Mapping[str, Any]) -> str:
    """What a preset holds, on a line."""
    parts = []
    for key, value in values.items():
        match split(key):
            case ("system",):
                parts.append(f"“{fit(one_line(str(value)), 48)}”")
            case ("methods", _, _):
                continue
            case (*_, last):
                parts.append(f"{last}={shown(value)}")
    return "  ".join(parts) or "empty"
