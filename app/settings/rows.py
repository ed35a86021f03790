"""The settings as they are listed: what is shown of each, and what was searched for."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..text.cells import one_line
from .key_path import join, split
from .keymap import spell
from .precedence import Layers, Origin, default_of
from .table import ListedSetting

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
    words = query.casefold().split()
    out: list[SettingRow] = []
    group = ""
    for entry in entries:
        if model is not None and not entry.per_model:
            continue
        row = _row(entry, layers, values) if model is None else _model_row(entry, layers, values, name, table)
        if words:
            text = f"{entry.key} {entry.group} {entry.what} {row.text} {row.mark}".casefold()
            if not all(word in text for word in words):
                continue
        if entry.group != group:
            group = entry.group
            out += [SettingRow(), SettingRow(group)] if out else [SettingRow(group)]
        out.append(row)
    return out


def _row(entry: ListedSetting, layers: Layers, values: dict[str, Any]) -> SettingRow:
    origin = layers.origin(entry.key)
    value = values.get(entry.key, default_of(entry.key))
    return SettingRow(entry.key, entry, entry.key, value, text_of(entry, value), origin, WORDS.get(origin.kind, ""))


def _model_row(entry: ListedSetting, layers: Layers, values: dict[str, Any], name: str, table: dict[str, Any]) -> SettingRow:
    key = join(("models", name, *split(entry.key)))
    if entry.key in table:
        value = table[entry.key]
        origin = Origin("model", layers.place(layers.read.lines.get(key, 0)))
        return SettingRow(entry.key, entry, key, value, text_of(entry, value), origin, "this model")
    general = {**layers.read.values, **layers.read.environment}.get(entry.key, default_of(entry.key))
    origin = Origin("default", f"not set for this model: {text_of(entry, general)} as for all models")
    return SettingRow(entry.key, entry, key, None, AS_FOR_ALL, origin)


def text_of(entry: ListedSetting, value: Any) -> str:
    """A value on a line."""
    if split(entry.key)[0] == "keymap":
        return one_line(spell(str(value)))
    return shown(value)


def detail(row: SettingRow) -> list[tuple[str, str]]:
    """What is said of a setting below the list: its lines, each with a style."""
    entry = row.entry
    assert entry is not None
    default = text_of(entry, default_of(entry.key))
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
