"""JSON of any size, a record at a time: lines, the elements of an array, or one value after the other.

What is too long or broken is named and passed over; what follows is read all the same. Memory holds one record.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

CHUNK = 1 << 20

MOST_BYTES = 64 << 20
"""Of one record: conversations of that size are broken files."""

_SPACE = b" \t\r\n"
_BODY = rb'(?:[^"\\]++|\\.)*+"'
_AT_BASE = re.compile(rb'"' + _BODY + rb'|["{}\[\],]', re.DOTALL)
_INSIDE = re.compile(rb'"' + _BODY + rb'|["{}\[\]]', re.DOTALL)
"""A whole string, or a mark; a quote alone begins a string that goes on beyond these bytes."""
_REST = re.compile(_BODY, re.DOTALL)
_ESCAPES = re.compile(rb"\\*\Z")


class Source(Protocol):
    """Bytes in order."""

    def read(self, size: int = -1, /) -> bytes:
        """The next ones; empty at the end."""


@dataclass(frozen=True, slots=True)
class Record:
    """A value out of a file: where it stands, and the value, or why there is none."""

    place: str
    data: Any = None
    why: str = ""
    group: int = 0
    """Which of the values at the top of the file it is in, from 1; 0 where it is one of them itself."""


class Bytes:
    """A file with what was looked at put back; as UTF-8, whatever it was in."""

    def __init__(self, file: Source) -> None:
        self._file = file
        start = file.read(4)
        self._decoder: codecs.IncrementalDecoder | None = None
        for mark, name in (
            (codecs.BOM_UTF8, ""),
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF32_BE, "utf-32-be"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
        ):
            if start.startswith(mark):
                start = start[len(mark) :]
                self._decoder = codecs.getincrementaldecoder(name)("replace") if name else None
                break
        self._held = self._utf8(start)
        self._at = 0  # what is held before this is used up

    def read(self) -> bytes:
        """The next bytes; empty at the end."""
        held, self._held, self._at = self._held[self._at :], b"", 0
        while not held and (data := self._file.read(CHUNK)):
            held = self._utf8(data)
        return held

    def back(self, data: bytes) -> None:
        """Put bytes back."""
        self._held, self._at = data + self._held[self._at :], 0

    def line(self) -> tuple[bytes, bool]:
        """The next line with its newline, and whether it is whole: a longer one is passed over. b"" at the end of the file."""
        parts: list[bytes] = []
        length = 0
        while True:
            if self._at >= len(self._held):
                self._held, self._at = self.read(), 0
                if not self._held:
                    break
            end = self._held.find(b"\n", self._at)
            stop = end + 1 if end >= 0 else len(self._held)
            length += stop - self._at
            if length <= MOST_BYTES:
                parts.append(self._held[self._at : stop])
            self._at = stop
            if end >= 0:
                break
        return b"".join(parts) if length <= MOST_BYTES else b"\n", length <= MOST_BYTES

    def _utf8(self, data: bytes) -> bytes:
        return self._decoder.decode(data).encode("utf-8", "replace") if self._decoder else data


def records(file: Source) -> Iterator[Record]:
    """The records of a JSON or JSON-lines file."""
    source = Bytes(file)
    begin = b""
    blank = 0
    while data := source.read():
        begin = data.lstrip(_SPACE)
        blank += data[: len(data) - len(begin)].count(b"\n")
        if begin:
            source.back(begin)
            break
    if not begin:
        return
    if begin[:1] == b"{":
        first, whole = source.line()
        second, also = source.line() if whole else (b"", True)
        parsed = _parsed(first)[1] == "" if whole else True
        spread = second.strip() in (b"{", b"[")  # values over several lines each, after an empty one
        if not spread and (parsed or (first.rstrip().endswith(b"}") and second.lstrip()[:1] == b"{")):
            yield from _lines(source, [(first, whole), (second, also)] if second else [(first, whole)], blank)
            return
        source.back(first + second)
    yield from _values(source)


def _lines(source: Bytes, begin: list[tuple[bytes, bool]], number: int) -> Iterator[Record]:
    """A record a line; the first lines were read already, and blank ones before them, so many as `number` says."""
    while True:
        line, whole = begin.pop(0) if begin else source.line()
        if not line:
            return
        number += 1
        if not whole:
            yield Record(f"line {number}", why=_too_long())
        elif line.strip():
            data, why = _parsed(line)
            yield Record(f"line {number}", data, why)


def _values(source: Bytes) -> Iterator[Record]:
    """Values one after the other; of an array, its elements."""
    group = number = 0  # arrays at the top, and records, so far
    depth = base = 0  # brackets that are open; 1: those of the array at the top are not the record's
    in_string = escaped = False  # a string goes on from the bytes before; its first character now is escaped
    held = _Held()

    def finished(end: str = "") -> Iterator[Record]:
        nonlocal number
        text, long = held.take()
        if not long and not text.strip():
            return
        number += 1
        within = group if base else 0
        if long:
            yield Record(f"record {number}", why=_too_long(), group=within)
            return
        data, why = _parsed(text)
        yield Record(f"record {number}", data, (end or why) if why else "", within)

    while data := source.read():
        begin = at = 0  # the record's first byte in here; where to look on
        if in_string:
            found = _REST.match(data, min(1, len(data)) if escaped else 0)
            if found is None:
                escaped = _odd(data, 1 if escaped else 0)
                held.add(data)
                continue
            in_string = escaped = False
            at = found.end()
        while found := (_AT_BASE if depth == base else _INSIDE).search(data, at):
            mark, start, at = data[found.start()], found.start(), found.end()
            if mark == 0x22:  # a string; alone, one that goes on
                if at == start + 1:
                    in_string, escaped = True, _odd(data, at)
                    break
            elif mark in b"{[":
                if mark == 0x5B and depth == 0 and not held.length and not data[begin:start].strip():
                    group, base, depth, begin = group + 1, 1, 1, at  # an array at the top: its elements are the records
                else:
                    depth += 1
            elif mark == 0x2C:
                if base:
                    held.add(data[begin:start])
                    begin = at
                    yield from finished()
            elif depth == base == 1:  # the end of the array
                held.add(data[begin:start])
                begin = at
                yield from finished()
                depth = base = 0
            elif depth:
                depth -= 1
                if depth == 0:
                    held.add(data[begin:at])
                    begin = at
                    yield from finished()
        held.add(data[begin:])
        if not depth and not held.text.strip():
            held.take()
    before = number
    yield from finished("breaks off: the file is not whole")
    if (depth or in_string) and number == before:
        yield Record("the end", why="is missing: the file is not whole")


class _Held:
    """The bytes of a record, as far as they are not too many."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.length = 0

    @property
    def text(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts) if self.length < CHUNK else b"much"

    def add(self, data: bytes) -> None:
        if data:
            self.length += len(data)
            if self.length <= MOST_BYTES:
                self._parts.append(data)
            else:
                self._parts.clear()

    def take(self) -> tuple[bytes, bool]:
        """All of them, and whether they were too many."""
        text, long = b"".join(self._parts), self.length > MOST_BYTES
        self._parts.clear()
        self.length = 0
        return text, long


def _odd(data: bytes, start: int) -> bool:
    """Whether bytes end in a backslash that escapes what follows."""
    found = _ESCAPES.search(data, max(start, len(data) - 4096))
    return found is not None and (found.end() - found.start()) % 2 == 1


def _parsed(text: bytes) -> tuple[Any, str]:
    """The value in a text, or why there is none."""
    try:
        return json.loads(text.decode("utf-8", "surrogatepass")), ""
    except UnicodeDecodeError:
        pass
    except RecursionError:
        return None, "is nested too deep"
    except ValueError as error:
        return None, _why(error)
    try:
        return json.loads(text.decode("utf-8", "replace")), ""
    except RecursionError:
        return None, "is nested too deep"
    except ValueError as error:
        return None, _why(error)


def _why(error: ValueError) -> str:
    return f"is not JSON ({error})" if isinstance(error, json.JSONDecodeError) else "has a number that is too long"


def _too_long() -> str:
    return f"is longer than {MOST_BYTES >> 20} MB, which no conversation is"
