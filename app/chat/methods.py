"""The decoding methods as the chat shows them, and what their labels promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

LABELS: Mapping[str, str] = {
    "identical": "The text is exactly what plain decoding would write, token for token.",
    "identical, near ties checked": "The text is what plain decoding would write, as far as this machine's rounding allows. "
    "Where two tokens are nearly equal, a pass of one node decides.",
    "identical but for near ties": "The text is what plain decoding would write, except where two tokens are nearly equal: a "
    "pass of many nodes rounds otherwise, and the other one may win.",
    "same distribution": "The tokens may differ from plain decoding's, but each is as probable as under plain sampling.",
    "lossy": "The text may differ from what the model would write by itself, and may be worse.",
}
"""Label → what it promises."""


def right_or_accepted(label: str) -> str:
    """What a guess was that went into the text: right, or accepted under a rule that takes more than the model's own choice."""
    return "accepted" if label in ("lossy", "same distribution") else "right"


GROUPS: Mapping[str, str] = {
    "plain": "Plain decoding",
    "text": "From the text",
    "draft model": "A smaller model",
    "own layers": "Its own layers",
    "trained": "Trained drafters",
    "automatic": "Automatic",
}
"""Group → its heading, in the order in which they are shown."""


SERVERS = "The server's"
"""Heading of the methods of a model on servers."""


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


def served_methods(info: Mapping[str, Any]) -> dict[str, Method]:
    """What decodes a model on servers, by name; nothing for one of this machine."""
    told = (info.get("server") or {}).get("methods", {})
    return {name: Method(name, "server", "", f"{where} decodes.") for name, where in told.items()}


def reach_of(method: Method, info: Mapping[str, Any]) -> tuple[int | None, str]:
    """Up to how many tokens of text a method drafts on a model, and why; None for every length, or if it never drafts."""
    able = info.get("capabilities") or {}
    reach = able.get("reach") if method.group != "plain" else None
    return reach, able.get("reasons", {}).get("reach", "") if reach is not None else ""


def method_named(name: str) -> Method:
    """The method of this name; of one that is not here the name is all that is known."""
    return known_methods().get(name) or Method(name)
