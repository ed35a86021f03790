"""Who takes part in a race: a method with its settings, on the chat's model or on one of its own; and how that is typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...engine.options import BACKENDS
from ..text.cells import one_line

RUNTIMES = tuple(name for name in BACKENDS if name != "auto")
"""What may stand for a model: the chat's own one on that runtime."""


@dataclass(frozen=True)
class RaceEntry:
    """A method that takes part in a race, with its settings and its model."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    """The model as the user named it; empty for the chat's."""
    backend: str = ""
    """The runtime, where one is asked for."""

    @property
    def name(self) -> str:
        """The method with its settings."""
        return one_line(" ".join((self.method, *(f"{key}={value}" for key, value in self.settings.items()))))

    @property
    def key(self) -> str:
        """What tells its model from others; empty for the chat's as it is loaded."""
        return f"{self.model} on {self.backend}" if self.backend else self.model


def split_model(word: str, model: str, info: Mapping[str, Any]) -> tuple[str, str, str]:
    """`METHOD@MODEL` as method, model and runtime; the last two are empty for the chat's model as it is.

    Args:
        word: as typed. In place of a model may stand a runtime.
        model: the chat's, as the user named it.
    """
    method, _, named = word.partition("@")
    backend = ""
    if named in RUNTIMES:
        named, backend = model, named
    if named == model and backend in ("", info.get("backend")):
        return method, "", ""
    return method, named, backend


def split_prompt(rest: str) -> tuple[str, str, str]:
    """What follows `/race`: the entries, the colon (or nothing), the prompt.

    A colon parts the two unless it is inside of a model's name (`greedy@owner/name:Q4_0`) or of quotes.
    """
    quote = ""
    for match in re.finditer(r"['\":]", rest):
        sign, at = match[0], match.start()
        if sign != ":":
            quote = "" if sign == quote else quote or sign
        elif not quote:
            word = rest[:at].rsplit(None, 1)[-1] if rest[:at] and not rest[at - 1].isspace() else ""
            ends = at + 1 == len(rest) or rest[at + 1].isspace()
            if ends or "@" not in word:
                return rest[:at], ":", rest[at + 1 :]
    return rest, "", ""
