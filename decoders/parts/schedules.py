"""Schedules of the draft length of a draft model: the published ones, and one from measured costs."""

from __future__ import annotations

from collections.abc import Sequence

from .costs import PassCosts

SCHEDULES = ("constant", "plus-minus-one", "heuristic", "confidence", "cost")

MEMORY = 48
"""Rounds after which an older one counts for a third in the measured acceptance."""

HOPE = (0.8, 2.0)
"""Assumed acceptance at a position that was never tried, and the number of tries that it counts for: without it no draft would
ever become longer than those before."""


class Rates:
    """Acceptance per position of the draft: a_j, the share of tokens j accepted when all before them were; recent rounds count
    most."""

    def __init__(self) -> None:
        self._accepted: list[float] = []
        self._drafted: list[float] = []

    def learn(self, drafted: int, accepted: int) -> None:
        """Learn from a round: the chain's length, and its accepted length."""
        keep = 1 - 1 / MEMORY
        for position in range(min(drafted, accepted + 1)):
            if position == len(self._accepted):
                self._accepted.append(HOPE[0] * HOPE[1])
                self._drafted.append(HOPE[1])
            self._accepted[position] = self._accepted[position] * keep + (position < accepted)
            self._drafted[position] = self._drafted[position] * keep + 1

    def at(self, position: int) -> float:
        """Return a_j for j = `position`, from 0; beyond the positions tried that of the last one."""
        if not self._accepted:
            return HOPE[0]
        last = min(position, len(self._accepted) - 1)
        return self._accepted[last] / self._drafted[last]

    def expected(self, most: int) -> list[float]:
        """Compute E(K) = 1 + Σᵢ Πⱼ≤ᵢ aⱼ, the tokens expected from a round of K draft tokens, for K = 0 … most."""
        out, product = [1.0], 1.0
        for position in range(most):
            product *= self.at(position)
            out.append(out[-1] + product)
        return out


def best_length(rates: Rates, costs: PassCosts, draft_seconds: float, most: int) -> int:
    """Find the K that maximises tokens per second, E(K) / (K·l_d + l_t(K+1)), by the measurements so far.

    Args:
        rates: acceptance by position.
        costs: seconds of the target's passes, l_t(n).
        draft_seconds: seconds per draft token, l_d.
        most: largest K.
    """
    if not costs.known:
        return min(4, most)
    expected = rates.expected(most)
    speeds: Sequence[float] = [
        expected[length] / (length * draft_seconds + costs.seconds(length + 1)) for length in range(most + 1)
    ]
    return max(range(min(1, most), most + 1), key=lambda length: speeds[length])


class Schedule:
    """The length of the next draft under one of SCHEDULES.

    constant: always `tokens`. plus-minus-one: starts at 1; one more after a round whose draft was accepted whole, one fewer
    after another. heuristic: starts at `tokens`; +2 and -1 (transformers' assisted generation). confidence: up to `most`, but
    no further than the first token less probable than the threshold. cost: see `best_length`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rates = Rates()
        self.costs = PassCosts()
        self.draft_seconds = 0.0
        """l_d: seconds per draft token, a running mean."""
        self._length = 0

    def length(self, tokens: int, most: int) -> int:
        """Return K of the next round."""
        match self.name:
            case "constant":
                return tokens
            case "confidence":
                return most
            case "cost":
                return best_length(self.rates, self.costs, self.draft_seconds, most)
            case "plus-minus-one":
                self._length = min(self._length or 1, most)
            case _:
                self._length = min(self._length or tokens, most)
        return self._length

    def learn(self, drafted: int, accepted: int, pass_nodes: int, pass_seconds: float, draft_seconds: Sequence[float]) -> None:
        """Learn from a round.

        Args:
            drafted: length of the chain.
            accepted: its accepted length.
            pass_nodes: nodes of the verifying pass.
            pass_seconds: its time.
            draft_seconds: of each pass of the draft; one may have given several of its tokens.
        """
        self.costs.learn(pass_nodes, pass_seconds)
        if not drafted:
            return
        self.rates.learn(drafted, accepted)
        seconds, mean = sum(draft_seconds) / drafted, self.draft_seconds
        weight = 1 - (1 - 1 / MEMORY) ** drafted
        self.draft_seconds = seconds if not mean else mean + weight * (min(seconds, 3 * mean) - mean)
        growth = 1 if self.name == "plus-minus-one" else 2
        # A chain cut short by the end of the answer tells nothing about the length.
        if drafted >= self._length:
            self._length = max(1, self._length + growth if accepted == drafted else self._length - 1)
