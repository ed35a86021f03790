"""Completion in the shell: models, methods, themes, presets, chats, settings. Typer asks for it; nothing heavy is imported.

Shells evaluate what they are given (zsh by `eval`; bash at enter, as its menu completion inserts the whole value), and titles
and file names may contain anything: only names without characters that a shell interprets are offered, and descriptions lose
such characters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps

import typer

from ..settings.fields import OPTIONS
from ..settings.locations import theme_names
from ..settings.precedence import load_settings
from ..text.cells import fit

Candidates = Iterator[tuple[str, str]]
"""Values, each with a description."""
Completer = Callable[..., list[tuple[str, str]]]
"""Typer's callback at tab."""

MOST_MATCHES = 200

DESCRIPTION_CELLS = 60
"""Width of the description next to a value: Typer breaks a wider one in a line of 80."""

# None of these means anything to a shell where it stands: ~ and = would at the beginning, # and ^ do in some shells anywhere.
_SAFE = re.compile(r"[\w./][\w.,:/+@=-]*")
_SPECIAL = re.compile(r"[^\w .,/+·…–—-]")


def _completer(candidates: Callable[[str], Candidates]) -> Completer:
    """Make a callback for Typer: it returns the candidates that begin with the typed word and are harmless."""

    @wraps(candidates)
    def complete(ctx: typer.Context, args: list[str], incomplete: str) -> list[tuple[str, str]]:
        matches: dict[str, str] = {}
        try:
            for value, description in candidates(incomplete):
                if value.startswith(incomplete) and _SAFE.fullmatch(value):
                    matches.setdefault(value, fit(" ".join(_SPECIAL.sub(" ", description).split()), DESCRIPTION_CELLS))
                    if len(matches) == MOST_MATCHES:
                        break
        except Exception:  # a tab cannot be answered with an error message
            return []
        return list(matches.items())

    del complete.__wrapped__  # Typer reads the parameters
    return complete


@_completer
def models(typed: str) -> Candidates:
    """Yield the models on this machine; a path is left to the shell."""
    from ..models.places import spots

    if typed.startswith(("/", "~", "./", "../")):
        return
    current_folder = f"{os.getcwd()}{os.sep}"
    for spot in spots():
        if not spot.remark:
            # Relative to the current folder; a folder's name alone would be a name on the Hub.
            path = spot.spec.removeprefix(current_folder)
            yield path if path.endswith(".gguf") else spot.spec, spot.place


@_completer
def methods(typed: str) -> Candidates:
    from ...engine.catalog import describe

    for method in describe():
        yield method["name"], method["summary"]


@_completer
def presets(typed: str) -> Candidates:
    for name in load_settings()[0].presets:
        yield name, ""


@_completer
def chats(typed: str) -> Candidates:
    """Yield the numbers of the last chats."""
    from ..history.chats import reading
    from ..history.store import history_file

    if not history_file().exists():  # completion must not create one
        return
    with reading(repair=False) as history:  # a repair's messages would be lost
        for row in history.newest(limit=MOST_MATCHES):
            yield str(row.id), row.title


def choices(words: Sequence[str] | Callable[[], Sequence[str]]) -> Completer:
    """Make a completer of fixed words, or of words that are known only at tab."""
    return _completer(lambda typed: ((word, "") for word in (words() if callable(words) else words)))


setting_keys = choices(tuple(OPTIONS))

BY_FLAG: Mapping[str, Completer] = {
    "--model": models,
    "--draft-model": models,
    "--method": methods,
    "--methods": methods,
    "--theme": choices(theme_names),
    "--preset": presets,
    "--resume": chats,
}
"""Option → completer of its value, in every command; those with fixed choices have their own."""
