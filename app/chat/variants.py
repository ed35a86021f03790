"""Variants of a chat: the earlier versions of messages that were edited, and of answers that were asked for again.

The transcript holds the version on the screen. A fork is a place with several continuations, its ends; the one on the screen
is the transcript's own, the others are set aside. Forks within an end that is set aside come back with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .entries import Answer, ChatEntry, Notice


@dataclass(slots=True, eq=False)
class Fork:
    """A place with several continuations."""

    after: ChatEntry | None
    """The entry before the fork; None: the chat's beginning."""
    ends: list[list[ChatEntry]] = field(default_factory=list)
    """The continuations, oldest first; the one on the screen is out of date here."""
    at: int = 0
    """Index of the end on the screen."""


class Variants:
    """The forks of a chat. `entries` are its transcript's, which these methods change."""

    def __init__(self) -> None:
        self._forks: dict[int, Fork] = {}  # by the id of the entry before, 0 for the beginning; each fork keeps its entry alive
        self.revision = 0
        """Number of changes."""

    def __len__(self) -> int:
        return len(self._forks)

    def __iter__(self) -> Iterator[Fork]:
        return iter(tuple(self._forks.values()))

    def put(self, fork: Fork) -> None:
        """Add a fork read from the history."""
        self._forks[_key(fork.after)] = fork

    def at(self, entries: list[ChatEntry], index: int) -> Fork | None:
        """Return the fork right before the entry at `index`; None if there is none."""
        return self._forks.get(_key(entries[index - 1] if index else None)) if self._forks else None

    def place(self, entries: list[ChatEntry], index: int) -> int:
        """Return the index of the fork whose variant an entry is: before it, or before the notices above it. `index` itself if
        there is none."""
        place = index
        while True:
            if self.at(entries, place) is not None:
                return place
            if not place or not isinstance(entries[place - 1], Notice):
                return index
            place -= 1

    def of(self, entries: list[ChatEntry], index: int) -> Fork | None:
        """Return the fork whose variant the message or the answer at `index` is; None if there is none."""
        if not self._forks or (index < len(entries) and isinstance(entries[index], Notice)):
            return None
        return self.at(entries, self.place(entries, index))

    def begin(self, entries: list[ChatEntry], index: int) -> int:
        """Begin a new end before the entry at `index`; the entries from there on are set aside.

        Returns:
            the number of entries that stay.
        """
        place = self.place(entries, index)
        fork = self.at(entries, place)
        if fork is None:
            fork = Fork(entries[place - 1] if place else None, [[]])
            self.put(fork)
        self._set_aside(entries, place, fork)
        fork.ends.append([])
        fork.at = len(fork.ends) - 1
        self.revision += 1
        return place

    def turn(self, entries: list[ChatEntry], place: int, to: int) -> None:
        """Show end number `to` of the fork at `place`."""
        fork = self.at(entries, place)
        assert fork is not None
        end = fork.ends[to]
        if to == fork.at:
            return
        self._set_aside(entries, place, fork)
        fork.at = fork.ends.index(end)
        entries += end
        self.revision += 1

    def _set_aside(self, entries: list[ChatEntry], place: int, fork: Fork) -> None:
        """Take the end on the screen out of the transcript; one of notices alone is dropped."""
        end = entries[place:]
        if all(isinstance(entry, Notice) for entry in end):
            del fork.ends[fork.at]
        else:
            fork.ends[fork.at] = end
        del entries[place:]

    def answers(self, entries: list[ChatEntry], index: int) -> list[Answer]:
        """Return the variants of the answer at `index`, itself included; empty if it has no other."""
        fork = self.of(entries, index)
        if fork is None:
            return []
        ends = [[entries[index]] if number == fork.at else end for number, end in enumerate(fork.ends)]
        first_answers = (next((entry for entry in end if isinstance(entry, Answer)), None) for end in ends)
        return [answer for answer in first_answers if answer is not None]


def _key(entry: ChatEntry | None) -> int:
    return 0 if entry is None else id(entry)
