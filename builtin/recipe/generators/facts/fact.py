"""A fact: one topic, with one wording of its answer.

A model of this size learns one sentence well, or five badly.
"""

from typing import NamedTuple


class Fact(NamedTuple):
    """One topic: how people call it, the answer in a sentence, the rest of the longer answer, and the words that count."""

    names: tuple[str, ...]
    short: str
    more: str
    key: str

    @property
    def answer(self) -> str:
        """The longer answer."""
        return f"{self.short} {self.more}"


def fact(names: str, short: str, more: str) -> Fact:
    """The words that an answer must contain to be right stand in square brackets."""
    key = short[short.index("[") + 1 : short.index("]")]
    return Fact(tuple(names.split("|")), short.replace("[", "").replace("]", ""), more, key)
