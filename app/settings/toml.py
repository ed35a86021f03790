"""TOML files that people write: read with sentences that name the line, changed with their comments and order kept."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...plain_file import FULL, as_text, read_bytes, replacing
from ..text.amounts import short_path
from ..text.cells import one_line
from . import locations
from .key_path import split

# For a text that is TOML: on any other they may take time with its square.
_TEXT_OR_COMMENT = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#[^\n]*', re.DOTALL)
_PART = r'(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')'
_KEY_LINE = re.compile(
    rf"^[ \t]*(?P<table>\[\[?[ \t]*)?(?P<key>{_PART}(?:[ \t]*\.[ \t]*{_PART})*+)[ \t]*(?(table)\]|=)", re.MULTILINE
)


def read_text(path: Path) -> str | None:
    """What a file holds; None if there is none.

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
    """A file's tables.

    Raises:
        UserError: it is not TOML; names the file and the line.
    """
    try:
        found = tomllib.loads(text)
        repr(found)  # goes as deep as whoever walks through it: a key may have a thousand parts
        return found
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name}{_where(str(error), text)}. Correct that line or delete the file.") from None
    except (ValueError, RecursionError) as error:  # what Python makes no number of
        what = "a number in it is too long" if isinstance(error, ValueError) else "its tables are nested too deeply"
        raise UserError(f"{name} cannot be read as TOML: {what}.") from None


def leaves(
    table: Mapping[str, Any], tables: tuple[str, ...], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a parsed file with its key in parts. An empty table counts as a value, unless it is one of `tables`."""
    for name, value in table.items():
        parts = (*before, name)
        if isinstance(value, Mapping) and (value or parts[0] in tables):
            yield from leaves(value, tables, parts)
        else:
            yield parts, value


def each_value(text: str, name: str, tables: tuple[str, ...], take: Callable[[tuple[str, ...], Any, int], None]) -> list[str]:
    """Hand each value of the file `name` to `take`, with its key in parts and its line; return a sentence for each that it
    refuses by a UserError.

    Raises:
        UserError: the text is not TOML.
    """
    found, wrong = parse(text, name), list[str]()
    lines = line_numbers(text)
    for parts, value in leaves(found, tables):
        line = line_of(lines, parts)
        try:
            take(parts, value, line)
        except UserError as error:
            place = f"{name}, line {line}" if line else name
            wrong.append(one_line(f"{place}: {error} Correct or delete that line."))
    return wrong


def line_numbers(text: str) -> dict[tuple[str, ...], int]:
    """On which line, from 1, each key and each table is of a TOML text that `parse` has taken."""
    # What stands in a text of several lines is no key.
    plain = _TEXT_OR_COMMENT.sub(lambda found: "\n" * found[0].count("\n") or found[0], text)
    out: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    number, before = 1, 0
    for found in _KEY_LINE.finditer(plain):
        number += plain.count("\n", before, found.start())
        before = found.start()
        if found["table"]:
            table = split(found["key"])
        out.setdefault(table if found["table"] else (*table, *split(found["key"])), number)
    return out


def line_of(lines: Mapping[tuple[str, ...], int], parts: tuple[str, ...]) -> int:
    """The line of a key, or of the inline table that it is in; 0 if that is not known."""
    while parts:
        if parts in lines:
            return lines[parts]
        parts = parts[:-1]
    return 0


def rewrite(path: Path, text: str, changes: Mapping[tuple[str, ...], Any]) -> None:
    """Write a file's text with some keys, in parts, set or (None) removed; comments and order stay.

    Raises:
        UserError: the text is no TOML, or the file cannot be written.
    """
    import tomlkit  # 40 ms, and only a change needs it

    parse(text, short_path(path))
    document = tomlkit.parse(text)
    for parts, value in changes.items():
        put(document, parts, list(value) if isinstance(value, tuple) else value)
    # In an inline table or a dotted one tomlkit may leave what cannot be read again: better refused than written.
    new = tomlkit.dumps(document).rstrip("\n")
    new += "\n" if new else ""
    parse(new, short_path(path))
    write(path, new)


def put(table: Any, parts: tuple[str, ...], value: Any) -> None:
    """Set or (None) remove one key of a tomlkit document; tables are made as needed, and go when they are empty."""
    import tomlkit

    head, *rest = parts
    if not rest:
        if value is None:
            table.pop(head, None)
        elif (
            isinstance(value, str) and "\n" in value and not any(ord(letter) < 32 and letter not in "\n\t" for letter in value)
        ):
            table[head] = tomlkit.string(value, multiline=True)
        else:
            table[head] = value
        return
    if not hasattr(table.get(head), "keys"):
        if value is None:
            return
        # Without this a new [methods.lookup] would come with an empty [methods] above it.
        table[head] = tomlkit.table(is_super_table=len(rest) > 1)
    put(table[head], tuple(rest), value)
    if value is None and not len(table[head]) and not _comments(table[head]):
        table.pop(head)


def _comments(table: Any) -> bool:
    """Whether an empty table has comments, for which it stays."""
    return hasattr(table, "as_string") and "#" in table.as_string()


def write(path: Path, text: str) -> None:
    """Replace a file in one move; a link to it (dotfiles are often links) stays a link, and line ends and a mark at the
    beginning stay as they are.

    Raises:
        UserError: it cannot be written; the file is as it was.
    """
    target = path.resolve()
    locations.ensure(target.parent)
    try:
        data = _as_before(target, text).encode()
        with replacing(target) as file:
            file.write(data)
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or "it contains a character that UTF-8 cannot represent"
        mend = "Free some space there." if getattr(error, "errno", None) in FULL else "Make its folder writable."
        raise UserError(f"Cannot write {short_path(path)} ({reason}). {mend}") from None


def _as_before(path: Path, text: str) -> str:
    """A text with the line ends and the byte order mark of what is in the file now."""
    try:
        before = read_bytes(path)
    except OSError:
        return text
    text = text.replace("\n", "\r\n") if b"\r\n" in before else text
    return "\ufeff" + text if before.startswith(b"\xef\xbb\xbf") else text


def _where(error: str, text: str) -> str:
    """', line 3: Expected …' out of tomllib's 'Expected … (at line 3, column 5)'."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", error, re.DOTALL)
    if not found:
        return f" is not TOML: {error}"
    line = found[2] or max(1, len(text.splitlines()))
    return f", line {line}, is not TOML: {found[1][:1].lower()}{found[1][1:]}"
