"""Output of `specchat methods` and `specchat locate`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

from ...engine.catalog import broken, describe, get
from ...errors import UserError, did_you_mean
from ...option import Option, declared_options
from ..settings import locations
from .options import print_json

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
