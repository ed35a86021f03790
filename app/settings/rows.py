"""The settings as they are listed: in groups, each with what it is about, what it may be and when a change counts; what is
shown of each, and what was searched for."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...option import NEXT_ANSWER
from ..text.cells import fit, has_words, one_line
from .checks import catalog, theme_names
from .fields import OPTIONS
from .key_path import join, split
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


def entries(methods: Mapping[str, Any]) -> list[ListedSetting]:
    """Every setting but the keys, in groups; those of these decoding methods by name."""
    out = [_plain(key) for key in OPTIONS]
    for name, method in methods.items():
        for param in method.params:
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
    return ListedSetting(key, said.group, said.help.replace("`", ""), said.when, choices)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A row of the list: a setting, a heading, or (neither) a blank one."""

    title: str = ""
    entry: ListedSetting | None = None
    value: Any = None
    text: str = ""
    """The value on a line."""
    origin: Origin = DEFAULT
    mark: str = ""
    """Where it comes from in a word; empty at the default."""


def rows_of(layers: Layers, entries: Sequence[ListedSetting], query: str = "") -> list[SettingRow]:
    """Rows of the settings that have all words of a query in their name, description or value, below the headings of their
    groups."""
    values = layers.values()
    out: list[SettingRow] = []
    group = ""
    for entry in entries:
        row = _row(entry, layers, values)
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
    return SettingRow(entry.key, entry, value, shown(value), origin, WORDS.get(origin.kind, ""))


def detail(row: SettingRow) -> list[tuple[str, str]]:
    """What is said of a setting below the list: its lines, each with a style."""
    entry = row.entry
    assert entry is not None
    default = shown(default_of(entry.key))
    source = [f"from {one_line(row.origin.said)}"] if row.origin.kind != "default" else []
    parts = [f"default {default}", *source, f"applies {entry.when}"]
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
