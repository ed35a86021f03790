"""Which setting of a method says how much it drafts, and the sizes that a key goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .methods import Method

OTHERS = ("tokens", "nodes", "length")
"""What the setting is called in methods that do not say so."""

LENGTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
"""Sizes of a draft in tokens that a key goes through."""

BUDGETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Sizes of a tree in nodes."""


class DraftLength(NamedTuple):
    """How long a method's drafts may get."""

    setting: str
    value: int
    low: int
    high: int

    def beside(self, direction: int) -> int:
        """The next size up (1) or down (−1), within the limits; its own where there is none."""
        sizes = BUDGETS if self.setting == "nodes" else LENGTHS
        if direction > 0:
            return min(self.high, next((size for size in sizes if size > self.value), self.high))
        return max(self.low, next((size for size in reversed(sizes) if size < self.value), self.low))


def length_of(method: Method, settings: Mapping[str, Any]) -> DraftLength | None:
    """The draft length of a method with these settings; None if it has none."""
    if method.undrafted:
        return None
    params = {param["name"]: param for param in method.params}

    def counts(bounds: bool | str) -> bool:
        if isinstance(bounds, bool):
            return bounds
        other, _, wanted = bounds.partition("=")
        return str(settings.get(other, params[other]["default"])) == wanted

    marked = [name for name, param in params.items() if counts(param.get("length", False))]
    name = next(iter(marked or [other for other in OTHERS if other in params]), None)
    if name is None:
        return None
    param = params[name]
    low, high = param.get("low"), param.get("high")
    return DraftLength(
        name, int(settings.get(name, param["default"])), 1 if low is None else int(low), 256 if high is None else int(high)
    )


def why_none(method: Method) -> str:
    """A sentence that says why a method has no draft length."""
    if method.undrafted:
        return f"{method.name} drafts nothing: {method.undrafted}."
    return f"{method.name} has no setting for the length of its drafts."
