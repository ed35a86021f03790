"""Presets: a name for a system prompt, method, sampling, limits and stop strings. One TOML file each, in the config folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UserError, did_you_mean
from ..text.amounts import short_path
from ..text.cells import fit, one_line
from . import locations
from .checks import checked
from .fields import CHAT_KEYS, is_chat_key
from .key_path import join, split
from .toml import each_value, leaves, parse, read_text, rewrite, write

ABOUT = "about"
"""A line on what a preset is for; the only key that no setting has."""

DELETED = ".deleted"
"""Folder beside the presets, where a deleted one lies until another of its name is deleted."""

MOST_CELLS = 40
"""Longest name of a preset."""

_NAME = re.compile(r"[^\W_][\w .+-]*", re.UNICODE)
_TABLES = ("methods", "sampling")


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset as its file has it; what is wrong in it is left out and told."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """Dotted key of a setting → its value."""
    about: str = ""
    problems: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What the preset is for, or what it holds, on a line."""
        if self.about:
            return one_line(self.about)
        parts = []
        for key, value in self.values.items():
            match split(key):
                case ("system",):
                    parts.append(f"“{fit(one_line(str(value)), 48)}”")
                case ("methods", _, _):
                    continue
                case (*_, last):
                    shown = ", ".join(map(repr, value)) if isinstance(value, tuple) else value
                    parts.append(one_line(f"{last}={shown}"))
        return "  ".join(parts) or "empty"


def folder() -> Path:
    return locations.config_folder() / "presets"


def clean_name(name: str) -> str:
    """A preset's name, which a file can have everywhere.

    Raises:
        UserError: it is none.
    """
    name = " ".join(name.split())
    if not _NAME.fullmatch(name) or name.endswith(".") or len(name) > MOST_CELLS:
        raise UserError(
            f"A preset's name consists of letters, digits, spaces, dots, + and - (at most {MOST_CELLS}) and starts with a "
            f"letter or a digit, unlike {fit(one_line(name), MOST_CELLS)!r}."
        )
    return name


def names() -> list[str]:
    try:
        found = [path.stem for path in folder().glob("*.toml")]
    except OSError:
        return []
    return sorted((name for name in found if _is_name(name)), key=str.casefold)


def _is_name(name: str) -> bool:
    try:
        return clean_name(name) == name
    except UserError:
        return False


def path_of(name: str) -> Path:
    """The file of a preset.

    Raises:
        UserError: the name is none.
    """
    return folder() / f"{clean_name(name)}.toml"


def presets() -> list[Preset]:
    """Every preset; one whose file cannot be used is there with what is wrong, and without values."""
    out = []
    for name in names():
        try:
            out.append(read_preset(name))
        except UserError as error:
            out.append(Preset(name, problems=(str(error),)))
    return out


def read_preset(name: str) -> Preset:
    """A preset. Keys of it that are no settings are told in its `problems`, with their lines; the rest counts.

    Raises:
        UserError: there is none of this name (with the nearest), or its file is no TOML.
    """
    path = path_of(name)
    text = read_text(path)
    if text is None:
        known = names()
        hint = did_you_mean(name, known) if known else "there are none yet. Make one in the chat with /preset save NAME."
        raise UserError(f"There is no preset {fit(one_line(name), MOST_CELLS)}: {hint}")
    return preset_of(path.stem, text, short_path(path))


def preset_of(name: str, text: str, place: str) -> Preset:
    """The preset in a file's text; `place` is the file's name for messages.

    Raises:
        UserError: it is no TOML; names the line.
    """
    values: dict[str, Any] = {}
    about: list[str] = []

    def take(parts: tuple[str, ...], value: Any, line: int) -> None:
        key = join(parts)
        if parts == (ABOUT,):
            if not isinstance(value, str):
                raise UserError(f"{ABOUT} takes a text in quotes, not {value!r}")
            about.append(value)
        elif is_chat_key(parts):
            values[key] = checked(key, value, key)
        else:
            known = [ABOUT, *CHAT_KEYS]
            there = f"choose from {', '.join(known)}, [methods.NAME]."
            raise UserError(f"a preset has no {key}: {did_you_mean(key, known, there)}")

    problems = each_value(text, place, _TABLES, take)
    return Preset(name, values, "".join(about), tuple(problems))


def save_preset(name: str, values: Mapping[str, Any]) -> Path:
    """Write a preset: values by dotted keys of the settings. Where there is one of that name, its comments and order stay, and
    what `values` lacks goes.

    Raises:
        UserError: the name is none, or the file cannot be written.
    """
    path = path_of(name)
    text = read_text(path) or ""
    try:
        before = dict(leaves(parse(text, short_path(path)), _TABLES))
    except UserError:  # it was no TOML: what was in it cannot be kept
        text, before = "", {}
    changes: dict[tuple[str, ...], Any] = {parts: None for parts in before if parts != (ABOUT,)}
    for parts, value in sorted(((split(key), value) for key, value in values.items()), key=lambda item: len(item[0])):
        changes.pop(parts, None)
        if before.get(parts) != (list(value) if isinstance(value, tuple) else value):
            changes[parts] = value  # tables come after plain values
    rewrite(path, text, changes)
    return path


def save_text(name: str, text: str) -> Preset:
    """Write a preset as it was typed.

    Raises:
        UserError: it is no TOML or says something that a preset does not have; nothing is written.
    """
    found = preset_of(clean_name(name), text, f"{name}.toml")
    if found.problems:
        raise UserError(found.problems[0])
    write(path_of(name), text if text.endswith("\n") or not text else text + "\n")
    return found


def delete_preset(name: str) -> str:
    """Take a preset away; `restore_preset` brings it back. Returns its name.

    Raises:
        UserError: there is none, or its file cannot be moved.
    """
    path = path_of(name)
    if not path.exists():
        read_preset(name)  # says which there are
    _move(path, locations.ensure(folder() / DELETED) / path.name, "delete")
    return path.stem


def restore_preset(name: str) -> str:
    """Bring a deleted preset back. Returns its name.

    Raises:
        UserError: it is not there, or another one has its name by now.
    """
    path = path_of(name)
    kept = folder() / DELETED / path.name
    if path.exists():
        raise UserError(f"There is a new preset {path.stem}. Delete or rename it first.")
    if not kept.exists():
        raise UserError(f"There is no deleted preset {path.stem}.")
    _move(kept, path, "restore")
    return path.stem


def rename_preset(name: str, new: str) -> str:
    """Give a preset another name; returns that.

    Raises:
        UserError: the new name is none or taken, or the file cannot be moved.
    """
    path, target = path_of(name), path_of(new)
    if target.exists() and path != target:
        raise UserError(f"There is already a preset {target.stem}. Choose another name.")
    _move(path, target, "rename")
    return target.stem


def _move(path: Path, target: Path, what: str) -> None:
    try:
        path.replace(target)
    except OSError as error:
        raise UserError(f"Cannot {what} {short_path(path)} ({error.strerror}). Make its folder writable.") from None


def last_deleted() -> str:
    """Name of the preset that was deleted last; '' if none was."""
    try:
        found = [(path.stat().st_ctime_ns, path.stem) for path in (folder() / DELETED).glob("*.toml")]
    except OSError:
        return ""
    return max(found)[1] if found else ""
