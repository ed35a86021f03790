"""The list of settings: in groups, each with its description, its value, the source of that, and the moment when a change
applies. Also words for values."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...engine.options import ConstraintFields
from ...option import Option, declared_options
from ..text.cells import fit, has_words, one_line
from .fields import OPTIONS, Values
from .precedence import DEFAULT, Layers, Origin, OriginKind
from .toml import join, split

MARKS: Mapping[OriginKind, str] = {"file": "file", "model": "this model", "chat": "this chat"}
"""Kind of source → the word next to the value, where it is another one; none at the default."""


def entries(methods: Iterable[str]) -> dict[str, Option]:
    """List every setting but the keys, in groups, with those of these decoding methods: key → option."""
    from ...engine.catalog import methods as known_methods

    listed = dict(OPTIONS)
    for method in methods:
        drafter = known_methods().get(method)  # a server's method is not among them, and has no settings
        for name, option in declared_options(drafter.Params).items() if drafter is not None else ():
            listed[join(("methods", method, name))] = replace(option, group=f"Method {method}")
    return listed


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A row of the list: a setting, a heading, or (neither) a blank one."""

    key_or_heading: str = ""
    """The setting's key, or the heading."""
    name: str = ""
    """The setting's name in words."""
    option: Option | None = None
    value: Any = None
    text: str = ""
    """The value on a line."""
    origin: Origin = DEFAULT

    @property
    def mark(self) -> str:
        """The source in a word; empty at the default."""
        kind = self.origin.kind
        return "" if kind in ("default", "makers") else MARKS.get(kind, kind)


def setting_rows(
    layers: Layers, settings: Mapping[str, Option], query: str = "", chosen: Mapping[str, str] | None = None
) -> list[SettingRow]:
    """List the settings that have all words of a query in their name, description or value, below the headings of their groups.
    `chosen` has, by key, the value that the program chose for a setting that leaves it open."""
    values = layers.values()
    rows: list[SettingRow] = []
    group = ""
    for key, option in settings.items():
        value = values.get(key, option.default)
        text = in_force(option, value)
        if (choice := (chosen or {}).get(key)) and value in (None, "", (), [], "auto"):
            text = f"{choice} ({text})" if value == "auto" else choice
        name = option.title or split(key)[-1].replace("_", " ").capitalize()
        row = SettingRow(key, name, option, value, text, layers.origin(key))
        if not has_words(f"{name} {key} {option.group} {option.help} {text} {row.mark}", query):
            continue
        if option.group != group:
            group = option.group
            rows += [SettingRow(), SettingRow(group)] if rows else [SettingRow(group)]
        rows.append(row)
    return rows


def detail(row: SettingRow) -> list[tuple[str, str]]:
    """Describe a setting below the list: lines, each with a style."""
    option = row.option
    assert option is not None
    source = [f"from {one_line(row.origin.place)}"] if row.origin.kind != "default" else []
    parts = [row.key_or_heading, f"default {in_force(option, option.default)}", *source, f"applies {option.when}"]
    lines = [(one_line(option.help.replace("`", "")), "$foreground"), (" · ".join(parts), "$quiet")]
    if option.words:
        lines.append((f"one of {', '.join(option.words)}", "$quiet"))
    return lines


def typed_form(value: Any) -> str:
    """Write a value as people type it; `Option.parse` reads it again."""
    if isinstance(value, list | tuple):
        return f"[{shown(value)}]" if value else ""
    return "" if value is None else one_line(word(value))


def in_force(option: Option, value: Any) -> str:
    """Write the value in force on a line, also where none is set."""
    return shown(value, option.unset or "none")


def shown(value: Any, unset: str = "–") -> str:
    """Write a value on a line, as people read it."""
    if value in (None, "", [], ()):
        return unset
    if isinstance(value, list | tuple):
        return one_line(", ".join(json_module.dumps(text, ensure_ascii=False) for text in value))
    return one_line(word(value))


def word(value: Any) -> str:
    """Write a single value as TOML has it, without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def preset_summary(values: Values) -> str:
    """Summarise a preset on a line."""
    return "  ".join(f"{split(key)[-1]}={fit(shown(value), 48)}" for key, value in values.items()) or "empty"


def constraint_name(constraint: ConstraintFields | None) -> str:
    """Name a constraint on answers in a word or two, for headers; empty for none."""
    from ...engine.catalog import parse_constraint

    named = parse_constraint(constraint)
    return named.name if named is not None else ""
