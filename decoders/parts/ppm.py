"""A variable-order model of the text so far: each earlier match of the last tokens votes on the next one.

Prediction by partial matching (Cleary and Witten 1984, https://doi.org/10.1109/TCOM.1984.1096090) blends the successors of the
last n tokens over all n and leaves part of the probability to what never followed. Here the blend is over *occurrences*:

    P(t) = (sum of w over the occurrences that t followed) / (sum of w over all occurrences + E)

An occurrence's weight w grows with the length of its match, and falls where a longer match is known and where later occurrences
match as well. So agreement adds up, and the longest match counts most. E, the escape, is the weight of a token that followed
none of them; it grows with the number of ways in which the longest match went on. The text's most frequent tokens share it. The
weight of matches of a length is learned while the answer is written.

The priors below were fitted by maximum likelihood on documents, source code and synthetic edits of both (49,000 tokens), then
rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .ngrams import LONGEST, ORDERS, NgramIndex

Occurrence = tuple[int, int, int]
"""(index of the token that followed, length of the match, index to continue from at the end of the text). A match of the text's
last tokens that is copied up to the end goes on copying its draft, as LZ77 does: from where it began. One of a guessed tail
ends there (-1)."""

FREQUENT = 24
"""Number of frequent tokens tracked: in English a tenth of them cover about a third of a text, and later ones are too rare."""

YOUNG = 50
"""Tokens, all different, that are added to a text's count, so that a short one is not sure of its frequencies."""

RANKS = (1.2, 1.05, 0.8, 0.5)
"""Factor by the number of later occurrences with the same length of match: the last time counts most. The last entry holds for
all higher numbers."""

ESCAPE = (1.0, 0.42, 1.1, 2.2)
"""E by the number of different successors of the longest match. The last entry holds for all higher numbers."""

EVIDENCE_LIMIT = 8.0
"""Learning moves the weight of a match by no more than this factor from the prior, either way."""

RECYCLED = 4.0
"""Weight of a certain guess of recycled successors. With 1 instead of 4 the built-in model's facts take 9% more steps; 8 is a
little better still there, but its tokens are surer of their successors than a larger model's."""

SUREST = 2 * LONGEST
"""Greatest length of a match that is counted: copies end, however long they have been."""


def prior(match: int) -> float:
    """Weigh an occurrence by the length of its match: 0.2, 0.48, 0.79, 1.1 … 2.7 at 8, 15 at 32.

    The only occurrence is right with w · RANKS[0] / (w · RANKS[0] + ESCAPE[1]): 0.36, 0.58, 0.69, 0.76 … 0.88, 0.98.
    """
    return 0.2 * math.pow(match, 1.25)


KIND = [0, 1, 2, 3, *(min(match.bit_length() + 1, 6) for match in range(4, SUREST + 1))]
"""Kind of evidence by length of the match: 1, 2, 3, 4 … 7, 8 … 15, 16 and more tokens are learned together. 0 is recycled."""

PAST = KIND[-1]
"""Added to the kind of a match in past answers."""

KINDS = KIND[-1] + PAST + 1
"""Number of kinds of evidence."""

PAST_PRIOR = 0.4
"""Weight of an occurrence in past answers, relative to one in the text with the same match."""


class ContextModel(NgramIndex):
    """The index of all n-grams, the frequencies of single tokens, and any node's earlier occurrences."""

    def clear(self) -> None:
        super().clear()
        self._count: dict[int, int] = {}
        self._frequent: list[int] = []  # most frequent first
        self._place: dict[int, int] = {}

    def append(self, token: int) -> None:
        super().append(token)
        count, frequent, place = self._count, self._frequent, self._place
        n = count[token] = count.get(token, 0) + 1
        at = place.get(token)
        if at is None:
            if len(frequent) < FREQUENT:
                frequent.append(token)
            elif count[frequent[-1]] < n:
                del place[frequent[-1]]
                frequent[-1] = token
            else:
                return
            at = place[token] = len(frequent) - 1
        while at and count[frequent[at - 1]] < n:  # at most FREQUENT moves
            other = frequent[at] = frequent[at - 1]
            place[other] = at
            at -= 1
        frequent[at] = token
        place[token] = at

    def frequent(self, most: int) -> list[tuple[int, float]]:
        """List the most frequent tokens as (token, share of the text), falling."""
        total, count = len(self.tokens) + YOUNG, self._count
        return [(token, count[token] / total) for token in self._frequent[:most]]

    def after(self, tail: Sequence[int], out: list[Occurrence], limit: int) -> None:
        """Add occurrences of a guessed tail's last tokens to `out`: the longest match first, among equals the latest.

        Args:
            tail: the last tokens, guessed ones included; ORDERS of them are enough.
            out: occurrences to add to, none of them twice.
            limit: most entries that `out` may come to.
        """
        first, last, before = self._first, self._last, self._before
        name, names = 0, []
        for n, token in enumerate(reversed(tail)):
            longer = first[n].get(name << 32 | token) if n < ORDERS else None
            if longer is None:
                break
            name = longer
            names.append(name)
        if not names:
            return
        visited = {follows for follows, _, _ in out}
        end = len(self.tokens)
        # The search is bounded as well: most of a long chain may be in `out` already.
        steps = limit + len(out)
        for n in range(len(names) - 1, -1, -1):
            at = last[names[n] * ORDERS + n]
            if at < 0:
                at = names[n]  # it occurred once
            while at >= 0 and steps:
                steps -= 1
                follows = at + 1
                if follows < end and follows not in visited:
                    visited.add(follows)
                    out.append((follows, n + 1, -1))
                    if len(out) >= limit:
                        return
                at = before[at * ORDERS + n]


class EvidenceWeights:
    """The weight of a match of each length: the prior, corrected by verified guesses.

    Online gradient descent on the log-likelihood of the target's choice: a kind of evidence gains by its share in the weight
    of the token that was right, and loses by its share in all weight.
    """

    def __init__(self) -> None:
        self._prior = [0.0, *(prior(m) for m in range(1, SUREST + 1))]
        self._log = [0.0] * KINDS
        self.recycled = RECYCLED
        """Factor of recycled successors."""
        self.match = self._prior.copy()
        """[SUREST + 1] weight by length of the match."""
        self.past = [PAST_PRIOR * weight for weight in self._prior]
        """The same for matches in past answers."""

    def learn(self, right: Sequence[float], total: Sequence[float], everything: float, rate: float) -> None:
        """Learn from one choice of the target.

        Args:
            right: weight of each kind of evidence for the token chosen [KINDS]; all 0 where no evidence proposed it.
            total: weight of each kind of evidence for any token [KINDS].
            everything: the sum of `total` and the escape.
            rate: step of the logarithm.
        """
        bound = math.log(EVIDENCE_LIMIT)
        chosen = sum(right) or 1.0
        for k, weight in enumerate(total):
            if weight:
                step = rate * (right[k] / chosen - weight / everything)
                self._log[k] = max(-bound, min(bound, self._log[k] + step))

    def refresh(self) -> None:
        """Recompute the weights from the logarithms learned."""
        factors = [math.exp(log) for log in self._log]
        self.recycled = RECYCLED * factors[0]
        self.match = [weight * factors[k] for weight, k in zip(self._prior, KIND, strict=True)]
        self.past = [PAST_PRIOR * weight * factors[PAST + k] for weight, k in zip(self._prior, KIND, strict=True)]
