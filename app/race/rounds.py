"""Whether chance may have decided a race: how sure it is, from several rounds, that one lane is slower than another."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from statistics import fmean, stdev

MOST_ROUNDS = 9
"""Rounds of a race."""

MOST_SECONDS = 3.0
"""Seconds of all lanes' clocks together that no further round may exceed: a race of a large model has one."""

SURE = 3.0
"""Standard errors that the mean of three rounds or more must be away from a draw."""

LEAST, LONG, SHORT = 1.01, 1.05, 1.8
"""Times as long as the other that a lane must take at least, to be surely slower: by three rounds or more; by one or two that
were long; by one or two that were short, where a machine's other work may stretch a clock."""


def slower(ratios: Sequence[float], *, last: bool) -> bool:
    """Whether a lane is surely slower than another.

    Args:
        ratios: its clock by the other one's, for each round.
        last: no further round will be run, as they are long or many.
    """
    logs = [log(ratio) for ratio in ratios]
    mean = fmean(logs)
    if len(logs) < 3:
        return mean > log(LONG if last else SHORT)
    return mean > max(SURE * stdev(logs) / sqrt(len(logs)), log(LEAST))
