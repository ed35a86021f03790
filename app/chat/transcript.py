"""The entries of one chat in order, their variants, and the messages that the model gets of them.

A chat's variants are the earlier versions of messages that were edited, and of answers that were asked for again. A fork is a
place with several continuations, its ends; the one on the screen is the transcript's own, the others are set aside. Forks
within an end that is set aside come back with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .entries import Answer, ChatEntry, Notice, Prompt

PER_MESSAGE = 40
"""Bytes reserved for a chat template's own tokens around a message."""


@dataclass(slots=True, eq=False)
class Fork:
    """A place with several continuations."""

    after: ChatEntry | None
    """The entry before the fork; None: the chat's beginning."""
    ends: list[list[ChatEntry]]
    """The continuations, oldest first; the one on the screen is out of date here."""
    at: int = 0
    """Index of the end on the screen."""


@dataclass(slots=True)
class Transcript:
    """A chat, oldest entry first."""

    entries: list[ChatEntry] = field(default_factory=list)
    system: str | None = None
    track: Any = field(default=None, repr=False, compare=False)
    """The history's record of this chat."""
    forks: dict[ChatEntry | None, Fork] = field(default_factory=dict, repr=False, compare=False)
    """The forks by the entry before each."""
    revision: int = field(default=0, repr=False, compare=False)
    """Number of changes of variants."""

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
        talk = [entry for entry in self.entries if not isinstance(entry, Notice)]
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

    # Variants

    def fork_before(self, index: int) -> Fork | None:
        """Return the fork right before the entry at `index`; None if there is none."""
        return self.forks.get(self.entries[index - 1] if index else None)

    def fork_place(self, index: int) -> int:
        """Return the index of the fork whose variant an entry is: before it, or before the notices above it. `index` itself if
        there is none."""
        place = index
        while self.fork_before(place) is None:
            if not place or not isinstance(self.entries[place - 1], Notice):
                return index
            place -= 1
        return place

    def fork_of(self, index: int) -> Fork | None:
        """Return the fork whose variant the message or the answer at `index` is; None if there is none."""
        if not self.forks or (index < len(self.entries) and isinstance(self.entries[index], Notice)):
            return None
        return self.fork_before(self.fork_place(index))

    def begin_variant(self, index: int) -> int:
        """Begin a new end before the entry at `index`; the entries from there on are set aside.

        Returns:
            the number of entries that stay.
        """
        place = self.fork_place(index)
        after = self.entries[place - 1] if place else None
        fork = self.forks.setdefault(after, Fork(after, [[]]))
        self._set_aside(place, fork)
        fork.ends.append([])
        fork.at = len(fork.ends) - 1
        self.revision += 1
        return place

    def turn_variant(self, place: int, to: int) -> None:
        """Show end number `to` of the fork at `place`."""
        fork = self.fork_before(place)
        assert fork is not None
        end = fork.ends[to]
        if to == fork.at:
            return
        self._set_aside(place, fork)
        fork.at = fork.ends.index(end)
        self.entries += end
        self.revision += 1

    def _set_aside(self, place: int, fork: Fork) -> None:
        """Take the end on the screen out of the transcript; one of notices alone is dropped."""
        end = self.entries[place:]
        if all(isinstance(entry, Notice) for entry in end):
            del fork.ends[fork.at]
        else:
            fork.ends[fork.at] = end
        del self.entries[place:]

    def variant_answers(self, index: int) -> list[Answer]:
        """Return the variants of the answer at `index`, itself included; empty if it has no other."""
        if (fork := self.fork_of(index)) is None:
            return []
        ends = [[self.entries[index]] if number == fork.at else end for number, end in enumerate(fork.ends)]
        first_answers = (next((entry for entry in end if isinstance(entry, Answer)), None) for end in ends)
        return [answer for answer in first_answers if answer is not None]


def messages_with(transcript: Transcript, text: str) -> list[dict[str, str]]:
    """Return the messages of a chat with one more prompt."""
    return Transcript([*transcript.entries, Prompt(text)], transcript.system).messages()


def surely_fits(messages: list[dict[str, str]], context: int) -> bool:
    """Whether a chat fits without a count: a token is at least a byte."""
    size = sum(len(message["content"].encode("utf-8", "replace")) + PER_MESSAGE for message in messages)
    return size <= context - answer_room(context)


def answer_room(context: int) -> int:
    """Return the number of tokens that are kept free for the answer's beginning."""
    return min(64, context // 8)
