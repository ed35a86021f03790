"""TOML files that people write: read with sentences that name the line, changed with their comments and order kept."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...plain_file import FULL, as_text, read_bytes, replacing
from ..text.amounts import short_path
from . import locations
from .key_path import split

Parts = tuple[str, ...]
"""A key in parts, as `key_path.split` gives it."""

_LONG_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
_TABLE = re.compile(r"\s*\[\[?(.+?)\]\]?\s*(?:#.*)?")


def read_text(path: Path) -> str | None:
    """Read a file; None if there is none.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return as_text(read_bytes(path), "strict").replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UserError(f"{short_path(path)} is not UTF-8 text. Save it as UTF-8 or delete it.") from None
    except OSError as error:
        raise UserError(f"Cannot read {short_path(path)} ({error.strerror}). Make it a readable file.") from None


def parse(text: str, name: str) -> dict[str, Any]:
    """Parse a file's tables.

    Raises:
        UserError: it is not TOML; names the file and the line.
    """
    try:
        tables = tomllib.loads(text)
        repr(tables)  # recurses as deeply as any walk through it: a key may have a thousand parts
        return tables
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name} is not TOML: {error}. Correct that line or delete the file.") from None
    except (ValueError, RecursionError) as error:
        reason = "a number in it is too long" if isinstance(error, ValueError) else "its tables are nested too deeply"
        raise UserError(f"{name} cannot be read as TOML: {reason}.") from None


def leaves(table: Mapping[str, Any], tables: tuple[str, ...], above: Parts = ()) -> Iterator[tuple[Parts, Any]]:
    """Yield every value of a parsed file with its key. An empty table counts as a value, unless it is one of `tables`."""
    for name, value in table.items():
        parts = (*above, name)
        if isinstance(value, Mapping) and (value or parts[0] in tables):
            yield from leaves(value, tables, parts)
        else:
            yield parts, value


def key_lines(text: str) -> dict[Parts, int]:
    """Find the line, from 1, of each key and each table in a TOML text; a key in an inline table has none."""
    lines: dict[Parts, int] = {}
    table: Parts = ()
    plain = _LONG_TEXT.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(plain.split("\n"), 1):
        if header := _TABLE.fullmatch(line):
            table = split(header[1])
            lines.setdefault(table, number)
        elif key := split(line.partition("=")[0].strip()):
            lines.setdefault((*table, *key), number)
    return lines


def rewrite(path: Path, text: str, changes: Mapping[Parts, Any]) -> None:
    """Write a file's text with some keys set or (None) removed; comments and order stay.

    Raises:
        UserError: the text is not TOML, or the file cannot be written.
    """
    import tomlkit  # 40 ms, and only a change needs it

    parse(text, short_path(path))
    document = tomlkit.parse(text)
    for parts, value in changes.items():
        put(document, parts, list(value) if isinstance(value, tuple) else value)
    # In an inline or a dotted table tomlkit may leave something that cannot be read again: refuse it, the file stays.
    new = tomlkit.dumps(document).rstrip("\n")
    new += "\n" if new else ""
    parse(new, short_path(path))
    write(path, new)


def put(table: Any, parts: Parts, value: Any) -> None:
    """Set or (None) remove one key of a tomlkit document; tables are made as needed, and go when they are empty."""
    import tomlkit

    name, *rest = parts
    if not rest and value is None:
        table.pop(name, None)
    elif not rest:
        readable = isinstance(value, str) and "\n" in value and re.sub(r"[\n\t]", "", value).isprintable()
        table[name] = tomlkit.string(value, multiline=True) if readable else value
    elif hasattr(table.get(name), "keys") or value is not None:
        if not hasattr(table.get(name), "keys"):
            # Without `is_super_table` a new [methods.lookup] would come with an empty [methods] above it.
            table[name] = tomlkit.table(is_super_table=len(rest) > 1)
        inner = table[name]
        put(inner, tuple(rest), value)
        if value is None and not inner and "#" not in getattr(inner, "as_string", str)():  # comments keep a table
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
            file.write(text.encode())
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or "it contains a character that UTF-8 cannot represent"
        fix = "Free some space there." if getattr(error, "errno", None) in FULL else "Make its folder writable."
        raise UserError(f"Cannot write {short_path(path)} ({reason}). {fix}") from None
