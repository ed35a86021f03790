"""The files of a folder, found without what git ignores, and ranked by what is typed."""

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
"""Entries of one folder, without what is in its folders: more are not looked at."""
GIT_SECONDS = 5
"""How long git is waited for."""


def walk(folder: Path, seconds: float = inf) -> Iterator[Path]:
    """The files below a folder, in order; hidden ones are left out, and in a repository what git ignores.

    Args:
        folder: where to begin; that it is ignored itself does not matter.
        seconds: the longest look; what was found until then is all there is.
    """
    end, ignored, stack = monotonic() + seconds, _ignored(folder), [folder]
    while stack:
        at = stack.pop()
        try:
            with os.scandir(at) as found:
                entries = sorted(islice(found, MOST_ENTRIES), key=lambda entry: entry.name)
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
    """Files and folders that git ignores; none outside of a repository, or without git."""
    # No program that a stranger's repository names for watching its files is run.
    git = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z"]
    try:
        told = subprocess.run(
            [*git, "--others", "--ignored", "--exclude-standard", "--directory"],
            cwd=folder,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {folder / os.fsdecode(name) for name in told.stdout.split(b"\0") if name}


def score(query: str, name: str) -> float | None:
    """How well a name answers what was typed, higher is better; None if it lacks a letter of it.

    Letters count in their order; those that follow each other, begin a word or belong to the last part count more.
    """
    wanted, text = folded(query), folded(name)
    if not wanted:
        return -float(name.count("/")) - len(name) / 1000
    last = text.rfind("/") + 1
    at = text.find(wanted, last)
    at = text.find(wanted) if at < 0 else at
    if at >= 0:  # as one piece
        begins = at == 0 or text[at - 1] in "/._- "
        return 1000.0 + 200 * (at >= last) + 100 * begins + 50 * (at == last) - len(text) / 10
    total, at, before = 0.0, -1, -2
    for letter in wanted:
        at = text.find(letter, at + 1)
        if at < 0:
            return None
        total += 3 * (at == before + 1) + 2 * (at == 0 or text[at - 1] in "/._- ") + (at >= last)
        before = at
    return total - len(text) / 100


def ranked(query: str, names: Iterable[str], most: int = 6) -> list[str]:
    """The names that answer best what was typed."""
    scored = [(value, name) for name in names if (value := score(query, name)) is not None]
    return [name for _, name in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:most]]
