"""The worth of guesses, learned from the text: of a match, of a drafter's own probabilities, of each draft model."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence

ODDS, POWER, SUREST = 0.5, 1.1, 12
"""After a match of m tokens the odds on the next one are at first taken to be ODDS · m^POWER: 1 to 2 after one token, 5 to 1
after 8. One of more than SUREST tokens is no surer: a copied sentence ends where it ends."""

RATE = 0.25
"""Step of the logarithm of the odds for each match, times the error of its probability."""

LONGEST = 512
"""Longest match that may be asked for."""

USUAL: list[float] = [ODDS * min(m, SUREST) ** POWER for m in range(LONGEST + 1)]
"""Odds by length of the match."""


class Reliability:
    """Probability that a match of m tokens goes on with the token that followed it.

    Longer matches are surer, in much the same way in every text; but some texts repeat themselves word by word and others with
    changes. So one number is learned, by which the odds are multiplied: logistic regression, a step of it for each match.
    """

    def __init__(self) -> None:
        self._log = 0.0
        self.factor = 1.0
        """Factor of the odds of USUAL."""

    def __getitem__(self, match: int) -> float:
        """Return the probability after a match of this length, at most LONGEST."""
        odds = USUAL[match] * self.factor
        return odds / (1 + odds)

    def restart(self) -> None:
        """Begin another text: half of the last one's lesson holds for it."""
        self._log /= 2
        self.factor = math.exp(self._log)

    def learn(self, match: int, right: bool) -> None:
        """Learn whether the text continued a match of this length."""
        odds = USUAL[match] * self.factor
        self._log += RATE * (right - odds / (1 + odds))
        self.factor = math.exp(self._log)


MEMORY = 320
"""Nodes after which an older one counts for a third."""

FORGIVING = 200
"""Steps in which a bin that is not drafted from regains two thirds of its loss."""

REFRESH = 8
"""Steps without a draft for which a threshold is reused: it changes by a few per cent in that time."""

PRIOR = 24.0
"""Draft nodes of each bin that are taken to have been accepted as often as they promised."""


class Calibration:
    """Factors by the size of a probability, in bins: nodes that were accepted over nodes that should have been.

    A bin that is no longer drafted from slowly returns to a factor of 1, so that it is tried again.
    """

    EDGES = (0.05, 0.15, 0.35, 0.7)

    def __init__(self) -> None:
        self._expected = [PRIOR * p for p in (0.02, 0.1, 0.25, 0.5, 0.85)]
        self._accepted = self._expected.copy()
        self.factors = [1.0] * len(self._expected)
        self._quiet = 0
        """Steps without a draft that are not learned from yet."""
        self._threshold: tuple[float, float] | None = None
        """A floor, and the last `threshold` of it."""

    def _bin(self, probability: float) -> int:
        return bisect_left(self.EDGES, probability)

    def learn(self, probabilities: Sequence[float], accepted: Collection[int]) -> None:
        """Learn from a tree: the probability of each node, and the accepted nodes. Node 0 does not count."""
        if len(probabilities) < 2:  # on free text that is almost every step, so it must cost next to nothing
            self._quiet += 1
            if self._quiet >= REFRESH:
                self._learn_quiet()
            return
        self._learn_quiet()
        keep = 1 - 1 / MEMORY
        drafted = {self._bin(probability) for probability in probabilities[1:]}
        for i in range(len(self._expected)):
            if i not in drafted:
                self._accepted[i] += (self._expected[i] - self._accepted[i]) / FORGIVING
        for node in range(1, len(probabilities)):
            i = self._bin(probabilities[node])
            self._expected[i] = self._expected[i] * keep + probabilities[node]
            self._accepted[i] = self._accepted[i] * keep + (node in accepted)
        self._weigh()

    def threshold(self, floor: float) -> float:
        """Find the least probability down to which all are at least `floor` after correction; above 1 if none is."""
        if self._quiet < REFRESH and self._threshold is not None and self._threshold[0] == floor:
            return self._threshold[1]
        self._learn_quiet()
        least = 2.0
        for i in range(len(self.EDGES), -1, -1):
            lower, upper = (0.0, *self.EDGES)[i], (*self.EDGES, 1.0)[i]
            factor = self._accepted[i] / self._expected[i]
            if upper * factor < floor:
                break
            least = max(lower, floor / factor) if factor else 0.0
            if least > lower:
                break
        self._threshold = floor, least
        return least

    def _learn_quiet(self) -> None:
        left = (1 - 1 / FORGIVING) ** self._quiet
        for i, expected in enumerate(self._expected):
            self._accepted[i] = expected + (self._accepted[i] - expected) * left
        self._quiet = 0
        self._threshold = None
        self._weigh()

    def _weigh(self) -> None:
        self.factors = [accepted / expected for accepted, expected in zip(self._accepted, self._expected, strict=True)]


ROUNDS = 32
"""Rounds of several draft models after which an older one counts for a third."""


class Shares:
    """Shares of several draft models in the nodes of the tree that they grow together.

    A model's worth is the accepted tokens that the other models had not guessed, summed over the last rounds. Its share is its
    worth over that of all, one token added to each (Laplace's rule of succession), so that no share is ever 0. A model that is
    owed too few nodes for a chain sits the round out, which saves its passes, and keeps its nodes for a later round.
    """

    def __init__(self, count: int) -> None:
        self._worth = [0.0] * count
        self._owed = [0.0] * count

    def __len__(self) -> int:
        return len(self._worth)

    def fractions(self) -> list[float]:
        """Compute the share of each model; they sum to 1."""
        total = sum(self._worth) + len(self)
        return [(1 + worth) / total for worth in self._worth]

    def allot(self, nodes: int, chain: int) -> list[int]:
        """Divide the nodes of one round, before the models guess, as rejection sampling needs.

        Args:
            nodes: draft nodes of the tree.
            chain: nodes of the shortest draft worth a model's passes.

        Returns:
            draft nodes for each model, 0 for one that sits this round out. They sum to `nodes`.
        """
        shares = self.fractions()
        self._owed = [owed + share * nodes for owed, share in zip(self._owed, shares, strict=True)]
        out, left, least = [0] * len(self), nodes, min(chain, nodes // len(self))
        if not least:  # fewer nodes than models
            return [nodes, *out[1:]]
        first = max(range(len(self)), key=lambda i: shares[i])
        for i in sorted(set(range(len(self))) - {first}, key=lambda i: -self._owed[i]):
            most = min(int(self._owed[i]), left - least)
            if most >= least:
                out[i] = most
                self._owed[i] -= most
                left -= most
        out[first] = left
        self._owed[first] = 0.0
        return out

    def learn(self, lengths: Sequence[int | None]) -> None:
        """Learn from a round: the number of accepted tokens that each model had guessed; None for one that sat it out."""
        guessed = [length for length in lengths if length is not None]
        if len(guessed) < 2:
            return
        best = max(guessed)
        # Of two models that guess the same each could replace the other: they divide their lead over the rest.
        lead = best - max((length for length in guessed if length < best), default=best)
        for i, length in enumerate(lengths):
            if length is not None:
                self._worth[i] += (lead / guessed.count(best) if length == best else 0.0) - self._worth[i] / ROUNDS
