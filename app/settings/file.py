"""The settings as values by dotted key: read from the file, checked, merged, written back.

Settings are addressed by dotted keys, the same in the file, in changes made by the chat, and in messages: `theme`,
`sampling.temperature`, `methods.lookup.max_draft`, `keymap.next_method`, `models."owner/name".method`. `precedence.py` decides
which value counts where several are given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..text.amounts import short_path
from ..text.cells import one_line
from . import locations
from .fields import NESTED, Settings, Values, checked
from .toml import join, leaves, parse, read_text, rewrite, split


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The checked values of the settings file."""

    path: Path
    values: Values = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """A sentence for each value that is wrong; all others count."""


def merged(settings: Settings, changes: Values) -> Settings:
    """Return settings with some of them changed to values that are checked already."""
    fields: dict[str, Any] = {"keymap": dict(settings.keymap)}
    for table in NESTED:
        fields[table] = {name: dict(values) for name, values in getattr(settings, table).items()}
    sampling: dict[str, Any] = {}
    for key, value in changes.items():
        match split(key):
            case (name,):
                fields[name] = value
            case ("sampling", name):
                sampling[name] = value
            case ("keymap", binding):
                fields["keymap"][binding] = value
            case (table, name, *inner):
                fields[table].setdefault(name, {})[join(inner)] = value
    return replace(settings, **fields, sampling=replace(settings.sampling, **sampling))


def read(path: Path | None = None) -> ReadSettings:
    """Read the settings file (the user's own if None). Never raises: wrong values are left out and become problems."""
    path = path or locations.settings_file()
    values: dict[str, object] = {}
    problems: list[str] = []
    try:
        for parts, value in leaves(parse(read_text(path), short_path(path))):
            key = join(parts)
            try:
                values[key] = checked(key, value)
            except UserError as error:
                problems.append(one_line(f"{short_path(path)}: {error} Correct or delete that line."))
    except UserError as error:
        problems.append(str(error))
    return ReadSettings(path, values, tuple(problems))


def save(changes: Values, path: Path | None = None) -> None:
    """Write changes into the settings file (the user's own if None), all or nothing; comments and order stay.

    Each dotted key has a value, or None to remove it, so that its default applies again.

    Raises:
        UserError: a value is wrong, the file is not TOML as it is, or it cannot be written.
    """
    values = {split(key): None if value is None else checked(key, value) for key, value in changes.items()}
    rewrite(path or locations.settings_file(), values)
