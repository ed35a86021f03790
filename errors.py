"""Errors that a person can act on, the phrases they share, and the exception that ends work early."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


class UserError(Exception):
    """An error that the user can fix. Its text says what happened and what to do; it is shown without a traceback."""


class NotPossible(UserError):
    """A request that no other wording could satisfy, because a requirement is missing."""


class Cancelled(Exception):
    """Raised by long work (a load, a prefill) when its `cancelled` callback returns True."""


class ContextFull(UserError):
    """The tokens do not fit in the model's context."""


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Write a number with its noun: `1 token`, `1,024 tokens`; `nouns` is a plural that does not just add an s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def first_line(error: BaseException) -> str:
    """Quote the first line of a library's error, to stand inside a sentence; its kind if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Write the end of an error about an unknown name: `did you mean lookup?`

    Dotted names match by either part: `top_p`, `samplng.top_p`, `sampling.topp` and `methods.top_p` all suggest
    `sampling.top_p`.

    Args:
        name: as typed.
        known: the names that exist.
        otherwise: the end when no name is close; None lists all of them.
    """
    from difflib import get_close_matches

    known = list(known)
    last = name.rpartition(".")[2]
    longer = [other for other in known if len(last) > 2 and other.rpartition(".")[2].startswith(last)]
    if "." in name:
        longer = [other for other in longer if other.startswith(name)] or longer
    near = longer if len(longer) == 1 else get_close_matches(name, longer or known, n=1)
    near = near or sorted(longer, key=lambda other: len(other.rpartition(".")[2]))[:1]
    near = near or [other for other in known if other == last or other.endswith(f".{last}")]
    near = near or get_close_matches(last, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"choose from {', '.join(known)}." if otherwise is None else otherwise


def shell_line(*words: str) -> str:
    """Quote a command for the shell, since other people chose the names in it. Every command shown goes through here."""
    return shlex.join(words)
