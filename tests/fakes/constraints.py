"""Constraints, made in a word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from specchat.backends.grammars.constraint import Constraint

json_object = partial(Constraint, "json_object")
regex = partial(Constraint, "regex")
grammar = partial(Constraint, "grammar")


def json_schema(schema: Mapping[str, Any] | str) -> Constraint:
    """Require JSON that matches a schema."""
    return Constraint("json_schema", schema if isinstance(schema, str) else json.dumps(schema))
