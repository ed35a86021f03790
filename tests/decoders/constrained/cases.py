"""Constraints and prompts to try them on, and the plain constrained answer: one token a pass, each under a full mask."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema

from specchat.backends.grammars.constraint import Constraint

from ...fakes.constraints import grammar, json_schema, regex

NAMES = "Anna Ben Carla David Elena Farid Greta Hugo Ines Jonas Kira Liam Mona Nils Olga Paul Quinn Rosa Sven Tara".split()
CITIES = "Paris Rome Oslo Vienna Madrid Lisbon Prague Dublin".split()
ROLES = "cook nurse pilot teacher driver baker".split()

TEXT = {"type": "string", "maxLength": 24}


def an_object(**properties: Any) -> dict[str, Any]:
    """A schema of an object with these properties, all of them required."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


SCHEMAS: dict[str, Any] = {
    "flat": an_object(name=TEXT, age={"type": "integer", "minimum": 0, "maximum": 150}, city={"enum": CITIES}),
    "nested": an_object(
        people={"type": "array", "items": an_object(name=TEXT, role={"enum": ROLES}), "minItems": 1, "maxItems": 3},
        done={"type": "boolean"},
    ),
    "enum": {"enum": ["yes, at once", "yes, later", "no", "I do not know"]},
    "array": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 2, "maxItems": 4},
}
DAY = (
    r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [1-9][0-9]? (January|February|March|April|May|June|July) 20[0-9]{2}: "
    r"[a-z]([a-z ]{3,30}[a-z])?\."
)
SUM = r"""
root ::= term (" + " term){1,3} " = " number
term ::= number | "(" number " * " number ")"
number ::= [1-9] [0-9]{0,2}
"""
SUM_REGEX = r"T( \+ T){1,3} = N".replace("T", r"(N|\(N \* N\))").replace("N", "[1-9][0-9]{0,2}")

CONSTRAINTS: dict[str, Constraint] = {
    **{name: json_schema(schema) for name, schema in SCHEMAS.items()},
    "regex": regex(DAY),
    "grammar": grammar(SUM),
}


def valid(name: str, text: str) -> bool:
    """Whether a text matches one of the constraints, by others' means."""
    if name in SCHEMAS:
        try:
            jsonschema.validate(json.loads(text), SCHEMAS[name])
        except (ValueError, jsonschema.ValidationError):
            return False
        return True
    return re.fullmatch(DAY if name == "regex" else SUM_REGEX, text) is not None


def prompts(count: int) -> list[str]:
    """Make prompts that fit the constraints, and prompts that do not."""
    out = []
    for i in range(count):
        name, other, city, role = NAMES[i % 20], NAMES[(i * 7 + 3) % 20], CITIES[i % 8], ROLES[i % 6]
        out.append(
            [
                f"Write as JSON: name {name}, age {20 + i}, city {city}.",
                f"{name} is a {role} and lives in {city}. {other} is a {ROLES[(i + 2) % 6]}. Who are they?",
                f"What is speculative decoding? (question {i})",
                f"Tell me a short story about {name} in {city}.",
                f"List three words about {city} and say why. Then greet {other}.",
            ][i % 5]
        )
    return out
