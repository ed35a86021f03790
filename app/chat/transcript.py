"""The entries of one chat, in order, and what all answers together come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .entries import Answer, ChatEntry, Notice, Prompt
from .variants import Variants


@dataclass(slots=True)
class Transcript:
    """A chat, oldest entry first."""

    entries: list[ChatEntry] = field(default_factory=list)
    system: str | None = None
    start: int = 0
    """The first entry that the model is told of."""
    track: Any = field(default=None, repr=False, compare=False)
    """What the history knows of it."""
    variants: Variants = field(default_factory=Variants, repr=False, compare=False)
    """The other ways that it went on."""

    def answers(self) -> list[Answer]:
        return [entry for entry in self.entries if isinstance(entry, Answer)]

    def messages(self) -> list[dict[str, str]]:
        """The chat as the engine is told it, which decides what of a thought the model is told again. A prompt that got no text
        in answer is left out, unless it is the last."""
        out = [{"role": "system", "content": self.system}] if self.system else []
        talk = [entry for entry in self.entries[self.start :] if not isinstance(entry, Notice)]
        for i, entry in enumerate(talk):
            match entry:
                case Prompt(text):
                    follower = talk[i + 1] if i + 1 < len(talk) else None
                    if follower is None or (isinstance(follower, Answer) and follower.text):
                        out.append({"role": "user", "content": text})
                case Answer() if text := entry.text:
                    thought = entry.thought
                    out.append({"role": "assistant", "content": text, **({"thought": thought} if thought else {})})
        return out
