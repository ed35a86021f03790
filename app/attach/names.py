"""Completion of a file's name after an @ or in a command's argument."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import NamedTuple

from ...plain_file import user_path
from ..text.cells import folded

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


def names_below(folder: Path) -> list[str]:
    """List the files below a folder and their folders, relative to it, without hidden ones and those that git ignores."""
    names = (name for name in _git_files(folder) or _walk(folder) if name.isprintable() and not re.search(r"(^|/)\.", name))
    files = list(islice(names, MOST_NAMES))
    folders = {f"{parent}/" for file in files for parent in PurePosixPath(file).parents if parent.name}
    return sorted(folders) + files


def _git_files(folder: Path) -> list[str]:
    """List the files below a folder but those that git ignores; empty outside of a repository, or without git."""
    # A repository may name a program for watching its files, which must not run.
    git = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        process = subprocess.run(git, cwd=folder, capture_output=True, timeout=LOOK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [os.fsdecode(name) for name in process.stdout.split(b"\0") if name]


def _walk(folder: Path) -> Iterator[str]:
    """Yield the files below a folder in order, for LOOK_SECONDS."""
    end = monotonic() + LOOK_SECONDS
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            yield Path(place, name).relative_to(folder).as_posix()
        if monotonic() > end:
            return


def query_folder(query: str) -> str | None:
    """Return the only folder whose names are offered, for a query that leads out of the working folder or to a hidden name.

    Returns:
        the folder as typed, with its slash (empty for the working folder); None if files at any depth are offered.
    """
    if not (query.startswith(("~", "/", ".")) or "/." in query):
        return None
    return query[: query.rfind("/") + 1]


def names_in(folder: str) -> list[str]:
    """List one folder's names, folders with a slash at the end; empty if it cannot be read."""
    try:
        with os.scandir(user_path(folder or ".")) as entries:
            names = [entry.name + "/" * entry.is_dir() for entry in islice(entries, MOST_NAMES)]
            return [name for name in names if name.isprintable()]
    except (OSError, ValueError):
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


def ranked(query: str, names: Iterable[str], most: int = 6) -> list[str]:
    """Return the names that match a query best."""
    scored = [(value, name) for name in names if (value := score(query, name)) is not None]
    return [name for _, name in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:most]]


def score(query: str, name: str) -> float | None:
    """Rate how well a name matches a query, higher is better; None if it lacks a letter of it.

    Letters count in their order; those that follow each other, begin a word or belong to the last part count more.
    """
    pattern, text = folded(query), folded(name)
    if not pattern:
        return -float(name.count("/")) - len(name) / 1000
    last = text.rfind("/") + 1
    at = max(text.find(pattern, last), text.find(pattern))
    if at >= 0:  # as one piece
        begins = at == 0 or text[at - 1] in "/._- "
        return 1000.0 + 200 * (at >= last) + 100 * begins + 50 * (at == last) - len(text) / 10
    total, at, before = 0.0, -1, -2
    for letter in pattern:
        at = text.find(letter, at + 1)
        if at < 0:
            return None
        total += 3 * (at == before + 1) + 2 * (at == 0 or text[at - 1] in "/._- ") + (at >= last)
        before = at
    return total - len(text) / 100
