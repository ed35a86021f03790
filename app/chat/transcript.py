"""The entries of one chat, in order, and what the model is told of them: all, or as much as fits in its context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .entries import Answer, ChatEntry, Notice, Prompt
from .variants import Variants

PER_MESSAGE = 40
"""Bytes that stand for a chat template's own tokens around a message."""
MOST_CUTS = 12
"""Places for a cut that are counted, spread over the chat."""


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

    @property
    def begun(self) -> bool:
        """Whether there is more than notices."""
        return any(not isinstance(entry, Notice) for entry in self.entries)

    def answers(self) -> list[Answer]:
        return [entry for entry in self.entries if isinstance(entry, Answer)]

    def messages(self) -> list[dict[str, str]]:
        """The chat as the engine is told it, which decides what of a thought the model is told again. A prompt that got no text
        in answer is left out, unless it is the last; an empty one asked for more of the answer before it."""
        out = [{"role": "system", "content": self.system}] if self.system else []
        talk = [entry for entry in self.entries[self.start :] if not isinstance(entry, Notice)]
        goes_on = False
        for i, entry in enumerate(talk):
            match entry:
                case Prompt(""):
                    goes_on = bool(out) and out[-1]["role"] == "assistant"
                case Answer() if entry.text and goes_on:
                    out[-1] = {**out[-1], "content": out[-1]["content"] + entry.text}
                case Prompt(text):
                    goes_on = False
                    follower = talk[i + 1] if i + 1 < len(talk) else None
                    if follower is None or (isinstance(follower, Answer) and follower.text):
                        out.append({"role": "user", "content": text})
                case Answer() if text := entry.text:
                    thought = entry.thought
                    out.append({"role": "assistant", "content": text, **({"thought": thought} if thought else {})})
        return out


def cuts(transcript: Transcript) -> list[int]:
    """Where what the model sees may begin: as it does now, then at later prompts, then (the last) after all there is."""
    prompts = [i for i, entry in enumerate(transcript.entries) if isinstance(entry, Prompt) and i > transcript.start]
    every = max(1, -(-len(prompts) // MOST_CUTS))
    return [transcript.start, *prompts[every - 1 :: every], len(transcript.entries)]


def chat_from(transcript: Transcript, start: int, text: str) -> list[dict[str, str]]:
    """The chat as it would be sent with one more message, its beginning left out."""
    return Transcript([*transcript.entries[start:], Prompt(text)], transcript.system).messages()


def surely_fits(messages: list[dict[str, str]], context: int) -> bool:
    """Whether a chat fits without being counted: a token is a byte at least."""
    return sum(len(message["content"].encode("utf-8", "replace")) + PER_MESSAGE for message in messages) <= context - room(
        context
    )


def room(context: int) -> int:
    """Tokens that are kept free for the answer's beginning."""
    return min(64, context // 8)
