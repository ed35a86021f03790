"""The entries of one chat in order, and the messages that the model gets of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .entries import Answer, ChatEntry, Notice, Prompt
from .variants import Variants

PER_MESSAGE = 40
"""Bytes reserved for a chat template's own tokens around a message."""
MOST_CUTS = 12
"""Most cuts whose tokens are counted, spread over the chat."""


@dataclass(slots=True)
class Transcript:
    """A chat, oldest entry first."""

    entries: list[ChatEntry] = field(default_factory=list)
    system: str | None = None
    start: int = 0
    """Index of the first entry that the model gets."""
    track: Any = field(default=None, repr=False, compare=False)
    """The history's record of this chat."""
    variants: Variants = field(default_factory=Variants, repr=False, compare=False)
    """The other continuations."""

    @property
    def has_messages(self) -> bool:
        """Whether there is more than notices."""
        return any(not isinstance(entry, Notice) for entry in self.entries)

    def answers(self) -> list[Answer]:
        return [entry for entry in self.entries if isinstance(entry, Answer)]

    def messages(self) -> list[dict[str, str]]:
        """Return the chat as messages for the engine, which decides how much of a thought the model gets again. A prompt whose
        answer is empty is left out, unless it is the last; an empty prompt asks for more of the answer before it."""
        out = [{"role": "system", "content": self.system}] if self.system else []
        talk = [entry for entry in self.entries[self.start :] if not isinstance(entry, Notice)]
        continues = False
        for i, entry in enumerate(talk):
            match entry:
                case Prompt(""):
                    continues = bool(out) and out[-1]["role"] == "assistant"
                case Answer() if entry.text and continues:
                    out[-1] = {**out[-1], "content": out[-1]["content"] + entry.text}
                case Prompt(text):
                    continues = False
                    follower = talk[i + 1] if i + 1 < len(talk) else None
                    if follower is None or (isinstance(follower, Answer) and follower.text):
                        out.append({"role": "user", "content": text})
                case Answer() if text := entry.text:
                    thought = entry.thought
                    out.append({"role": "assistant", "content": text, **({"thought": thought} if thought else {})})
        return out


def cuts(transcript: Transcript) -> list[int]:
    """Return the entries at which the model's view may begin: the current one, later prompts, and last the end of the chat."""
    prompts = [i for i, entry in enumerate(transcript.entries) if isinstance(entry, Prompt) and i > transcript.start]
    every = max(1, -(-len(prompts) // MOST_CUTS))
    return [transcript.start, *prompts[every - 1 :: every], len(transcript.entries)]


def messages_from(transcript: Transcript, start: int, text: str) -> list[dict[str, str]]:
    """Return the messages from entry `start` on, with one more prompt."""
    return Transcript([*transcript.entries[start:], Prompt(text)], transcript.system).messages()


def surely_fits(messages: list[dict[str, str]], context: int) -> bool:
    """Whether a chat fits without a count: a token is at least a byte."""
    size = sum(len(message["content"].encode("utf-8", "replace")) + PER_MESSAGE for message in messages)
    return size <= context - answer_room(context)


def answer_room(context: int) -> int:
    """Return the number of tokens that are kept free for the answer's beginning."""
    return min(64, context // 8)
