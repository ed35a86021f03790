"""What answers must look like: a schema, any JSON object, a regex or a grammar."""

from __future__ import annotations

import json
from typing import Any

from ...engine.options import SHAPES
from ...errors import UserError
from ...plain_file import as_text, user_path
from ..text.cells import fit, one_line

MOST_BYTES = 4_000_000


def constraint_name(constraint: Any) -> str:
    """A word or two about a constraint, for headers; empty for none."""
    if not isinstance(constraint, dict):
        return ""
    from ...engine.catalog import parse_constraint as made

    try:
        found = made(constraint)
        return found.name if found is not None else ""
    except (UserError, ValueError):
        return ""


def constraint_summary(constraint: Any) -> str:
    """A constraint's name and what is in it: the fields of a schema, or the first line of what it is otherwise."""
    name, text = constraint_name(constraint), str(constraint.get("text", ""))
    try:
        schema = json.loads(text) if constraint.get("kind") == "json_schema" else None
    except (ValueError, RecursionError):
        schema = None
    fields = schema.get("properties") if isinstance(schema, dict) else None
    first = ", ".join(fields) if isinstance(fields, dict) else text.strip().partition("\n")[0]
    return f"{name}: {fit(one_line(first), 60)}" if first else name


def checked_shape(called: str, name: str, value: str) -> str:
    """The text of a schema, a regex or a grammar: the one that is given, or what is in the file that is named.

    Raises:
        UserError: there is no such file, or it cannot be used; says which part.
    """
    if not value.strip():
        return ""
    text = value if name == "regex" or _inline(name, value) else _read(called, name, value)
    from ...engine.catalog import Constraint

    try:
        Constraint(SHAPES[name], text).check()  # type: ignore[arg-type]
    except UserError as error:
        raise UserError(f"{called}: {error}") from None
    return text


def _inline(name: str, value: str) -> bool:
    """Whether a value is the text itself, not the name of a file."""
    if name == "schema":
        return value.lstrip()[:1] in ("{", "[", '"') or value.strip() in ("true", "false")
    return "\n" in value or "::=" in value or value.lstrip().startswith("start:")


def _read(called: str, name: str, value: str) -> str:
    path = user_path(value)
    what = "the JSON schema itself" if name == "schema" else "the grammar itself"
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        said = "There is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise UserError(f"{called}: {value} cannot be read ({said}). Give a file, or {what}.") from None
    if len(data) > MOST_BYTES:
        raise UserError(f"{called}: {value} is too large to follow. Use a smaller part of it.")
    return as_text(data)
