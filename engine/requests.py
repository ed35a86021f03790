"""From a Generate's plain data to what the decoders take, with a sentence for what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from ..backends.base import Sampling, UserError
from ..decoders.text import Stops


def sampling_of(settings: Mapping[str, Any]) -> Sampling:
    """Sampling settings from names and values (texts, as typed, or numbers).

    Raises:
        UserError: an unknown name (with the nearest known one), or a value of the wrong type or out of its range.
    """
    kinds = {f.name: int if f.type == "int" else float for f in fields(Sampling)}
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in kinds:
            near = get_close_matches(name, kinds, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kinds)}."
            raise UserError(f"There is no sampling setting {name!r}: {hint}")
        try:
            values[name] = kinds[name](value)
        except (TypeError, ValueError, OverflowError):
            wanted = "a whole number" if kinds[name] is int else "a number"
            raise UserError(f"{name} takes {wanted}, not {value!r}.") from None
    return Sampling(**values)


def stops_of(strings: Sequence[str], regexes: Sequence[str]) -> Stops | None:
    """Where to end the answer besides EOS; None where nothing was asked for.

    Raises:
        UserError: a regex that cannot be compiled.
    """
    return Stops(strings, regexes) if strings or regexes else None
