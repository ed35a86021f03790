"""The totals of an answer: acceptance, tokens per step, speedups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

from ..backends.info import MOST_NODES, plain_passes
from .step import StepRecord

LONGEST = 32
"""The longest draft that `best_length` considers."""


@dataclass(slots=True)
class DrafterTotals:
    """Counts of one of several drafters that grew trees together. A node that two of them guessed counts for both."""

    drafted: int = 0
    accepted: int = 0
    share: float = 0.0
    """Share of the nodes that it had learned to get in the last of these steps; 0 for one that learns none."""


@dataclass(frozen=True, slots=True)
class Share:
    """Counts of the thoughts, or of the answer after them. A pass that gave tokens of both is divided between them, so that the
    two add up to the whole."""

    tokens: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    drafted: float = 0.0
    accepted: float = 0.0

    def plus(self, other: Share, part: float = 1.0) -> Share:
        """Add a part of another share; a part of −1 subtracts it."""
        tokens, *rest = (max(0.0, mine + its * part) for mine, its in zip(astuple(self), astuple(other), strict=True))
        return Share(round(tokens), *rest)

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


def thought_share(step: StepRecord) -> Share:
    """Compute the part of a step that went into thoughts, by its tokens."""
    tokens = sum(row[2] for row in step.spans if row[0])
    if not tokens:
        return Share()
    whole = Share(len(step.tokens), float(step.nodes > 0), step.seconds, step.drafted, step.accepted)
    return Share().plus(whole, tokens / len(step.tokens))


@dataclass(slots=True)
class Totals:
    """Totals over the steps of an answer. Every ratio is 0 if there is nothing to divide by."""

    steps: int = 0
    """Verification passes."""
    tokens: int = 0
    """Tokens produced: accepted draft tokens and the bonus token of each pass."""
    drafted: int = 0
    """Draft nodes verified."""
    accepted: int = 0
    """Draft nodes accepted."""
    nodes: int = 0
    """Nodes that the model evaluated."""
    grammar: int = 0
    """Grammar-forced tokens."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    other_seconds: float = 0.0
    runs: list[int] = field(default_factory=list)
    """Tokens produced by each step [steps]."""
    drafts: list[int] = field(default_factory=list)
    """Draft nodes of each step [steps]."""
    earlier: int = 0
    """Tokens that became certain only after the pass that chose them (beam search)."""
    ahead: int = 0
    """Tokens that the draft model drafted ahead while the target verified."""
    wasted: int = 0
    """Tokens drafted ahead that were thrown away."""
    depth: int = 0
    """Sum of the drafts' depths: the passes of a drafter that runs a model once per level."""
    timed: int = 0
    """Steps that read no prompt tokens, whose time is that of a step alone."""
    timed_tokens: int = 0
    timed_nodes: int = 0
    timed_seconds: float = 0.0
    timed_draft_seconds: float = 0.0
    """Their part of `draft_seconds`."""
    passes: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Nodes of a pass → (timed steps that evaluated so many, sum of their `forward_seconds`)."""
    drafted_at: list[int] = field(default_factory=list)
    """Steps with a draft token at each position, from 0, and all before it accepted."""
    accepted_at: list[int] = field(default_factory=list)
    """Those of them in which it was accepted too."""
    parts: dict[str, DrafterTotals] = field(default_factory=dict)
    """Drafters that drafted together, by name; empty if the method drafted alone."""
    curve: tuple[tuple[int, float], ...] = ()
    """(nodes, seconds) of passes as measured at load; empty if unknown."""
    thought: Share = field(default_factory=Share)
    """The part that went into thoughts."""

    def add(self, step: StepRecord) -> None:
        """Count one step. Without `tree_parents` its draft was a chain."""
        run, drafted = len(step.tokens), step.drafted
        self.steps += step.nodes > 0  # a step of settled or forced tokens takes no pass
        self.tokens += run
        self.drafted += drafted
        self.accepted += step.accepted
        self.nodes += step.nodes
        self.earlier += step.earlier
        self.grammar += step.grammar
        self.ahead += step.ahead
        self.wasted += step.wasted
        self.draft_seconds += step.draft_seconds
        self.forward_seconds += step.forward_seconds
        self.other_seconds += step.other_seconds
        if step.nodes or not step.grammar:  # a step that a constraint wrote is no pass
            self.runs.append(run)
            self.drafts.append(drafted)
        self.depth += _depth(step.tree_parents) if drafted and step.tree_parents else drafted
        if not step.prefilled:
            self.timed += step.nodes > 0
            self.timed_tokens += run
            self.timed_nodes += step.nodes
            self.timed_seconds += step.seconds
            self.timed_draft_seconds += step.draft_seconds
            if step.nodes:
                count, seconds = self.passes.get(step.nodes, (0, 0.0))
                self.passes[step.nodes] = count + 1, seconds + step.forward_seconds
        reached = step.accepted + self._drafted_below(step)
        while len(self.drafted_at) < reached:
            self.drafted_at.append(0)
            self.accepted_at.append(0)
        for position in range(reached):
            self.drafted_at[position] += 1
            self.accepted_at[position] += position < step.accepted
        if step.spans:
            self.thought = self.thought.plus(thought_share(step))
        for i, name in enumerate(step.drafters):
            part = self.parts.setdefault(name, DrafterTotals())
            part.drafted += sum(source >> i & 1 for source in step.sources)
            part.accepted += sum(step.sources[node] >> i & 1 for node in step.path)
            part.share = step.shares[i] if i < len(step.shares) else 0.0

    @staticmethod
    def _drafted_below(step: StepRecord) -> bool:
        """Return whether a draft token was rejected right after the last accepted one."""
        if not step.tree_parents or not step.path:
            return step.drafted > step.accepted
        return step.path[-1] in step.tree_parents

    @property
    def answer(self) -> Share:
        """The part that went into the answer behind the thoughts."""
        return Share(self.tokens, self.steps, self.seconds, self.drafted, self.accepted).plus(self.thought, -1)

    @property
    def seconds(self) -> float:
        """Time of all steps, without the prompt's prefill."""
        return self.draft_seconds + self.forward_seconds + self.other_seconds

    @property
    def tokens_per_second(self) -> float:
        """Decoding speed without the prefill."""
        return _ratio(self.tokens, self.seconds)

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted nodes over the whole answer."""
        return _ratio(self.accepted, self.drafted)

    @property
    def tokens_per_step(self) -> float:
        """The mean accepted length, with the bonus token: accepted draft tokens a pass, plus 1."""
        return _ratio(self.tokens, self.steps)

    @property
    def own_tokens_per_step(self) -> float:
        """Mean tokens a pass without grammar-forced ones."""
        return _ratio(self.tokens - self.grammar, self.steps)

    @property
    def nodes_per_token(self) -> float:
        """Nodes evaluated per token produced; 1 in plain decoding."""
        return _ratio(self.nodes, self.tokens)

    @property
    def pass_seconds(self) -> list[tuple[int, int, float]]:
        """(nodes, passes, mean seconds of such a pass), by ascending nodes, without passes that read prompt tokens."""
        return [(nodes, count, seconds / count) for nodes, (count, seconds) in sorted(self.passes.items())]

    @property
    def position_acceptance(self) -> list[float]:
        """Acceptance per position: share of draft tokens accepted there, given that all positions before it were."""
        return [_ratio(accepted, drafted) for accepted, drafted in zip(self.accepted_at, self.drafted_at, strict=True)]

    @property
    def alpha(self) -> float:
        """α: share of draft tokens accepted, given that all before them in the draft were (defined in docs/methods.md)."""
        return _ratio(sum(self.accepted_at), sum(self.drafted_at))

    @property
    def draft_token_seconds(self) -> float:
        """l_d: seconds of drafting per draft token in depth."""
        return _ratio(self.draft_seconds, self.depth)

    def speedup(self, plain: float) -> float:
        """Divide plain decoding's time, `plain` seconds a token, by the answer's."""
        return _ratio(self.timed_tokens * plain, self.timed_seconds)

    def step_seconds(self, nodes: float, plain: float) -> float:
        """Estimate l_t(n), the seconds of a step over n nodes without its drafting.

        The curve measured at load says how much further nodes add, scaled to this answer's passes; without a curve the straight
        line through a plain step and the mean step does, which never falls.
        """
        mean = _ratio(self.timed_nodes, self.timed)
        seconds = _ratio(self.timed_seconds - self.timed_draft_seconds, self.timed)
        if len(self.curve) > 1:
            costs = plain_passes(self.curve)
            added = sum(count * (costs[min(size, MOST_NODES)] - 1) for size, (count, _) in self.passes.items())
            factor = max(0.0, seconds - plain) * self.timed / (added * plain) if added > 0 and plain else 1.0
            return plain * (1 + factor * (costs[min(round(nodes), MOST_NODES)] - 1))
        return plain + max(0.0, _ratio(seconds - plain, mean - 1)) * (nodes - 1) if mean > 1 else plain

    def what_if(self, length: int, rate: float, plain: float) -> float:
        """Estimate the speedup over plain decoding of a chain of K draft tokens, each accepted with probability α if all before
        it were: (1 + α + … + α^K) · l_t(1) / (K·l_d + l_t(K + 1)).

        Args:
            length: K.
            rate: α.
            plain: l_t(1), seconds of a plain step.
        """
        return _ratio(_expected(length, rate) * plain, length * self.draft_token_seconds + self.step_seconds(length + 1, plain))

    def best_length(self, rate: float, plain: float) -> tuple[int, float]:
        """Find the K up to LONGEST of the fastest chain, and its speedup, arguments as above; (0, 1.0) if none gains."""
        gain, best = max((self.what_if(k, rate, plain), -k) for k in range(1, LONGEST + 1))
        return (-best, gain) if gain > 1 else (0, 1.0)


def _expected(length: int, rate: float) -> float:
    return sum(rate**i for i in range(length + 1))


def _depth(parents: Sequence[int]) -> int:
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0
