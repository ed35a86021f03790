"""Where the time of a step goes, and the totals of an answer: acceptance, tokens per step, speedups."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..backends.base import Session


class StepClock:
    """Where a step's seconds go: the draft, the target's passes, the prompt that they took along, and the rest."""

    __slots__ = ("_begun", "_forward", "_nodes", "_session", "_verifying", "apart", "draft_seconds", "prefilled")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun = time.perf_counter()
        self._forward = self._verifying = session.forward_seconds
        self._nodes = session.nodes_evaluated
        self.draft_seconds = 0.0
        self.apart = 0.0
        """Seconds that are not the step's."""
        self.prefilled = 0
        """Prompt tokens that its passes took along."""

    def drafted(self, own: float) -> None:
        """The draft ends here. Of the target's passes until now the share `own` was drafting, with its first layers."""
        self._verifying = self._session.forward_seconds
        passes = self._verifying - self._forward
        self.draft_seconds = time.perf_counter() - self._begun - passes * (1 - own)
        self._forward += passes * own

    @property
    def verify_seconds(self) -> float:
        """Of the target's passes since the draft."""
        return self._session.forward_seconds - self._verifying

    def stop(self) -> tuple[int, float, float, float]:
        """Nodes evaluated, and the seconds of the target's passes, of the prompt's part of them, and of the rest."""
        nodes = self._session.nodes_evaluated - self._nodes - self.prefilled
        forward = self._session.forward_seconds - self._forward
        rest = time.perf_counter() - self._begun - forward - self.draft_seconds - self.apart
        prefill = forward * self.prefilled / (self.prefilled + nodes) if self.prefilled else 0.0
        return nodes, forward - prefill, prefill, rest


class StepLike(Protocol):
    """What Totals reads of a step: `loop.Step` is one, and what crosses of it. Without `tree_parents` the draft was a chain."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def checked(self) -> int: ...
    @property
    def draft_seconds(self) -> float: ...
    @property
    def forward_seconds(self) -> float: ...
    @property
    def other_seconds(self) -> float: ...
    @property
    def tree_parents(self) -> Sequence[int]: ...
    @property
    def path(self) -> Sequence[int]: ...
    @property
    def prefilled(self) -> int: ...
    @property
    def earlier(self) -> int: ...


@dataclass(slots=True)
class Totals:
    """Totals over the steps of an answer. Every ratio is 0 if there is nothing to divide by."""

    steps: int = 0
    """How many verification passes there were."""
    tokens: int = 0
    """How many tokens they produced."""
    drafted: int = 0
    """How many draft nodes were verified."""
    accepted: int = 0
    """How many of them were accepted."""
    nodes: int = 0
    """How many nodes the model evaluated."""
    checked: int = 0
    """How many near ties were decided in a pass of their own."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    other_seconds: float = 0.0
    runs: list[int] = field(default_factory=list)
    """Tokens produced by each step [steps]."""
    drafts: list[int] = field(default_factory=list)
    """Draft nodes of each step [steps]."""
    histogram: Counter[int] = field(default_factory=Counter)
    """How many steps produced each number of tokens."""
    rounds: int = 0
    """Steps that drafted and produced no more than the draft allows."""
    round_rates: float = 0.0
    """Accepted / drafted nodes of each round, summed up."""
    earlier: int = 0
    """How many tokens became certain only after the pass that found them (beam search)."""
    depth: int = 0
    """Draft tokens in depth, over all steps: what a drafter that runs a model runs it for, one after the other."""
    passes: list[list[float]] = field(default_factory=list)
    """For each number of nodes that a pass had: [nodes, passes, their seconds]; none that took prompt tokens along."""
    offered: list[int] = field(default_factory=list)
    """By draft position (0 is the first draft token): steps in which all before it was accepted and something was drafted
    there."""
    taken: list[int] = field(default_factory=list)
    """By draft position: in how many of those steps it was accepted."""

    def add(self, step: StepLike) -> None:
        """Count one step."""
        run, drafted = len(step.tokens), step.drafted
        self.steps += step.nodes > 0  # what a search has yet to give when it is left takes no pass
        self.tokens += run
        self.drafted += drafted
        self.accepted += step.accepted
        self.nodes += step.nodes
        self.earlier += step.earlier
        self.checked += step.checked
        self.draft_seconds += step.draft_seconds
        self.forward_seconds += step.forward_seconds
        self.other_seconds += step.other_seconds
        self.runs.append(run)
        self.drafts.append(drafted)
        self.histogram[run] += 1
        if drafted and run - 1 <= drafted:
            self.rounds += 1
            self.round_rates += (run - 1) / drafted
        self.depth += _depth(step.tree_parents) if drafted and step.tree_parents else drafted
        if step.forward_seconds > 0 and not step.prefilled:
            known = next((row for row in self.passes if row[0] == step.nodes), None)
            if known is None:
                self.passes.append(known := [step.nodes, 0, 0.0])
            known[1] += 1
            known[2] += step.forward_seconds
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
        if not step.tree_parents or not step.path:
            return step.drafted > step.accepted
        return step.path[-1] in step.tree_parents

    @property
    def seconds(self) -> float:
        """The time of all steps, without the prompt's prefill."""
        return self.draft_seconds + self.forward_seconds + self.other_seconds

    @property
    def tokens_per_second(self) -> float:
        """The speed of decoding alone."""
        return _ratio(self.tokens, self.seconds)

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted nodes, over the whole answer."""
        return _ratio(self.accepted, self.drafted)

    @property
    def tokens_per_step(self) -> float:
        """The compression ratio: mean accepted tokens + 1."""
        return _ratio(self.tokens, self.steps)

    @property
    def nodes_per_token(self) -> float:
        """What the speed costs: nodes evaluated per token produced; 1 in plain decoding."""
        return _ratio(self.nodes, self.tokens)

    @property
    def position_acceptance(self) -> list[float]:
        """a_j: how often draft position j was accepted, given that all positions before it were. A draft of length K then
        yields E(K) = 1 + the sum over i ≤ K of a_1 · … · a_i.
        """
        return [_ratio(taken, offered) for taken, offered in zip(self.taken, self.offered, strict=True)]

    def expected_tokens(self, length: int) -> float:
        """E(K) for K = `length`: tokens per step to expect from drafts of this length (positions never tried count as 0)."""
        out = product = 1.0
        for rate in self.position_acceptance[:length]:
            product *= rate
            out += product
        return out

    @property
    def round_acceptance(self) -> float:
        """α of the published formula: the mean over rounds of accepted / drafted nodes."""
        return _ratio(self.round_rates, self.rounds)

    @property
    def draft_token_seconds(self) -> float:
        """l_d: seconds of drafting per draft token in depth."""
        return _ratio(self.draft_seconds, self.depth)

    def pass_seconds(self, nodes: int) -> float:
        """l_t(n): seconds of a pass over n nodes, on the straight line through all passes of this answer (by least squares, its
        slope at least 0); if all had one size, their mean. 0 if there were none."""
        count = sum(passes for _, passes, _ in self.passes)
        seconds = sum(total for _, _, total in self.passes)
        if not count:
            return 0.0
        mean_nodes = sum(size * passes for size, passes, _ in self.passes) / count
        mean = seconds / count
        spread = sum(passes * (size - mean_nodes) ** 2 for size, passes, _ in self.passes)
        together = sum((size - mean_nodes) * (total - passes * mean) for size, passes, total in self.passes)
        slope = max(0.0, _ratio(together, spread))
        # A line through few sizes may fall below 0 towards small ones.
        smallest = min(total / passes for _, passes, total in self.passes)
        return max(mean + slope * (nodes - mean_nodes), smallest / 4)

    @property
    def predicted_speedup(self) -> float:
        """The speedup over plain decoding to expect from what was measured: E · l_t(1) / (d·l_d + l_t(n)), with E the tokens
        per step that the acceptance by position promises for the mean draft depth d, and n the mean nodes of a pass. 0 if
        nothing was drafted."""
        if not self.depth or not self.steps:
            return 0.0
        depth, nodes = self.depth / self.steps, self.nodes / self.steps
        whole = int(depth)
        expected = self.expected_tokens(whole)
        expected += (depth - whole) * (self.expected_tokens(whole + 1) - expected)
        return _ratio(expected * self.pass_seconds(1), depth * self.draft_token_seconds + self.pass_seconds(round(nodes)))

    @property
    def measured_speedup(self) -> float:
        """The measured speedup over plain decoding: tokens per second, over those of one-node passes with the loop's own share
        of a step."""
        plain = self.pass_seconds(1) + _ratio(self.other_seconds, self.steps)
        return self.tokens_per_second * plain

    @property
    def source_speedup(self) -> float:
        """The published formula (αK + 1) / (K·l_d/l_t + 1), with α the mean over rounds of accepted / drafted nodes and K their
        mean number: not Leviathan's α, which is the probability of a single token."""
        if not self.rounds:
            return 0.0
        alpha, length = self.round_acceptance, self.drafted / self.rounds
        return _ratio(alpha * length + 1, length * _ratio(self.draft_token_seconds, self.pass_seconds(1)) + 1)

    def what_if(self, lengths: Sequence[int], rates: Sequence[float]) -> list[list[float]]:
        """Speedup over plain decoding of a chain of K draft tokens, each accepted with probability a if all before it were:
        (1 + a + … + a^K) · l_t(1) / (K·l_d + l_t(K + 1)), with l_d and l_t as measured here.

        Returns:
            a row for each K of `lengths`, a column for each a of `rates`; 0 if no pass was measured.
        """
        one, draft = self.pass_seconds(1), self.draft_token_seconds
        return [
            [_ratio(sum(rate**i for i in range(k + 1)) * one, k * draft + self.pass_seconds(k + 1)) for rate in rates]
            for k in lengths
        ]


def _depth(parents: Sequence[int]) -> int:
    """Depth of a tree's deepest node."""
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0
