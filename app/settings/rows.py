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

NAMES = {
    **{"dtype": "Data type", "draft_dtype": "Draft data type", "draft_threads": "Draft threads", "exact": "Equal bits"},
    **{"revision": "Hub revision", "backend": "Runtime", "gpu_layers": "GPU layers", "kv_type": "KV cache type"},
    **{"accept": "Acceptance rule", "max_tokens": "Token limit", "stop": "Stop texts"},
    **{"stop_loops": "Stop endless repetition", "schema": "JSON schema", "json_object": "Any JSON object"},
    **{"think": "Thinking", "think_budget": "Longest thought", "template_var": "Template variables", "past": "Past answers"},
    **{"system": "System prompt", "panel": "Side panel", "notify": "Notifications", "sampling.min_p": "Min-p"},
    **{"sampling.top_k": "Top-k", "sampling.top_p": "Top-p", "model_folders": "Folders of models"},
}
"""Names of settings, where they are not the last word of the key."""

UNSET = {
    **{"draft_device": "the model's", "draft_dtype": "the model's", "draft_threads": "the model's, in turns"},
    **{"context": "the model's own limit", "threads": "all physical cores", "chat_template": "the model's own"},
    **{"gpu_layers": "all, if there is a GPU", "method": "what suits the model", "max_tokens": "until the context is full"},
    **{"think": "as the model does", "think_budget": "no limit", "editor": "$VISUAL or $EDITOR", "revision": "the main one"},
}
"""Words for the value in force where a setting is not set."""

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
    """The setting's key, or the heading."""
    name: str = ""
    """The setting's name in words."""
    entry: ListedSetting | None = None
    value: Any = None
    text: str = ""
    """The value on a line."""
    origin: Origin = DEFAULT
    mark: str = ""
    """Where it comes from in a word; empty at the default."""


def rows_of(
    layers: Layers, entries: Sequence[ListedSetting], query: str = "", chosen: Mapping[str, str] | None = None
) -> list[SettingRow]:
    """Rows of the settings that have all words of a query in their name, description or value, below the headings of their
    groups. `chosen` has what was chosen where a setting leaves that open, by key."""
    values = layers.values()
    out: list[SettingRow] = []
    group = ""
    for entry in entries:
        row = _row(entry, layers, values, chosen or {})
        if not has_words(f"{row.name} {entry.key} {entry.group} {entry.what} {row.text} {row.mark}", query):
            continue
        if entry.group != group:
            group = entry.group
            out += [SettingRow(), SettingRow(group)] if out else [SettingRow(group)]
        out.append(row)
    return out


def _row(entry: ListedSetting, layers: Layers, values: dict[str, Any], chosen: Mapping[str, str]) -> SettingRow:
    key, origin = entry.key, layers.origin(entry.key)
    value = values.get(key, default_of(key))
    text = in_force(key, value)
    if chosen.get(key) and value in (None, "", (), [], "auto"):
        text = f"{chosen[key]} ({text})" if value == "auto" else chosen[key]
    name = NAMES.get(key) or split(key)[-1].replace("_", " ").capitalize()
    return SettingRow(key, name, entry, value, text, origin, WORDS.get(origin.kind, ""))


def detail(row: SettingRow) -> list[tuple[str, str]]:
    """What is said of a setting below the list: its lines, each with a style."""
    entry = row.entry
    assert entry is not None
    default = in_force(entry.key, default_of(entry.key))
    source = [f"from {one_line(row.origin.said)}"] if row.origin.kind != "default" else []
    parts = [entry.key, f"default {default}", *source, f"applies {entry.when}"]
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


def in_force(key: str, value: Any) -> str:
    """A setting's value on a line; where none is set, what counts then."""
    return UNSET.get(key, "none") if value in (None, "", [], ()) else shown(value)


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
