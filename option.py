"""One option, declared once: a field of a dataclass, from which its setting, its flag in the shell, its line of help, its check
and its place in a message to the engine come. Settings and the parameters of decoding methods are both declared so."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from math import isfinite
from typing import Any

from .errors import UserError

AT_ONCE = "immediately"
NEXT_ANSWER = "from the next answer"
NEXT_START = "from the next start"
NEXT_LOAD = "from the next start, when a model is loaded"

ON_OFF = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
"""Words for an option that is on or off."""

TYPES = {
    "str": "a text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of non-empty texts",
}
"""Types that an option can have, with the words for their values."""


@dataclass(frozen=True, slots=True)
class Option:
    """The description of an option."""

    help: str
    """A sentence; `{}` in it stands for the choices."""
    metavar: str
    """The placeholder of its value in the help of a command."""
    when: str = NEXT_ANSWER
    """The moment when a change takes effect."""
    group: str = ""
    """The heading that it is listed under; empty for a method's parameter."""
    title: str = ""
    """Its name in words, if not the last part of its key."""
    unset: str = ""
    """Words for the value in force where it is not set."""
    choices: tuple[str, ...] = ()
    """The allowed words; empty for anything."""
    offers: Callable[[], Sequence[str]] | None = None
    """The same where they are known only as the program runs; `check` refuses others."""
    pattern: str = ""
    """Regular expression of the allowed texts."""
    takes: str = ""
    """Words for what the pattern allows, to follow "takes"."""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    """A bound that the value itself must not reach."""
    check: Callable[[Any], Any] | None = None
    """Final form of a value of the right type, or a UserError that says what is wrong with it."""
    secret: bool = False
    """Whether an error message must not repeat its value."""
    length: bool | str = False
    """Whether the keys for longer and shorter drafts change it; "name=value": only while that parameter has that value. The
    first parameter marked counts."""
    type: str = ""
    """One of TYPES."""
    default: Any = None

    def parse(self, value: Any, name: str) -> Any:
        """Convert a value, typed by a person or as plain data, to the option's type.

        Args:
            name: of the option in an error message: a key, a flag, a variable.

        Raises:
            UserError: it has another type, or is not allowed.
        """
        parsed = CONVERTERS[self.type](value)
        texts = parsed if isinstance(parsed, tuple) else (parsed,)
        allowed = all(not self.choices or text in self.choices for text in texts)
        if parsed is None or not allowed or (self.pattern and not all(re.fullmatch(self.pattern, text) for text in texts)):
            takes = f"one of {', '.join(self.choices)}" if self.choices else self.takes or TYPES[self.type]
            raise UserError(f"{name} takes {takes}." if self.secret else f"{name} takes {takes}, not {value!r}.")
        if not self._in_range(parsed):
            raise UserError(f"{name} must be {self.range}, not {value}.")
        try:
            return parsed if self.check is None else self.check(parsed)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None

    def _in_range(self, value: Any) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The words to choose from; empty where it takes more than a few."""
        if self.offers is not None:
            return tuple(self.offers())
        return self.choices or (("true", "false") if self.type == "bool" else ())

    @property
    def several(self) -> bool:
        """Whether it takes several values."""
        return self.type == "tuple[str, ...]"

    @property
    def range(self) -> str:
        """Words for the numbers that it may be; empty where any will do."""
        if self.low is not None and self.high is not None:
            return f"between {self.low} and {self.high}"
        bounds = {"above": self.above, "at least": self.low, "at most": self.high}
        return " and ".join(f"{words} {bound}" for words, bound in bounds.items() if bound is not None)


def option(
    default: Any, help: str, metavar: str = "", *, when: str = NEXT_ANSWER, choices: Sequence[str] = (), **more: Any
) -> Any:
    """Declare a field of a dataclass as an option; `more` are other fields of Option."""
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""
    description = Option(help.replace("{}", listed), metavar or "NAME", when, choices=tuple(choices), **more)
    return field(default=default, metadata={"option": description})


def declared_options(declaring: type[Any]) -> Mapping[str, Option]:
    """List the options among the fields of a dataclass, by name."""
    description: Any = declaring
    return _declared_options(description)


@cache
def _declared_options(declaring: Any) -> Mapping[str, Option]:
    return {
        f.name: replace(
            f.metadata["option"],
            # A class where its module evaluates annotations, else their text.
            type=str(getattr(f.type, "__name__", f.type)).removesuffix(" | None"),
            default=None if f.default is MISSING else f.default,
        )
        for f in fields(declaring)
        if "option" in f.metadata
    }


# Each returns None for what cannot be converted.


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str) else None


def _switch(value: Any) -> bool | None:
    if isinstance(value, str):
        return ON_OFF.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _whole_number(value: Any) -> int | None:
    with suppress(TypeError, ValueError, OverflowError):
        number = int(value)
        return number if not isinstance(value, bool) and (isinstance(value, str) or number == value) else None
    return None


def _number(value: Any) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        number = float(value)
        return number if isfinite(number) and not isinstance(value, bool) else None
    return None


def _texts(value: Any) -> tuple[str, ...] | None:
    """Convert a list, or a text: one item, or several as TOML writes them."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            return _texts(tomllib.loads(f"items = {value}")["items"])
    if isinstance(value, str):
        return (str(value),) if value else ()
    fits = isinstance(value, list | tuple) and all(isinstance(text, str) and text for text in value)
    return tuple(str(text) for text in value) if fits else None


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _whole_number,
    "float": _number,
    "bool": _switch,
    "tuple[str, ...]": _texts,
}
