"""`specchat methods` and `specchat locate`: what there is, printed; `python -m specchat.app.cli.listing` writes the tables of
docs/methods.md and docs/settings.md, a test compares them."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...engine.catalog import broken, describe
from ...errors import UserError, did_you_mean
from ..settings import locations
from ..settings.fields import OPTIONS
from .options import print_json

DOCS = Path(__file__).resolve().parents[2] / "docs"


def print_methods(*, as_json: bool) -> None:
    found = describe()
    if as_json:
        print_json(found)
        return
    # Lines longer than about 100 characters are hard to read, however wide the terminal.
    width = min(shutil.get_terminal_size().columns, 100)
    print("\n\n".join("\n".join(_method_lines(method, width)) for method in found))
    for name, reason in broken().items():
        print(f"\n{name}: left out, because its package cannot be loaded ({reason}).")


def _method_lines(method: dict[str, Any], width: int) -> Iterator[str]:
    yield f"{method['name']}  ({method['label']})"
    for text in (method["summary"], f"When it pays: {method['pays']}", f"Paper: {method['paper']}"):
        if not text.endswith(": "):
            yield textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ")
    for setting in method["params"]:
        line = f"--set {setting['name']}={setting['default']}  {setting['doc']}{_limits(setting)}"
        yield textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      ")


def _limits(setting: dict[str, Any]) -> str:
    if setting["choices"]:
        return f" ({', '.join(setting['choices'])})"
    low, high = setting["low"], setting["high"]
    if low is not None and high is not None:
        return f" ({low} to {high})"
    return f" ({low} or more)" if low is not None else ""


def print_locations(name: str | None) -> None:
    """Every path by its name, or the one that is asked for.

    Raises:
        UserError: no such name; names the nearest.
    """
    paths = locations.everything()
    if name is None:
        for known, path in paths.items():
            print(f"{known:9} {path}")
        return
    if name not in paths:
        raise UserError(f"There is no location {name!r}: {did_you_mean(name, paths)}")
    print(paths[name])


def pages() -> Iterator[tuple[Path, str]]:
    """The pages with a table that is made of the code, and what they are to say."""
    methods = [f"| `{method['name']}` | {method['summary']} | {method['pays']} |" for method in describe()]
    settings = [f"| `{key}` | {said.help} | {said.when} |" for key, said in OPTIONS.items()]
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
