"""Evidence beside the text itself for what follows: the model's own recycled successors; others fit the same interface."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..base import Context, Verified

Guesses = Sequence[tuple[int, float]]
"""(token, probability) pairs whose probabilities sum to at most 1."""


class Evidence(ABC):
    """A source of guesses for a node of the tree. Its probabilities are weighed, by what they proved worth, against the
    matches in the text, so they need not be calibrated. At first a guess with certainty weighs as `ppm.OTHER` says: as much as
    a match of eleven tokens, where no match is longer than `span`."""

    span: int = 1 << 30
    """Tokens of context that it knows: longer matches in the text leave it a fraction of its weight, as shorter ones."""

    def follow(self, context: Context) -> None:  # noqa: B027
        """Told before each step; catch up with the text."""

    @abstractmethod
    def guess(self, tail: Sequence[int]) -> Guesses:
        """What may follow these last tokens, the tree's guessed ones included. Called for every node that is expanded: it
        must take a microsecond or two."""

    def learn(self, verified: Verified) -> None:  # noqa: B027
        """Told after each step."""


class Recycled(Evidence):
    """The most probable successors that the model itself gave each token the last time, accepted or not.

    Token recycling, Luo 2024, https://arxiv.org/abs/2408.08696.
    """

    span = 1

    KEPT = 8192
    """Tokens remembered, the least recently renewed forgotten first: about 4 MB at 8 successors each."""

    def __init__(self, k: int) -> None:
        self.k = k
        self._successors: dict[int, Guesses] = {}

    def guess(self, tail: Sequence[int]) -> Guesses:
        return self._successors.get(tail[-1], ())

    def learn(self, verified: Verified) -> None:
        successors, tokens = self._successors, verified.tree.tokens
        rows = verified.scores.top(self.k)
        # The accepted path last: of a token that occurs twice, what followed it in the text itself stays.
        for node in (*range(len(tokens)), *verified.path):
            token = tokens[node]
            successors.pop(token, None)  # so that it becomes the newest entry
            successors[token] = [(other, math.exp(log)) for other, log in rows[node]]
        while len(successors) > self.KEPT:
            del successors[next(iter(successors))]
