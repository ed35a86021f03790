"""Checked reading of JSON from anywhere: errors name the place of what is missing or of the wrong type."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ... import plain_file
from ...errors import UserError
from ..text.cells import fit, one_line

MOST_BYTES = 200_000_000
"""Most bytes of a saved chat or race: an answer of 100,000 tokens with all its trees has some 100 MB."""

INT32 = 2**31 - 1
"""Largest value of the log's arrays: token ids, counts."""

W = TypeVar("W", bound=str)
Saved = TypeVar("Saved")

_REQUIRED = object()


class BadFile(Exception):
    """An invalid file; names the problem and its place."""


class OtherFormat(UserError):
    """A JSON file of another format."""

    def __init__(self, sentence: str, format: object) -> None:
        super().__init__(sentence)
        self.format = format
        """Value of its `format`, if any."""


class Table:
    """An object in the file, and its place there."""

    def __init__(self, data: Any, place: str = "") -> None:
        self.place = place
        if not isinstance(data, dict):
            raise BadFile(f"{place or 'it'} is not an object")
        self.data: dict[str, Any] = data

    def _place(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def _get(self, key: str, default: Any) -> tuple[Any, str]:
        place = self._place(key)
        if key not in self.data and default is _REQUIRED:
            raise BadFile(f"{place} is missing")
        return self.data.get(key, default), place

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        return _text(*self._get(key, default))

    def optional_text(self, key: str) -> str | None:
        return None if self.data.get(key) is None else self.text(key)

    def count(self, key: str, default: Any = _REQUIRED, least: int = 0, most: int = INT32) -> int:
        return _whole(*self._get(key, default), least, most)

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        """Return a number that is finite and not negative."""
        return _finite(*self._get(key, default))

    def like(self, key: str, example: Any) -> Any:
        """Return a value of the type of an example: a text on one line, numbers, a number or a count."""
        match example:
            case str():
                return one_line(self.text(key))
            case list():
                return self.numbers(key)
            case float():
                return self.number(key)
            case _:
                return self.count(key)

    def items(self, key: str, default: Any = _REQUIRED) -> Iterator[tuple[Any, str]]:
        """Return the items of a list with their places."""
        value, place = self._get(key, default)
        if not isinstance(value, list):
            raise BadFile(f"{place} is not a list")
        return ((item, f"{place}[{i}]") for i, item in enumerate(value))

    def counts(self, key: str, default: Any = _REQUIRED, least: int = 0) -> list[int]:
        value = self.data.get(key)
        if type(value) is list and value and {*map(type, value)} == {int} and least <= min(value) and max(value) <= INT32:
            return value  # checked at once: a long answer has a million of them
        return [_whole(item, place, least, INT32) for item, place in self.items(key, default)]

    def numbers(self, key: str, default: Any = _REQUIRED) -> list[float]:
        return [_finite(item, place) for item, place in self.items(key, default)]

    def texts(self, key: str, default: Any = _REQUIRED) -> list[str]:
        return [_text(item, place) for item, place in self.items(key, default)]

    def rows(self, key: str, size: int) -> list[list[int]]:
        """Return rows of `size` counts each; empty if the key is missing."""
        rows = [row for row, _ in self.items(key, [])]
        if not all(isinstance(row, list) and len(row) == size for row in rows):
            raise BadFile(f"{self._place(key)} is not a list of rows of {size} numbers")
        return [[_whole(item, self._place(key), 0, INT32) for item in row] for row in rows]

    def word(self, key: str, words: Sequence[W], default: W) -> W:
        for word in words:
            if word == self.data.get(key, default):
                return word
        raise BadFile(f"{self._place(key)} is none of {', '.join(words)}")

    def table(self, key: str, default: Any = _REQUIRED) -> Table:
        return Table(*self._get(key, default))

    def tables(self, key: str) -> Iterator[Table]:
        return (Table(item, place) for item, place in self.items(key))


def read(path: Path, kind: str, version: int, build: Callable[[Table], Saved]) -> Saved:
    """Read a file that specchat saved.

    Args:
        kind: its required `format`.
        version: newest readable version.
        build: builds the result from the object in the file.

    Raises:
        OtherFormat: it has another format.
        UserError: the file cannot be read, or `build` finds something wrong in it.
    """
    name = one_line(path.name)
    try:
        data = json.loads(plain_file.as_text(plain_file.read_bytes(path, MOST_BYTES), "strict"))
    except FileNotFoundError:
        raise UserError(f"There is no file {one_line(str(path))}. Check the name.") from None
    except IsADirectoryError:
        raise UserError(f"{one_line(str(path))} is a folder. Give a .json file written by /export.") from None
    except OSError as error:
        raise UserError(f"Cannot read {name}: {one_line(error.strerror or str(error))}.") from None
    except (ValueError, RecursionError) as error:
        why = one_line(str(error)) if isinstance(error, json.JSONDecodeError) else "it is not JSON"
        raise UserError(f"{name} is not a saved chat: {why}. Open a file written by /export json.") from None
    format = data.get("format") if isinstance(data, dict) else None
    if format is None:
        raise OtherFormat(f'{name} cannot be opened: it has no "format": "{kind}".', None)
    if format != kind:
        raise OtherFormat(f"{name} cannot be opened: its format is {fit(one_line(str(format)), 40)}, not {kind}.", format)
    try:
        table = Table(data)
        if (file_version := table.count("version", least=1)) <= version:
            return build(table)
    except BadFile as error:
        raise UserError(f"{name} cannot be opened: {one_line(str(error))}.") from None
    raise UserError(f"{name} has format version {file_version}, but this specchat reads {version}. Update specchat.")


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise BadFile(f"{place} is not a text")
    return value


def _whole(value: Any, place: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadFile(f"{place} is not a whole number from {least} to {most}")
    return value


def _finite(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadFile(f"{place} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise BadFile(f"{place} is not a number of 0 or more")
    return number
