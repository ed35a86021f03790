"""The files of a folder without those that git ignores, ranked by a query."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic

from ..text.cells import folded

MOST_ENTRIES = 20_000
"""Most entries of one folder that are read."""
GIT_SECONDS = 5
"""Longest wait for git."""


def walk(folder: Path, seconds: float = inf) -> Iterator[Path]:
    """Yield the files below a folder in order, without hidden ones and those that git ignores.

    Args:
        folder: the root, which may be ignored itself.
        seconds: time after which the search ends.
    """
    end = monotonic() + seconds
    ignored = _ignored(folder)
    stack = [folder]
    while stack:
        at = stack.pop()
        try:
            with os.scandir(at) as scan:
                entries = sorted(islice(scan, MOST_ENTRIES), key=lambda entry: entry.name)
        except OSError:
            continue
        deeper = []
        for entry in entries:
            if monotonic() > end:
                return
            path = at / entry.name
            if entry.name.startswith(".") or path in ignored:
                continue
            try:
                if entry.is_dir(follow_symlinks=False):  # a link to a folder may lead round in a circle
                    deeper.append(path)
                elif entry.is_file():
                    yield path
            except OSError:
                continue
        stack += reversed(deeper)


def _ignored(folder: Path) -> set[Path]:
    """Return the files and folders that git ignores; none outside of a repository, or without git."""
    # A repository may name a program for watching its files, which must not run.
    git = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z"]
    try:
        process = subprocess.run(
            [*git, "--others", "--ignored", "--exclude-standard", "--directory"],
            cwd=folder,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {folder / os.fsdecode(name) for name in process.stdout.split(b"\0") if name}


def score(query: str, name: str) -> float | None:
    """Rate how well a name matches a query, higher is better; None if it lacks a letter of it.

    Letters count in their order; those that follow each other, begin a word or belong to the last part count more.
    """
    pattern, text = folded(query), folded(name)
    if not pattern:
        return -float(name.count("/")) - len(name) / 1000
    last = text.rfind("/") + 1
    at = text.find(pattern, last)
    at = text.find(pattern) if at < 0 else at
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


def ranked(query: str, names: Iterable[str], most: int = 6) -> list[str]:
    """Return the names that match a query best."""
    scored = [(value, name) for name in names if (value := score(query, name)) is not None]
    return [name for _, name in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:most]]
