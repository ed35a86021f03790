"""One option, declared once: a field of a dataclass, from which its setting, its flag in the shell, its line of help and its
place in a message to the engine come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

AT_ONCE = "immediately"
NEXT_ANSWER = "from the next answer"
NEXT_START = "from the next start"
NEXT_LOAD = "from the next start, when a model is loaded"


@dataclass(frozen=True, slots=True)
class Option:
    """The description of an option."""

    help: str
    """A sentence; `{}` in it stands for the choices."""
    metavar: str
    """The placeholder of its value in the help of a command."""
    group: str
    when: str
    """The moment when a change takes effect."""
    choices: tuple[str, ...] = ()
    """The allowed words; empty for anything."""
    form: str = ""
    """Regular expression of the allowed values."""
    shape: str = ""
    """The same in words, to follow "takes"."""
    low: int | None = None
    """The least that a number may be."""
    high: int | None = None
    """The most that it may be."""
    kind: str = ""
    """Its type, as `str`, `int`, `float`, `bool` or `tuple[str, ...]`."""


def option(
    default: Any, help: str, metavar: str = "", *, choices: Sequence[str] = (), group: str = "Model", when: str, **more: Any
) -> Any:
    """Declare a field of a dataclass as an option; `more` are other fields of Option."""
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""
    description = Option(help.replace("{}", listed), metavar or "NAME", group, when, tuple(choices), **more)
    return field(default=default, metadata={"option": description})


def declared_options(declaring: type[Any]) -> Mapping[str, Option]:
    """List the options among the fields of a dataclass, by name."""
    return {
        f.name: replace(f.metadata["option"], kind=str(f.type).removesuffix(" | None"))
        for f in fields(declaring)
        if "option" in f.metadata
    }
