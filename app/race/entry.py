"""The entries of a race: a method with its settings, on the chat's model or on another one; their notation, and suggestions for
them and for the prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...engine.options import BACKENDS, ModelInfo
from ..chat.dialogue import Dialogue
from ..chat.entries import Prompt
from ..chat.methods import PLAIN
from ..chat.transcript import Transcript
from ..text.cells import one_line

RUNTIMES = tuple(name for name in BACKENDS if name != "auto")
"""Runtimes, each of which may stand for a model: the chat's on that runtime."""


@dataclass(frozen=True)
class RaceEntry:
    """A method that takes part in a race, with its settings and its model."""

    method: str
    settings: Mapping[str, object] = field(default_factory=dict)
    model: str = ""
    """Name of the model as the user wrote it; empty for the chat's."""
    backend: str = ""
    """Name of the runtime if the user named one."""

    @property
    def name(self) -> str:
        """The method with its settings."""
        return one_line(" ".join((self.method, *(f"{key}={value}" for key, value in self.settings.items()))))

    @property
    def key(self) -> str:
        """Key of its model, which is empty for the chat's as it is loaded."""
        return f"{self.model} on {self.backend}" if self.backend else self.model


def split_model(word: str, model: str, info: ModelInfo) -> tuple[str, str, str]:
    """Parse `METHOD@MODEL` into method, model and runtime; the last two are empty for the chat's `model` as it is."""
    method, _, target = word.partition("@")
    backend = target if target in RUNTIMES else ""
    if backend:
        target = model
    if target == model and backend in ("", info.backend):
        return method, "", ""
    return method, target, backend


def split_prompt(rest: str) -> tuple[str, str, str]:
    """Split the words after `/race` into the entries, the colon (or nothing), and the prompt.

    A colon separates the two unless it is inside a model's name (`greedy@owner/name:Q4_0`) or quotes.
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


LANES = 3
"""Suggested number of lanes: as many as fit side by side in a usual terminal."""


def suggest_methods(dialogue: Dialogue) -> list[str]:
    """Suggest methods: plain decoding, the method in force, and those worth a try."""
    if dialogue.info.server:
        return dialogue.shortlist()[:LANES]
    able = [name for name in dialogue.methods if name not in dialogue.unavailable]
    rivals = [name for name in (dialogue.method, *dialogue.shortlist()) if name in able and drafts(dialogue, name)]
    methods = list(dict.fromkeys((*(name for name in able if name == PLAIN), *rivals)))[:LANES]
    return methods if len(methods) > 1 else able[:2]


def drafts(dialogue: Dialogue, method: str) -> bool:
    """Whether a method can be faster than plain decoding."""
    return dialogue.methods[method].group != "plain"


def race_prompt(dialogue: Dialogue, text: str | None) -> tuple[str, list[dict[str, str]]] | None:
    """Return the prompt of a race and its messages: `text` as the chat's next message, or (None) the last message that was
    sent, with the chat before it. None if there is no prompt."""
    entries = list(dialogue.transcript.entries)
    if text is not None:
        entries.append(Prompt(text))
    while entries and not isinstance(entries[-1], Prompt):
        entries.pop()
    match entries:
        case [*_, Prompt(text)]:
            return text, Transcript(entries, dialogue.transcript.system).messages()
        case _:
            return None
