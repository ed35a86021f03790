"""What the figures page needs of an answer's steps, kept up step by step: drawing costs the same however long the answer is."""

from __future__ import annotations

from collections import Counter

from ..text.charts import Trend
from .totals import Totals


class Tally:
    """Follows an answer's totals. `follow` takes in the steps since the last call."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self.runs: Counter[int] = Counter()
        """How many steps produced each number of tokens."""
        self.trend = Trend()
        """Tokens of each step."""
        self._seen = 0
        self._rounds = 0
        self._alpha = 0.0

    def follow(self) -> None:
        """Take in what came since the last call."""
        totals = self.totals
        for index in range(self._seen, len(totals.runs)):
            run, drafted = totals.runs[index], totals.drafts[index]
            self.runs[run] += 1
            self.trend.add(run)
            if drafted and run - 1 <= drafted:
                self._rounds += 1
                self._alpha += (run - 1) / drafted
        self._seen = len(totals.runs)

    @property
    def alpha(self) -> float:
        """α of the published formula: the mean over rounds of accepted / drafted nodes."""
        return self._alpha / self._rounds if self._rounds else 0.0

    @property
    def source_speedup(self) -> float:
        """As `Totals.source_speedup`, which goes through all steps at each call: (αK + 1) / (K·l_d/l_t + 1)."""
        one = self.totals.pass_seconds(1)
        if not self._rounds:
            return 0.0
        length = self.totals.drafted / self._rounds
        relative = self.totals.draft_token_seconds / one if one else 0.0
        return (self.alpha * length + 1) / (length * relative + 1)
