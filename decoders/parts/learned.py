"""What guesses are worth, learned from the text as it is written: of a match, of a drafter's own probabilities, and of each of
several draft models."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence

ODDS, POWER, SUREST = 0.5, 1.1, 12
"""After a match of m tokens the odds on the next one are at first taken to be ODDS · m^POWER: 1 to 2 after one token, 5 to 1
after 8. One of more than SUREST tokens is no surer: a copied sentence ends where it ends."""

RATE = 0.25
"""How far one match moves the logarithm of the odds, for each probability that it was off by."""

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
        """What the odds of USUAL are multiplied by."""

    def __getitem__(self, match: int) -> float:
        """The probability after a match of this length, at most LONGEST."""
        odds = USUAL[match] * self.factor
        return odds / (1 + odds)

    def restart(self) -> None:
        """Begin another text: half of what the last one taught holds for it."""
        self._log /= 2
        self.factor = math.exp(self._log)

    def learn(self, match: int, right: bool) -> None:
        """Take in whether the text went on as it had done after a match of this length."""
        odds = USUAL[match] * self.factor
        self._log += RATE * (right - odds / (1 + odds))
        self.factor = math.exp(self._log)


MEMORY = 320
"""Nodes after which an older one counts for a third."""

FORGIVING = 200
"""Steps in which a size that is not drafted gets back two thirds of what it lost."""

REFRESH = 8
"""Steps without a draft for which a threshold is kept: it changes by a few per cent in that time."""

PRIOR = 24.0
"""Draft nodes of each size that are taken to have proved right as often as they promised."""


class Calibration:
    """Factors by the size of a probability: nodes that were accepted over nodes that should have been.

    A size that is no longer drafted tells nothing any more; it slowly gets back its good name, so that it is tried again.
    """

    EDGES = (0.05, 0.15, 0.35, 0.7)

    def __init__(self) -> None:
        self._expected = [PRIOR * p for p in (0.02, 0.1, 0.25, 0.5, 0.85)]
        self._accepted = self._expected.copy()
        self.factors = [1.0] * len(self._expected)
        """By size of a probability: what it is worth, as a factor."""
        self._quiet = 0
        """Steps without a draft that are not taken in yet."""
        self._threshold: tuple[float, float] | None = None
        """A floor, and what `threshold` said of it."""

    def _bin(self, probability: float) -> int:
        return bisect_left(self.EDGES, probability)

    def learn(self, probabilities: Sequence[float], accepted: Collection[int]) -> None:
        """Take in a tree: a probability for each node, and which nodes were accepted. Node 0 does not count."""
        if len(probabilities) < 2:  # on free text that is almost every step, so it must cost next to nothing
            self._quiet += 1
            if self._quiet >= REFRESH:
                self._take_in_quiet()
            return
        self._take_in_quiet()
        keep = 1 - 1 / MEMORY
        seen = {self._bin(probability) for probability in probabilities[1:]}
        for i in range(len(self._expected)):
            if i not in seen:
                self._accepted[i] += (self._expected[i] - self._accepted[i]) / FORGIVING
        for node in range(1, len(probabilities)):
            i = self._bin(probabilities[node])
            self._expected[i] = self._expected[i] * keep + probabilities[node]
            self._accepted[i] = self._accepted[i] * keep + (node in accepted)
        self._weigh()

    def threshold(self, floor: float) -> float:
        """The least probability down to which all are worth `floor` after correction; above 1 if none is."""
        if self._quiet < REFRESH and self._threshold is not None and self._threshold[0] == floor:
            return self._threshold[1]
        self._take_in_quiet()
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

    def _take_in_quiet(self) -> None:
        left = (1 - 1 / FORGIVING) ** self._quiet
        for i, expected in enumerate(self._expected):
            self._accepted[i] = expected + (self._accepted[i] - expected) * left
        self._quiet, self._threshold = 0, None
        self._weigh()

    def _weigh(self) -> None:
        self.factors = [accepted / expected for accepted, expected in zip(self._accepted, self._expected, strict=True)]


ROUNDS = 32
"""Rounds of several draft models after which an older one counts for a third."""


class Shares:
    """How several draft models divide the nodes of the tree that they grow together.

    A model is worth what would be missed without it: the accepted tokens that the others had not guessed, summed over the last
    rounds. Its share is its worth over that of all, one token added to each (Laplace's rule of succession), so that nobody's
    share is ever nothing. A model that is owed too few nodes for a chain sits the round out, which saves its passes, and its
    nodes are put by for a later round.
    """

    def __init__(self, count: int) -> None:
        self._worth = [0.0] * count
        self._owed = [0.0] * count

    def __len__(self) -> int:
        return len(self._worth)

    def of_all(self) -> list[float]:
        """The share of each model; they sum to 1."""
        total = sum(self._worth) + len(self)
        return [(1 + worth) / total for worth in self._worth]

    def allot(self, nodes: int, chain: int) -> list[int]:
        """Divide the nodes of one round. It knows nothing of what the models are about to guess, as rejection sampling needs.

        Args:
            nodes: draft nodes of the tree.
            chain: nodes of the shortest draft worth a model's passes.

        Returns:
            draft nodes for each model, 0 for one that sits this round out. They sum to `nodes`.
        """
        shares = self.of_all()
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
        out[first], self._owed[first] = left, 0.0
        return out

    def learn(self, lengths: Sequence[int | None]) -> None:
        """Take in a round: how many accepted tokens each model had guessed; None for one that sat it out."""
        known = [length for length in lengths if length is not None]
        if len(known) < 2:
            return
        best = max(known)
        # Of two that guess the same neither would be missed, yet both would: they divide what they had over the others.
        more = best - max((length for length in known if length < best), default=best)
        for i, length in enumerate(lengths):
            if length is not None:
                self._worth[i] += (more / known.count(best) if length == best else 0.0) - self._worth[i] / ROUNDS
