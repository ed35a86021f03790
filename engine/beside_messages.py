"""Messages about models beside the chat's own, which lanes of a race run on. Part of `messages`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class LoadBeside:
    """Load a model beside the chat's, which stays as it is, its lanes too. Answered by Loading…, then LoadedBeside or Failed.

    Running answers wait meanwhile. Whether it fits beside what is in memory is reckoned from its files first. One that was
    loaded under the same key goes, its lanes with it.
    """

    id: int
    key: str
    """What a Generate names in `model`; not empty."""
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of Load besides id and model. The context is at most that of the chat's model."""
    lanes: int = 1
    """Conversations that are to share it: memory for the KV cache of each is reckoned with."""


@dataclass(slots=True)
class UnloadBeside:
    """Free models that were loaded beside the chat's, and their lanes. Not answered."""

    key: str = ""
    """Empty for all."""


@dataclass(slots=True)
class LoadedBeside:
    """A model beside the chat's is ready. The fields that Loaded has too mean the same."""

    id: int
    key: str
    info: dict[str, Any]
    unavailable: dict[str, str] = field(default_factory=dict)
    tokenizer: str = ""
    """Two models whose tokens mean the same have the same text here."""
    own: str = ""
    """The same of the chat's model."""
