"""The decoding methods as the chat shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def known_methods() -> Mapping[str, Method]:
    """Every method by name, in the order in which they are shown."""
    from ...engine.catalog import describe

    return {
        entry["name"]: Method(
            entry["name"], entry["label"], entry["summary"], entry["pays"], entry["paper"], tuple(entry["params"])
        )
        for entry in describe()
    }


@dataclass(frozen=True, slots=True)
class Method:
    """A decoding method as the interface knows it."""

    name: str
    label: str = "identical"
    summary: str = ""
    pays: str = ""
    paper: str = ""
    params: tuple[Mapping[str, Any], ...] = ()
