"""The decoding methods as the drawing process may see them, without importing a runtime."""

from __future__ import annotations

from ..backends.grammars.constraint import Constraint, parse_constraint
from ..decoders.acceptance import Acceptance
from ..decoders.base import effective_label, find_param, parse_params
from ..decoders.registry import broken, describe, elsewhere, get, methods
from ..decoders.stats import Share, Totals
from ..decoders.text import Stops

__all__ = [
    "Acceptance",
    "Constraint",
    "Share",
    "Stops",
    "Totals",
    "broken",
    "describe",
    "effective_label",
    "elsewhere",
    "find_param",
    "get",
    "methods",
    "parse_constraint",
    "parse_params",
]
