"""What git ignores: the rules of .gitignore files. They come with folders of strangers, so matching takes time in proportion to
the lengths of the pattern and of the name, whatever the pattern says."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ... import plain_file

MOST_BYTES = 100_000
"""Bytes of a .gitignore: the longest of GitHub's templates have 8 kB, and each file of a folder is compared with each rule."""

LONGEST = 1000
"""Characters of a rule."""

Glob = re.Pattern[str]


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """A rule of a .gitignore file: one line of it."""

    parts: tuple[Glob | None, ...]
    """What the names on a path must look like; None stands for any number of folders (`**`)."""
    folders: bool
    """Only folders are meant."""
    ignores: bool
    """False for a line that begins with an exclamation mark."""

    def matches(self, names: Sequence[str], folder: bool) -> bool:
        """Whether this is about a path below the rule's folder.

        Args:
            names: on the path.
            folder: whether the last one is a folder.
        """
        if self.folders and not folder:
            return False
        at = part = 0
        again: tuple[int, int] | None = None  # where to go on one name later: after the last **, the ones before have no say
        while at < len(names) or part < len(self.parts):
            if part < len(self.parts):
                glob = self.parts[part]
                if glob is None:
                    part += 1
                    again = (at + 1, part)
                    continue
                if at < len(names) and glob.fullmatch(names[at]):
                    at, part = at + 1, part + 1
                    continue
            if again is None or again[0] > len(names):
                return False
            at, part = again
            again = (at + 1, part)
        return True


Rules = tuple[Path, tuple[IgnoreRule, ...]]
"""A folder and the rules of its own .gitignore."""


def read(folder: Path) -> Rules | None:
    """A folder's own rules; None without any, or where its file is none that could be read."""
    file = folder / ".gitignore"
    try:
        return folder, _parsed(file, file.stat().st_mtime_ns)
    except OSError:
        return None


def above(folder: Path) -> list[Rules]:
    """The rules of the folders around this one, up to the repository's own."""
    around: list[Path] = []
    at = folder.absolute()
    for parent in (at, *at.parents):
        if parent != at:
            around.append(parent)
        if (parent / ".git").exists():
            return [rules for outer in reversed(around) if (rules := read(outer))]
    return []


def ignored(path: Path, folder: bool, rules: Sequence[Rules]) -> bool:
    """Whether git would leave this out: the last line about it in the deepest file that has one decides."""
    for base, lines in reversed(rules):
        names = os.path.relpath(path, base).split(os.sep)
        for rule in reversed(lines):
            if rule.matches(names, folder):
                return rule.ignores
    return False


@lru_cache(256)
def _parsed(path: Path, changed: int) -> tuple[IgnoreRule, ...]:
    lines = plain_file.read_text(path, MOST_BYTES).split("\n")
    return tuple(found for line in lines if (found := rule(line.removesuffix("\r"))) is not None)


def rule(line: str) -> IgnoreRule | None:
    """One line's rule; None for a comment, an empty line, or one that cannot match."""
    if not line or line.startswith("#") or len(line) > LONGEST:
        return None
    ignores = not line.startswith("!")
    text = line.removeprefix("!")
    trimmed = text.rstrip(" ")
    if trimmed != text and (len(trimmed) - len(trimmed.rstrip("\\"))) % 2:  # the first space is escaped
        trimmed += " "
    folders = trimmed.endswith("/")
    names = trimmed.removesuffix("/").split("/")
    if len(names) == 1:
        names = ["**", "*" if names[0] == "**" else names[0]]  # at any depth
    elif not names[0]:
        del names[0]
    if names[-1] == "**":
        names.append("*")  # what is in a folder, not the folder
    parts: list[Glob | None] = []
    for name in names:
        if name == "**":
            parts.append(None)
        elif (glob := _glob(name)) is not None:
            parts.append(glob)
        else:
            return None
    return IgnoreRule(tuple(parts), folders, ignores)


_PIECE = re.compile(
    r"(?P<star>\*+)|\\(?P<escaped>.)|(?P<any>\?)|\[(?P<set>[!^]?+(?:\\.|[^\\])(?:\\.|[^\\\]])*+)\]|(?P<plain>[^\\\[])", re.S
)
_RANGE = re.compile(r"(\\.|.)(?:-(\\.|.))?", re.S)


def _glob(name: str) -> Glob | None:
    """A pattern for one name on a path; None if it is empty or malformed."""
    pieces = [""]  # between the stars; each is of a fixed length
    at = 0
    while at < len(name):
        found = _PIECE.match(name, at)
        if found is None:
            return None
        at = found.end()
        match found.lastgroup:
            case "star":
                pieces.append("")
            case "any":
                pieces[-1] += "."
            case "set":
                pieces[-1] += _set(found["set"])
            case _:
                pieces[-1] += re.escape(found["escaped"] or found["plain"])
    if pieces == [""]:
        return None
    # The first place where a piece fits is as good as any later one, so nothing ever has to be tried again.
    first, *others = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return re.compile(first + middle + (f".*{others[-1]}" if others else ""), re.S)


def _set(text: str) -> str:
    """`[a-z]`, `[!a]`: one character of several."""
    inside = ""
    negative = text[0] in "!^"
    for low, high in _RANGE.findall(text[negative:]):
        low, high = low[-1], (high or low)[-1]
        if low <= high:
            inside += f"{re.escape(low)}-{re.escape(high)}"
    return f"[{'^' * negative}{inside}]" if inside else "." if negative else "(?!)"
