"""All that servers draft by themselves, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ...errors import UserError, did_you_mean
from .base import ServerMethod
from .drafts import DraftSimple, Standalone, VllmDraft
from .ngrams import NgramMod, NgramSimple, VllmNgram


@cache
def served() -> Mapping[str, type[ServerMethod]]:
    """Every server's method, as ENGINE/NAME."""
    found: tuple[type[ServerMethod], ...] = (VllmNgram, VllmDraft, NgramSimple, NgramMod, DraftSimple, Standalone)
    return {method.name: method for method in found}


def get_served(name: str) -> type[ServerMethod]:
    """The server's method with this name.

    Raises:
        UserError: there is none; suggests the nearest.
    """
    known = served()
    if name in known:
        return known[name]
    raise UserError(f"No server's method is known as {name!r}: {did_you_mean(name, known)}")
