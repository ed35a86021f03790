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
    """What is said of an option."""

    help: str
    """A sentence; `{}` in it stands for the choices."""
    metavar: str
    """What stands for its value in the help of a command."""
    group: str
    when: str
    """When a change takes effect."""
    choices: tuple[str, ...] = ()
    """The words that it may be; empty for anything."""
    form: str = ""
    """Regular expression of what it may be."""
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
    told = f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""
    said = Option(help.replace("{}", told), metavar or "NAME", group, when, tuple(choices), **more)
    return field(default=default, metadata={"option": said})


def options_of(declared: type[Any]) -> Mapping[str, Option]:
    """The options among the fields of a dataclass, by name."""
    found = {f.name: (f.metadata["option"], str(f.type)) for f in fields(declared) if "option" in f.metadata}
    return {name: replace(said, kind=kind.removesuffix(" | None")) for name, (said, kind) in found.items()}
