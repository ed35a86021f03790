"""Output of `specchat methods` and `specchat locate`. `python -m specchat.app.cli.listing` writes the tables of docs/methods.md
and docs/settings.md; a test compares them."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from ...engine.catalog import broken, describe, get
from ...errors import UserError, did_you_mean
from ...option import Option, declared_options
from ..settings import locations
from ..settings.fields import OPTIONS
from .options import print_json

DOCS = Path(__file__).resolve().parents[2] / "docs"

WIDEST = 100
"""Width of the text: longer lines are hard to read, however wide the terminal."""


def print_methods(*, as_json: bool) -> None:
    if as_json:
        print_json(describe())
        return
    width = min(shutil.get_terminal_size().columns, WIDEST)
    print("\n\n".join("\n".join(_method_lines(method["name"], width)) for method in describe()))
    for name, reason in broken().items():
        print(f"\n{name}: left out, because its package cannot be loaded ({reason}).")


def _method_lines(name: str, width: int) -> Iterator[str]:
    method = get(name)
    yield f"{name}  ({method.label})"
    for text in (method.summary, f"When it pays: {method.pays}", f"Paper: {method.paper}"):
        if not text.endswith(": "):
            yield textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ")
    for setting, option in declared_options(method.Params).items():
        line = f"--set {setting}={option.default}  {option.help}{_limits(option)}"
        yield textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      ")


def _limits(option: Option) -> str:
    if option.choices:
        return f" ({', '.join(option.choices)})"
    if option.low is not None and option.high is not None:
        return f" ({option.low} to {option.high})"
    return f" ({option.low} or more)" if option.low is not None else ""


def print_locations(name: str | None) -> None:
    """Print every path with its name, or only the one with this name.

    Raises:
        UserError: no such name; names the nearest.
    """
    paths = locations.all_locations()
    if name is None:
        print("\n".join(f"{place:9} {path}" for place, path in paths.items()))
    elif name in paths:
        print(paths[name])
    else:
        raise UserError(f"There is no location {name!r}: {did_you_mean(name, paths)}")


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages with a table that the code generates, and their text."""
    methods = [f"| `{method['name']}` | {method['summary']} | {method['pays']} |" for method in describe()]
    settings = [f"| `{key}` | {option.help} | {option.when} |" for key, option in OPTIONS.items()]
    for name, head, rows in (
        ("methods.md", "| method | what it does | when it pays |", methods),
        ("settings.md", "| setting | what it is | a change applies |", settings),
    ):
        before, _, after = (DOCS / name).read_text(encoding="utf-8").partition(head)
        after = re.sub(r"^\n(\|.*\n)*", "", after)
        yield DOCS / name, "\n".join((f"{before}{head}", "|---|---|---|", *rows, after))


if __name__ == "__main__":
    for page, text in pages():
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page} is written\n")
