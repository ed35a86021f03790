"""Values in JSON from a server, where any of them may be missing, of another type or out of range."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def parse_json(text: str) -> Any:
    """Parse a text as JSON, with integers of any length; return the text itself if it is none."""
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError):
        return text


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else float(digits)  # `int` refuses 5,000 digits


def dig(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and indices; None if there is none."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def tables(value: Any) -> list[Mapping[str, Any]]:
    """List the objects in an array; none if it is no array."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    """Return a string as it is, and an empty one for anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return a number of things; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**31 else None


def number(value: object) -> float | None:
    """Return a number that is neither negative nor infinite; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) and 0 <= as_float < 1e15 else None
