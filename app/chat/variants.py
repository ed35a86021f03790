"""The ways that a chat went on: where a message was written anew or answered once more, the others are kept.

The transcript's entries are the way that is on the screen. A fork is a place after which there are several; the one on the
screen is the transcript's own end, the others lie aside. Forks may lie in ends that lie aside: they come back with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .entries import Answer, ChatEntry, Notice


@dataclass(slots=True, eq=False)
class Fork:
    """A place where the chat went on in several ways."""

    after: ChatEntry | None
    """The entry before it; None: the chat's beginning."""
    ends: list[list[ChatEntry]] = field(default_factory=list)
    """What follows, in the order in which it was written; the one on the screen is out of date here."""
    at: int = 0
    """Number of the one on the screen."""


class Variants:
    """The forks of a chat. Entries are those of its transcript, which this changes."""

    def __init__(self) -> None:
        self._forks: dict[int, Fork] = {}  # by the id of the entry before, 0 for the beginning; each fork keeps its entry alive
        self.revision = 0
        """Changes whenever anything here does."""

    def __len__(self) -> int:
        return len(self._forks)

    def __iter__(self) -> Iterator[Fork]:
        return iter(tuple(self._forks.values()))

    def put(self, fork: Fork) -> None:
        """Add a fork that is known from elsewhere."""
        self._forks[_key(fork.after)] = fork

    def at(self, entries: list[ChatEntry], index: int) -> Fork | None:
        """The fork right before an entry, or where one more would go."""
        return self._forks.get(_key(entries[index - 1] if index else None)) if self._forks else None

    def place(self, entries: list[ChatEntry], index: int) -> int:
        """Where the fork is that an entry is a variant at: before it, or before the notices above it. `index` itself where
        there is none."""
        place = index
        while True:
            if self.at(entries, place) is not None:
                return place
            if not place or not isinstance(entries[place - 1], Notice):
                return index
            place -= 1

    def of(self, entries: list[ChatEntry], index: int) -> Fork | None:
        """The fork that the message or the answer at `index` is a variant at."""
        if not self._forks or (index < len(entries) and isinstance(entries[index], Notice)):
            return None
        return self.at(entries, self.place(entries, index))

    def begin(self, entries: list[ChatEntry], index: int) -> int:
        """Go on anew from before the entry at `index`: what follows is laid aside.

        Returns:
            how many entries stay.
        """
        place = self.place(entries, index)
        fork = self.at(entries, place)
        if fork is None:
            fork = Fork(entries[place - 1] if place else None, [[]])
            self.put(fork)
        self._lay_aside(entries, place, fork)
        fork.ends.append([])
        fork.at = len(fork.ends) - 1
        self.revision += 1
        return place

    def turn(self, entries: list[ChatEntry], place: int, to: int) -> None:
        """Show another end of the fork at `place`; `to` is its number."""
        fork = self.at(entries, place)
        assert fork is not None
        end = fork.ends[to]
        if to == fork.at:
            return
        self._lay_aside(entries, place, fork)
        fork.at = fork.ends.index(end)
        entries += end
        self.revision += 1

    def _lay_aside(self, entries: list[ChatEntry], place: int, fork: Fork) -> None:
        """Take the end on the screen off it; one in which nothing was said is forgotten."""
        end = entries[place:]
        if all(isinstance(entry, Notice) for entry in end):
            del fork.ends[fork.at]
        else:
            fork.ends[fork.at] = end
        del entries[place:]

    def answers(self, entries: list[ChatEntry], index: int) -> list[Answer]:
        """The answers that the one at `index` is a variant of, itself among them; none where there is no other."""
        fork = self.of(entries, index)
        if fork is None:
            return []
        own = entries[index]
        ends = [[own] if number == fork.at else end for number, end in enumerate(fork.ends)]
        found = [next((entry for entry in end if isinstance(entry, Answer)), None) for end in ends]
        return [answer for answer in found if answer is not None]


def _key(entry: ChatEntry | None) -> int:
    return 0 if entry is None else id(entry)
