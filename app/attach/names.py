"""Completion of a file's name after an @ or in a command's argument."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ...plain_file import user_path
from .files import ranked, walk

MOST_NAMES = 10_000
"""Most files that are offered: ranking them at each key must not be felt."""

LOOK_SECONDS = 3.0
"""Longest search for the files below a folder."""


class Suggestion(NamedTuple):
    """A suggested completion of a word."""

    name: str
    what: str = ""
    """Its description in a few words."""
    closes: bool = False
    """Whether a space follows it, for the next word."""


_OPEN = re.compile(r"""(?<!\S)@(?:"([^"\n]*)|'([^'\n]*)|([^\s@"']*))$""")


def open_mention(before: str) -> tuple[int, str] | None:
    """Find the @ whose name is being typed; returns its index and the name so far, None if there is none.

    Args:
        before: the line up to the cursor.
    """
    match = _OPEN.search(before)
    if match is None:
        return None
    return match.start(), match[1] or match[2] or match[3] or ""


def format_mention(name: str) -> str:
    """Format a name as a mention; a file's is closed by a space, a folder's stays open for its files."""
    folder = name.endswith("/")
    if not re.search(r"\s|^[\"']|[.,;:!?)]$", name):
        return f"@{name}" if folder else f"@{name} "
    quote = "'" if '"' in name else '"'
    return f"@{quote}{name}" if folder else f"@{quote}{name}{quote} "


def as_typed(name: str) -> str:
    """Return a file's name with escapes for bytes outside UTF-8."""
    return re.sub("[\udc80-\udcff]", lambda byte: f"\\u{ord(byte[0]):04x}", name)


def names_below(folder: Path) -> list[str]:
    """List the files below a folder and their folders, relative to it, without hidden ones and those that git ignores."""
    files = [PurePosixPath(file.relative_to(folder).as_posix()) for file in islice(walk(folder, LOOK_SECONDS), MOST_NAMES)]
    folders = {f"{parent}/" for file in files for parent in file.parents if parent.name}
    return sorted(folders) + [name for file in files if (name := as_typed(str(file))).isprintable()]


def query_folder(query: str) -> str | None:
    """Return the only folder whose names are offered, for a query that leads out of the working folder or to a hidden name.

    Returns:
        the folder as typed, with its slash (empty for the working folder); None if files at any depth are offered.
    """
    if not (query.startswith(("~", "/", "./", "../", ".")) or "/." in query):
        return None
    return query[: query.rfind("/") + 1]


def names_in(folder: str) -> list[str]:
    """List one folder's names, folders with a slash at the end; empty if it cannot be read."""
    try:
        with os.scandir(user_path(folder or ".")) as entries:
            names = [as_typed(entry.name) + "/" * entry.is_dir() for entry in islice(entries, MOST_NAMES)]
            return [name for name in names if name.isprintable()]
    except (OSError, RuntimeError, ValueError):
        return []


def offers(query: str, names: Sequence[str], most: int = 6) -> list[str]:
    """Return the best names for a query.

    Args:
        query: the text after the @.
        names: those of `names_in` the query's folder, or else of `names_below` the working folder.
    """
    folder = query_folder(query)
    if folder is None:
        return ranked(query, names, most)
    last = query[len(folder) :]
    return [folder + name for name in ranked(last, [n for n in names if n.startswith(".") == last.startswith(".")], most)]
