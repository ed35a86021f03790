"""Completing the name of a file: behind an @, or as a command's argument. What was typed, what there is, how it is spelled."""

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
"""Files that are offered: a look at all of them at each key must not be felt."""

LOOK_SECONDS = 3.0
"""Time for finding the files below a folder; what was found until then is offered."""


class Suggestion(NamedTuple):
    """Something that a word may become."""

    name: str
    what: str = ""
    """A few words about it."""
    closes: bool = False
    """A space follows it, for what comes next."""


_OPEN = re.compile(r"""(?<!\S)@(?:"([^"\n]*)|'([^'\n]*)|([^\s@"']*))$""")


def typed(before: str) -> tuple[int, str] | None:
    """Where the @ is whose name is being typed, and what there is of the name; None if none is.

    Args:
        before: the line up to the cursor.
    """
    match = _OPEN.search(before)
    if match is None:
        return None
    return match.start(), match[1] or match[2] or match[3] or ""


def spelled(name: str) -> str:
    """A name as a mention; a file's is closed by a space, a folder's stays open for what is in it."""
    folder = name.endswith("/")
    if not re.search(r"\s|^[\"']|[.,;:!?)]$", name):
        return f"@{name}" if folder else f"@{name} "
    quote = "'" if '"' in name else '"'
    return f"@{quote}{name}" if folder else f"@{quote}{name}{quote} "


def as_typed(name: str) -> str:
    """A file's name with its bytes that are no UTF-8 as they are shown."""
    return re.sub("[\udc80-\udcff]", lambda byte: f"\\u{ord(byte[0]):04x}", name)


def names_below(folder: Path) -> list[str]:
    """Files below a folder and the folders that hold them, relative to it; what git ignores and hidden ones are left out."""
    files = [PurePosixPath(file.relative_to(folder).as_posix()) for file in islice(walk(folder, LOOK_SECONDS), MOST_NAMES)]
    folders = {f"{parent}/" for file in files for parent in file.parents if parent.name}
    return sorted(folders) + [name for file in files if (name := as_typed(str(file))).isprintable()]


def folder_of(query: str) -> str | None:
    """The one folder whose names are offered where a name leads out of the working folder, or to what is hidden in it.

    Returns:
        the folder as typed, with its slash (empty for the working folder); None where files at any depth are offered.
    """
    if not (query.startswith(("~", "/", "./", "../", ".")) or "/." in query):
        return None
    return query[: query.rfind("/") + 1]


def names_in(folder: str) -> list[str]:
    """What is in one folder, folders with a slash at the end; nothing where it cannot be read."""
    try:
        with os.scandir(user_path(folder or ".")) as entries:
            names = [as_typed(entry.name) + "/" * entry.is_dir() for entry in islice(entries, MOST_NAMES)]
            return [name for name in names if name.isprintable()]
    except (OSError, RuntimeError, ValueError):
        return []


def offers(query: str, names: Sequence[str], most: int = 6) -> list[str]:
    """The best names for what was typed.

    Args:
        query: what follows the @.
        names: of `names_in` the query's folder, or else of `names_below` the working folder.
    """
    folder = folder_of(query)
    if folder is None:
        return ranked(query, names, most)
    last = query[len(folder) :]
    return [folder + name for name in ranked(last, [n for n in names if n.startswith(".") == last.startswith(".")], most)]
