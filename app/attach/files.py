"""The files of a folder, found without what git ignores, and ranked by what is typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from . import ignore_rules

MOST_ENTRIES = 20_000
"""Entries of one folder, without what is in its folders: more are not looked at."""
GivenUp = Callable[[], bool]
"""Asked now and then while a document is read; True ends that."""


def walk(folder: Path, hidden: bool = False, given_up: GivenUp = lambda: False) -> Iterator[Path]:
    """The files below a folder, in order; what git would ignore is left out, and hidden files too unless asked for.

    Args:
        folder: where to begin; that it is ignored itself does not matter.
        hidden: hidden files too.
        given_up: as GivenUp; what was found until then is all there is.
    """
    stack = [(folder, ignore_rules.above(folder))]
    while stack:
        at, rules = stack.pop()
        try:
            with os.scandir(at) as found:
                entries = sorted(islice(found, MOST_ENTRIES), key=lambda entry: entry.name)
        except OSError:
            continue
        own = ignore_rules.read(at)
        rules = [*rules, own] if own else rules
        deeper = []
        for entry in entries:
            if given_up():
                return
            if entry.name == ".git" or (not hidden and entry.name.startswith(".")):
                continue
            path = at / entry.name
            try:
                inner = entry.is_dir(follow_symlinks=False)  # a link to a folder may lead round in a circle
                plain = entry.is_file()
            except OSError:
                continue
            if ignore_rules.ignored(path, inner, rules):
                continue
            if inner:
                deeper.append((path, rules))
            elif plain:
                yield path
        stack += reversed(deeper)


def score(query: str, name: str) -> float | None:
    """How well a name answers what was typed, higher is better; None if it lacks a letter of it.

    Letters count in their order; those that follow each other, begin a word or belong to the last part count more.
    """
    wanted, text = query.casefold(), name.casefold()
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
