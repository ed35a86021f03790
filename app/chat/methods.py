"""The decoding methods as the chat shows them: what their labels promise, and how long their drafts may get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

from ...engine.catalog import Totals

LABELS: Mapping[str, str] = {
    "identical": "The text is exactly what plain decoding would write, token for token.",
    "identical but for near ties": "The text is what plain decoding would write, except where two tokens are nearly equal: a "
    "pass of many nodes rounds otherwise, and the other one may win.",
    "same distribution": "The tokens may differ from plain decoding's, but each is as probable as under plain sampling.",
    "lossy": "The text may differ from what the model would write by itself, and may be worse.",
}
"""Label → what it promises."""


def right_or_accepted(label: str) -> str:
    """What a guess was that went into the text: right, or accepted under a rule that takes more than the model's own choice."""
    return "accepted" if label in ("lossy", "same distribution") else "right"


def hits(totals: Totals, label: str) -> tuple[str, str]:
    """Count the right guesses, and name what is counted: of trees, those that held the right token, as at most one guess of a
    depth is right."""
    kind, right, of = "guesses", totals.accepted, totals.drafted
    if totals.depth < totals.drafted:
        kind, right, of = "trees", totals.accepted_at[0], totals.drafted_at[0]
    return f"{right:,} of {of:,}", f"{kind} {right_or_accepted(label)}"


GROUPS: Mapping[str, str] = {
    "plain": "Plain decoding",
    "text": "From the text",
    "draft model": "A smaller model",
    "own layers": "Its own layers",
    "trained": "Trained drafters",
    "automatic": "Automatic",
}
"""Group → its heading, in the order in which they are shown."""

SERVER = "The server's"
"""Heading of the method of a model on a server."""


@dataclass(frozen=True, slots=True)
class Method:
    """A decoding method as the interface knows it; what the fields mean is said in decoders/base.py."""

    name: str
    group: str = "text"
    label: str = "identical"
    summary: str = ""
    pays: str = ""
    paper: str = ""
    params: tuple[Mapping[str, Any], ...] = ()
    explains: str = ""
    plain: bool = False
    undrafted: str = ""
    other_nodes: str = ""


@cache
def known_methods() -> Mapping[str, Method]:
    """Every method by name, in the order in which they are shown."""
    from ...engine.catalog import describe

    known, groups = [field.name for field in fields(Method)], list(GROUPS)
    found = [{key: entry[key] for key in known} for entry in sorted(describe(), key=lambda entry: groups.index(entry["group"]))]
    return {entry["name"]: Method(**entry | {"params": tuple(entry["params"])}) for entry in found}


def served_method(info: Mapping[str, Any]) -> dict[str, Method]:
    """What decodes a model on a server, by name; nothing for one of this machine."""
    server = info.get("server")
    return {name: Method(name, "server", "", f"{info['device']} decodes.")} if server and (name := server["method"]) else {}


def reach_of(method: Method, info: Mapping[str, Any]) -> tuple[int | None, str]:
    """Up to how many tokens of text a method drafts on a model, and why; None for every length, or if it never drafts."""
    able = info.get("capabilities") or {}
    reach = able.get("reach") if method.group != "plain" else None
    return reach, able.get("reasons", {}).get("reach", "") if reach is not None else ""


def method_named(name: str) -> Method:
    """The method of this name; of one that is not here the name is all that is known."""
    return known_methods().get(name) or Method(name)


OTHERS = ("tokens", "nodes", "length")
"""What the setting for the length of drafts is called in methods that do not say so."""

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
