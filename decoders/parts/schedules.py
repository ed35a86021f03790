"""How many tokens a draft model drafts: the published schedules, and one from measured costs."""

from __future__ import annotations

from collections.abc import Sequence

from .costs import PassCosts

SCHEDULES = ("constant", "plus-minus-one", "heuristic", "confidence", "cost")

MEMORY = 48
"""Rounds after which an older one counts for a third in the measured acceptance."""

HOPE = (0.8, 2.0)
"""Acceptance taken for granted at a position that was never tried, and the number of tries that it is worth: without it no
draft would ever become longer than those before."""


class Rates:
    """Acceptance by position of the draft: a_j, how often token j was accepted when all before it were; recent rounds count
    most."""

    def __init__(self) -> None:
        self._taken: list[float] = []
        self._tried: list[float] = []

    def learn(self, drafted: int, accepted: int) -> None:
        """Take in a round: the chain's length, and how much of it was accepted."""
        keep = 1 - 1 / MEMORY
        for position in range(min(drafted, accepted + 1)):
            if position == len(self._taken):
                self._taken.append(HOPE[0] * HOPE[1])
                self._tried.append(HOPE[1])
            self._taken[position] = self._taken[position] * keep + (position < accepted)
            self._tried[position] = self._tried[position] * keep + 1

    def at(self, position: int) -> float:
        """a_j for j = `position`, from 0; beyond what was tried the last known one."""
        if not self._taken:
            return HOPE[0]
        last = min(position, len(self._taken) - 1)
        return self._taken[last] / self._tried[last]

    def expected(self, most: int) -> list[float]:
        """E(K) = 1 + Σᵢ Πⱼ≤ᵢ aⱼ for K = 0 … most: tokens that a round of K draft tokens is expected to produce."""
        out, product = [1.0], 1.0
        for position in range(most):
            product *= self.at(position)
            out.append(out[-1] + product)
        return out


def best_length(rates: Rates, costs: PassCosts, draft_seconds: float, most: int) -> int:
    """The K that maximises tokens per second, E(K) / (K·l_d + l_t(K+1)), from what was measured.

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
        """K of the next round."""
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
        """Take in a round.

        Args:
            drafted: length of the chain.
            accepted: how much of it was accepted.
            pass_nodes: nodes of the verifying pass.
            pass_seconds: what it took.
            draft_seconds: of each pass of the draft; one may have given several of its tokens.
        """
        self.costs.learn(pass_nodes, pass_seconds)
        if not drafted:
            return
        self.rates.learn(drafted, accepted)
        seconds, known = sum(draft_seconds) / drafted, self.draft_seconds
        weight = 1 - (1 - 1 / MEMORY) ** drafted
        self.draft_seconds = seconds if not known else known + weight * (min(seconds, 3 * known) - known)
        up, down = (1, 1) if self.name == "plus-minus-one" else (2, 1)
        # A chain cut short by the end of the answer tells nothing about the length.
        if drafted >= self._length:
            self._length = max(1, self._length + up if accepted == drafted else self._length - down)
