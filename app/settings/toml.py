"""Dotted keys, and TOML files that people write: read with sentences that help, changed with their comments and order kept.

A dotted key is written as in TOML: `sampling.top_k`, `models."Qwen/Qwen3-0.6B".method`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...plain_file import FULL, as_text, read_bytes, replacing
from ..text.amounts import short_path
from . import locations

Parts = tuple[str, ...]
"""A key in parts, as `split` gives it."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def join(parts: Iterable[str]) -> str:
    """Write parts as one key; those with dots, spaces or the like in quotes."""
    return ".".join(
        part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False).replace("\x7f", r"\u007f") for part in parts
    )


@lru_cache(4096)
def split(key: str) -> Parts:
    """Split a key into its parts; () if it is none (a quote that is not closed, an empty part)."""
    try:
        table: Any = tomllib.loads(f"{key} = true")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    parts: list[str] = []
    while isinstance(table, dict):
        if len(table) != 1:  # several lines
            return ()
        part, table = next(iter(table.items()))
        parts.append(part)
    return tuple(parts) if table is True else ()


def read_text(path: Path) -> str:
    """Read a file; an empty text if there is none.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return as_text(read_bytes(path), "strict").replace("\r\n", "\n")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"Cannot read {short_path(path)} ({reason}). Correct it or delete it.") from None


def parse(text: str, name: str) -> dict[str, Any]:
    """Parse a file's tables.

    Raises:
        UserError: it is not TOML; names the file and the line.
    """
    try:
        tables = tomllib.loads(text)
        repr(tables)  # recurses as deeply as any walk through it: a key may have a thousand parts
        return tables
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "its tables are nested too deeply"
        raise UserError(f"{name} is not TOML: {reason}. Correct that line or delete the file.") from None


def leaves(table: Mapping[str, Any], above: Parts = ()) -> Iterator[tuple[Parts, Any]]:
    """Yield every value of a parsed file with its key."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def rewrite(path: Path, changes: Mapping[Parts, Any]) -> None:
    """Write a file with some keys set or (None) removed; comments and order stay.

    Raises:
        UserError: the file is not TOML, or cannot be read or written.
    """
    import tomlkit  # 40 ms, and only a change needs it

    text = read_text(path)
    parse(text, short_path(path))
    document = tomlkit.parse(text)
    for parts, value in changes.items():
        _put(document, parts, list(value) if isinstance(value, tuple) else value)
    text = tomlkit.dumps(document).rstrip("\n")
    parse(text, short_path(path))  # in an inline or a dotted table tomlkit may leave what cannot be read again
    write(path, text + "\n" if text else "")


def _put(table: MutableMapping[str, Any], parts: Parts, value: Any) -> None:
    """Set or (None) remove one key of a tomlkit document; tables are made as needed, and go when they are empty."""
    import tomlkit

    name, *rest = parts
    if not rest:
        table.pop(name, None) if value is None else table.update({name: value})
    elif isinstance(table.get(name), MutableMapping) or value is not None:
        if not isinstance(table.get(name), MutableMapping):
            # Without `is_super_table` a new [methods.lookup] would come with an empty [methods] above it.
            table[name] = tomlkit.table(is_super_table=len(rest) > 1)
        _put(table[name], tuple(rest), value)
        if not table[name]:
            table.pop(name)


def write(path: Path, text: str) -> None:
    """Replace a file in one move; a link to it (dotfiles are often links) stays a link.

    Raises:
        UserError: it cannot be written; the old file stays.
    """
    target = path.resolve()
    locations.ensure(target.parent)
    try:
        with replacing(target) as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        fix = "Free some space there." if error.errno in FULL else "Make its folder writable."
        raise UserError(f"Cannot write {short_path(path)} ({error.strerror}). {fix}") from None
