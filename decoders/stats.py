"""What an answer's steps add up to: acceptance, tokens per step, where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .base import Tree


class StepLike(Protocol):
    """What Totals reads of a step (`loop.Step` is one)."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def draft_seconds(self) -> float: ...
    @property
    def forward_seconds(self) -> float: ...
    @property
    def other_seconds(self) -> float: ...
    @property
    def tree(self) -> Tree | None: ...
    @property
    def path(self) -> Sequence[int]: ...


@dataclass(slots=True)
class Totals:
    """Sums over the steps of an answer; its fields are plain data. Every ratio is 0 where there is nothing to divide by."""

    steps: int = 0
    """Verification passes."""
    tokens: int = 0
    """Tokens produced."""
    drafted: int = 0
    """Draft nodes that were up for verification."""
    accepted: int = 0
    """How many of them were accepted."""
    nodes: int = 0
    """Nodes that went through the model."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    other_seconds: float = 0.0
    runs: list[int] = field(default_factory=list)
    """Tokens that each step produced [steps]."""
    offered: list[int] = field(default_factory=list)
    """By draft position (0 is the first draft token): steps in which all before it was accepted and something was drafted
    there."""
    taken: list[int] = field(default_factory=list)
    """By draft position: in how many of those steps it was accepted."""

    def add(self, step: StepLike) -> None:
        """Count one step."""
        self.steps += 1
        self.tokens += len(step.tokens)
        self.drafted += step.drafted
        self.accepted += step.accepted
        self.nodes += step.nodes
        self.draft_seconds += step.draft_seconds
        self.forward_seconds += step.forward_seconds
        self.other_seconds += step.other_seconds
        self.runs.append(len(step.tokens))
        reached = step.accepted + self._drafted_below(step)
        while len(self.offered) < reached:
            self.offered.append(0)
            self.taken.append(0)
        for position in range(reached):
            self.offered[position] += 1
            self.taken[position] += position < step.accepted

    @staticmethod
    def _drafted_below(step: StepLike) -> bool:
        """Whether anything was drafted after the last accepted token, that is, whether a draft token was refused there."""
        if step.tree is None or not step.path:
            return step.drafted > step.accepted
        return step.path[-1] in step.tree.parents

    @property
    def seconds(self) -> float:
        """Time of all steps; the prompt's prefill is not in it."""
        return self.draft_seconds + self.forward_seconds + self.other_seconds

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding alone."""
        return _ratio(self.tokens, self.seconds)

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted nodes."""
        return _ratio(self.accepted, self.drafted)

    @property
    def tokens_per_step(self) -> float:
        """The compression ratio: mean accepted tokens + 1."""
        return _ratio(self.tokens, self.steps)

    @property
    def nodes_per_token(self) -> float:
        """What the speed costs: nodes evaluated for each token produced, 1 in plain decoding."""
        return _ratio(self.nodes, self.tokens)

    @property
    def position_acceptance(self) -> list[float]:
        """a_j: how often draft position j was accepted, given that all positions before it were.

        With them a draft of length K yields E(K) = 1 + sum over i ≤ K of the product of the first i of them.
        """
        return [_ratio(taken, offered) for taken, offered in zip(self.taken, self.offered, strict=True)]

    def expected_tokens(self, length: int) -> float:
        """E(K) for K = `length`: tokens per step to expect of drafts of this length (positions never tried count as 0)."""
        out = product = 1.0
        for rate in self.position_acceptance[:length]:
            product *= rate
            out += product
        return out

    @property
    def histogram(self) -> dict[int, int]:
        """How many steps produced each number of tokens, by ascending number."""
        return dict(sorted(Counter(self.runs).items()))


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0
