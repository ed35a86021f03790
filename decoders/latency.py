"""What an answer would take, from counts alone: the latency curve of a model on a device.

The seconds of an answer are

    prefill(prompt) + sum over its passes of l(nodes of the pass) + drafting

with l(n) the seconds of a pass over n nodes, behind as much text as there is in the middle of the answer. Speedup is the ratio
of two such sums, so a curve is good for it even if only its proportions are known.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NUMBERS = ("prefill_start", "prefill_token", "context", "context_pass", "context_node")
"""What a curve consists of besides its passes: tokens and seconds, 0 where they are not known."""


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """Seconds by the size of a pass, for one model on one device."""

    passes: tuple[tuple[int, float], ...]
    """(nodes, seconds) by ascending nodes; at least one."""
    prefill_start: float = 0.0
    """Seconds of a prefill whatever its length."""
    prefill_token: float = 0.0
    """Seconds of a prefill for each token of the prompt."""
    context: float = 0.0
    """Tokens in the cache when `passes` were measured."""
    context_pass: float = 0.0
    """Seconds of a pass for each token in the cache beyond these."""
    context_node: float = 0.0
    """The same, for each node after the first."""

    def __post_init__(self) -> None:
        """Refuse a curve that is none.

        Raises:
            ValueError: no points, points that do not rise in nodes, or seconds that are not positive numbers.
        """
        nodes = [n for n, _ in self.passes]
        if not nodes or nodes != sorted(set(nodes)) or nodes[0] < 1:
            raise ValueError("passes are [nodes, seconds], with nodes from 1 upwards, each size once")
        if not all(math.isfinite(s) and s > 0 for _, s in self.passes):
            raise ValueError("passes take more than 0 seconds")
        if not all(math.isfinite(value) and value >= 0 for value in (getattr(self, key) for key in NUMBERS)):
            raise ValueError(f"{', '.join(NUMBERS)} are 0 or more")

    def seconds(self, nodes: int, context: float | None = None) -> float:
        """l(nodes): on the straight line between its neighbours, beyond the last point on the line of the last two.

        Args:
            nodes: of the pass.
            context: tokens in the cache; as many as when the curve was measured if None.
        """
        beyond = 0.0 if context is None else context - self.context
        more = beyond * (self.context_pass + self.context_node * (nodes - 1))
        least = min(s for _, s in self.passes) / 2
        if len(self.passes) == 1:
            return max(self.passes[0][1] + more, least)
        at = min(max(bisect_left(self.passes, (nodes, 0.0)), 1), len(self.passes) - 1)
        (n0, s0), (n1, s1) = self.passes[at - 1], self.passes[at]
        # A line through two noisy points may fall towards zero: no pass is faster than half the fastest one known.
        return max(s0 + (s1 - s0) * (nodes - n0) / (n1 - n0) + more, least)

    def prefill(self, prompt: int) -> float:
        """Seconds of a prefill of `prompt` tokens; it gives the first token."""
        return self.prefill_start + self.prefill_token * prompt

    def plain(self, prompt: int, tokens: int) -> float:
        """Seconds of a plain answer of `tokens` tokens."""
        return self.prefill(prompt) + (tokens - 1) * self.seconds(1, prompt + tokens / 2)

    def drafting(self, prompt: int, passes: Mapping[int, int], draft_seconds: float = 0.0, tokens: int = 0) -> float:
        """Seconds of an answer with a drafting method.

        Args:
            prompt: tokens of the prompt.
            passes: how many passes had each number of nodes, the prefill left out.
            draft_seconds: of the drafter itself.
            tokens: of the answer.
        """
        middle = prompt + tokens / 2
        counted = sum(count * self.seconds(nodes, middle) for nodes, count in passes.items())
        return self.prefill(prompt) + counted + draft_seconds

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `curve_of` takes it."""
        return {**asdict(self), "passes": [list(point) for point in self.passes]}


def curve_of(data: Mapping[str, Any]) -> LatencyCurve:
    """A curve from plain data.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    passes = tuple(sorted((int(n), float(s)) for n, s in data["passes"]))
    return LatencyCurve(passes, **{key: float(data.get(key, 0.0)) for key in NUMBERS})
