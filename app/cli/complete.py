"""What the shell offers at tab: models, methods, themes, presets, chats, settings. Typer asks; nothing heavy is imported.

Shells evaluate what they are given (zsh by `eval`; bash at enter, as its menu completion puts a value in whole), and titles and
file names may say anything: only names without signs that a shell reads are offered, and texts beside them lose such signs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps

import typer

from ..settings.checks import theme_names
from ..settings.fields import OPTIONS
from ..settings.precedence import load_settings
from ..text.cells import fit

Offered = Iterator[tuple[str, str]]
"""Values and a few words about each."""
Completer = Callable[..., list[tuple[str, str]]]
"""What Typer calls at tab."""

MOST = 200

ABOUT_CELLS = 60
"""Width of the words beside a value: Typer breaks what is wider than a line of 80."""

# None of these means anything to a shell where it stands: ~ and = would at the beginning, # and ^ do in some shells anywhere.
_SAFE = re.compile(r"[\w./][\w.,:/+@=-]*")
_SIGNS = re.compile(r"[^\w .,/+·…–—-]")
_BUT_WORDS = re.compile(r"[^\w]+")


def _completing(offered: Callable[[str], Offered]) -> Completer:
    """What Typer calls: those of the values that begin as the word does, harmless."""

    @wraps(offered)
    def complete(ctx: typer.Context, args: list[str], incomplete: str) -> list[tuple[str, str]]:
        found: dict[str, str] = {}
        try:
            for value, about in offered(incomplete):
                if value.startswith(incomplete) and _SAFE.fullmatch(value):
                    found.setdefault(value, fit(" ".join(_SIGNS.sub(" ", about).split()), ABOUT_CELLS))
                    if len(found) == MOST:
                        break
        except Exception:  # a tab is no question that could be answered with a sentence
            return []
        return _beside(list(found.items())) if _shell() == "bash" else list(found.items())

    del complete.__wrapped__  # Typer reads the parameters
    return complete


def _shell() -> str:
    return os.environ.get("_SPECCHAT_COMPLETE", "").partition("_")[2]


def _beside(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The candidates for bash, which shows values alone: numbers say nothing without their titles' words. A single one stays as
    it is."""
    if len(found) < 2 or not all(value.isdigit() for value, _ in found):
        return found
    return [(f"{value}  {_BUT_WORDS.sub(' ', about).strip()}", "") for value, about in found]


@_completing
def models(typed: str) -> Offered:
    """The models on this machine; a path is left to the shell."""
    from ..models.places import recent, spots

    if typed.startswith(("/", "~", "./", "../")):
        return
    here = f"{os.getcwd()}{os.sep}"
    for spot in spots(recent()):
        if not spot.remark:
            # As it is typed here; a folder's name alone would be one on the Hub.
            below = spot.spec.removeprefix(here)
            yield below if below.endswith(".gguf") else spot.spec, spot.place


@_completing
def methods(typed: str) -> Offered:
    from ...engine.catalog import describe

    for method in describe():
        yield method["name"], method["summary"]


@_completing
def method_settings(typed: str) -> Offered:
    """`--set NAME=`: the settings of the methods."""
    from ...engine.catalog import describe

    owners: dict[str, list[str]] = {}
    for method in describe():
        for setting in method["params"]:
            owners.setdefault(setting["name"], []).append(method["name"])
    for name, of in owners.items():
        yield f"{name}=", f"of {', '.join(of)}"


@_completing
def themes(typed: str) -> Offered:
    for name in theme_names():
        yield name, ""


@_completing
def presets(typed: str) -> Offered:
    for name in load_settings()[0].presets:
        yield name, ""


@_completing
def chats(typed: str) -> Offered:
    """The last chats, by their numbers."""
    from ..history.chats import reading
    from ..history.store import history_file

    if not history_file().exists():  # looking must not make one
        return
    with reading(repair=False) as found:  # nobody would read what was done
        for row in found.newest(limit=MOST):
            yield str(row.id), row.title


@_completing
def setting_keys(typed: str) -> Offered:
    yield from ((key, "") for key in OPTIONS)


def choices(words: Sequence[str]) -> Completer:
    return _completing(lambda typed: ((word, "") for word in words))


BY_OPTION: Mapping[str, Completer] = {
    "--model": models,
    "--draft-model": models,
    "--method": methods,
    "--methods": methods,
    "--set": method_settings,
    "--theme": themes,
    "--preset": presets,
    "--resume": chats,
    "--chat": chats,
}
"""Option → what its value may be, wherever the option is; those of a few words say themselves what they may be."""
