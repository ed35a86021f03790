"""How often the next token of a match proves right: learned from the text as it is written, drafted or not."""

from __future__ import annotations

import math

ODDS, POWER = 0.5, 1.1
"""After a match of m tokens the odds on the next one are at first taken to be ODDS · m^POWER: 1 to 2 after one token, 5 to 1
after 8, 23 to 1 after 32."""

RATE = 0.25
"""How far one match moves the logarithm of the odds, for each probability that it was off by."""

LONGEST = 512
"""Longest match that may be asked for."""

USUAL: list[float] = [ODDS * m**POWER for m in range(LONGEST + 1)]
"""Odds by length of the match."""


class Reliability:
    """Probability that a match of m tokens goes on with the token that followed it.

    Longer matches are surer, in much the same way in every text; but some texts repeat themselves word by word and others with
    changes. So one number is learned, by which the odds are multiplied: logistic regression, a step of it for each match.
    """

    def __init__(self) -> None:
        self._log = 0.0
        self.factor = 1.0
        """By which the odds of USUAL are multiplied."""

    def __getitem__(self, match: int) -> float:
        """The probability after a match of this length, at most LONGEST."""
        odds = USUAL[match] * self.factor
        return odds / (1 + odds)

    def learn(self, match: int, right: bool) -> None:
        """Take in whether the text went on as it had done after a match of this length."""
        self._log += RATE * (right - self[match])
        self.factor = math.exp(self._log)
