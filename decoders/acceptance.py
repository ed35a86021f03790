"""Which draft tokens are accepted: by exact match, rejection sampling, soft or typical acceptance.

Exact match works for greedy decoding and for sampling, for chains and for trees: the target's own choice decides.
Rejection sampling: Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (2023),
arXiv:2211.17192; Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling" (2023), arXiv:2302.01318.
On a tree, of one draft model or several: Miao et al., "SpecInfer" (2023), arXiv:2305.09781, and, for siblings sampled without
replacement, Jeon et al., "Recursive Speculative Decoding" (2024), arXiv:2402.14160. Whole paths: Sun et al., "Block
Verification Accelerates Speculative Decoding" (2024), arXiv:2403.10444, on a chain, and Weng et al., "Traversal Verification
for Speculative Tree Decoding" (2025), arXiv:2505.12398, on a tree. Typical acceptance: Cai et al., "Medusa" (2024),
arXiv:2401.10774.

Below, p is the target's probability after the sampling filters and q the draft's, of one token after one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..backends.base import Sampling, Scores
from ..backends.info import Label
from ..backends.sampling import Purpose, uniform
from ..errors import UserError
from .tree import Tree

Rule = Literal["exact", "rejection", "soft", "typical"]

Histories = Callable[[int], Sequence[int]]
"""All tokens up to and including a node."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """When a draft token is accepted."""

    rule: Rule = "exact"
    """exact: if it is the target's own choice; rejection: with a probability that follows from p and q, else draw from the
    residual (whole paths from the leaves up; token by token from the root down where branches share draws); soft and typical
    are lossy."""
    beta: float = 0.0
    """soft: accept iff q ≤ p or 1 − p/q < beta; 0 accepts only q ≤ p, 1 all."""
    epsilon: float = 0.3
    """typical, with `delta`: accept iff p > min(epsilon, delta · exp(−entropy of p))."""
    delta: float = 0.09

    @property
    def label(self) -> Label:
        """The best label that a method can have under this rule."""
        match self.rule:
            case "exact":
                return "identical"
            case "rejection":
                return "same distribution"
            case _:
                return "lossy"

    def __str__(self) -> str:
        """Write the rule in the form that `parse` reads."""
        match self.rule:
            case "soft":
                return f"soft:{self.beta:g}"
            case "typical":
                return f"typical:{self.epsilon:g},{self.delta:g}"
            case rule:
                return rule

    @classmethod
    def parse(cls, text: str) -> Acceptance:
        """Read a rule from text: exact, rejection, soft:BETA, typical or typical:EPSILON,DELTA.

        Raises:
            UserError: the text is none of these, or a number is malformed or out of range.
        """
        rule, _, numbers = text.strip().lower().partition(":")
        try:
            values = [float(number) for number in numbers.split(",") if number.strip()]
        except ValueError:
            values = [math.nan]
        match rule, values:
            case "exact" | "rejection", []:
                return cls("exact" if rule == "exact" else "rejection")
            case "soft", [] | [_]:
                beta = values[0] if values else 0.3
                if 0 <= beta <= 1:
                    return cls("soft", beta=beta)
            case "typical", [] | [_, _]:
                epsilon, delta = values or (0.3, 0.09)
                if 0 <= epsilon <= 1 and delta >= 0:
                    return cls("typical", epsilon=epsilon, delta=delta)
        raise UserError(
            "accept is exact, rejection, soft:BETA with BETA from 0 to 1, or typical:EPSILON,DELTA such as typical:0.3,0.09, "
            f"not {text!r}."
        )


EXACT = Acceptance()
"""The usual rule: a draft token is accepted where it is the target's own choice."""


def walk(tree: Tree, chosen: Sequence[int]) -> list[int]:
    """Follow the target's choices down the tree as long as there is a child that carries the chosen token.

    Args:
        tree: tokens and parents [n]; of two equal siblings the first counts.
        chosen: the target's choice after each node [n].

    Returns:
        indices of the accepted nodes, node 0 first. The choice after the last of them is the bonus token, the next one pending,
        so a step produces as many tokens as this has entries.
    """
    path = [0]
    # Parents precede children, so one pass in index order finds the whole path.
    for node in range(1, len(tree.tokens)):
        last = path[-1]
        if tree.parents[node] == last and tree.tokens[node] == chosen[last]:
            path.append(node)
    return path


def accept(
    tree: Tree, scores: Scores, chosen: Sequence[int], rule: Acceptance, sampling: Sampling, histories: Histories
) -> tuple[list[int], int]:
    """Find the accepted path under a rule other than exact match, and the token after it.

    Its draws are independent of the draft's and of other steps': each kind has its own stream (`sampling.Purpose`).

    Args:
        tree: tokens and parents [n], with the draft's distributions where children were sampled.
        scores: one row for each node, in order.
        chosen: the plain method's choice after each node [n].
        rule: which test.
        sampling: the settings in force, and the seed.
        histories: the text up to a node, for penalties.

    Returns:
        indices of the accepted nodes, node 0 first, and the next pending token.
    """
    children = tree.children()
    if rule.rule == "rejection" and not sampling.greedy and tree.apart:
        return _traverse(tree, scores, sampling, children, histories)
    path = [0]
    while True:
        node = path[-1]
        history = histories(node) if sampling.uses_history else None
        test = _NodeTest(tree, scores, node, children.get(node, []), chosen[node], history)
        accepted, token = test.typical(rule, sampling) if rule.rule == "typical" else test.sampled(rule, sampling)
        if accepted is None:
            return path, token
        path.append(accepted)


def _traverse(
    tree: Tree, scores: Scores, sampling: Sampling, children: dict[int, list[int]], histories: Histories
) -> tuple[list[int], int]:
    """Find the accepted path under `rejection` by traversal verification, which on a chain is block verification.

    A leaf is tested with its whole path: `stands` is the probability that the path is accepted, given the refusals so far. A
    refused leaf takes from its parent's p what it could have claimed; then the parent's next child has its turn, or, as a leaf,
    the parent.
    """
    root, node = scores.positions[0], 0
    stands = {0: 1.0}
    after: dict[int, Any] = {}
    untested: dict[int, Iterator[tuple[int, Any]]] = {}
    # By node the child that is being tested, and the distribution that its token was drawn from.
    tested: dict[int, tuple[int, Any]] = {}

    def p(node: int) -> Any:
        if node not in after:
            after[node] = _normal(scores.probs(node, sampling, histories(node) if sampling.uses_history else None))
        return after[node]

    while True:
        tries = untested.setdefault(node, _tries(tree, node, children.get(node, [])))
        while (attempt := next(tries, None)) is not None:
            tested[node] = child, q = attempt
            token = tree.tokens[child]
            # Of two draws of one token the second finds no probability left.
            stands[child] = min(1.0, stands[node] * float(p(node)[token]) / (float(q[token]) if q is not None else 1.0))
            node = child
            tries = untested.setdefault(node, _tries(tree, node, children.get(node, [])))
        if node == 0 or uniform(sampling.seed, root, Purpose.ACCEPT, node) < stands[node]:
            return tree.path(node), _pick(p(node), uniform(sampling.seed, scores.positions[node], Purpose.RESIDUAL))
        above = tree.parents[node]
        child, q = tested[above]
        rest = stands[above] * p(above)
        if q is not None:
            rest = (rest - q).clip(0)
        rest[tree.tokens[child]] = 0  # only a rounding error can be left of it
        total = float(rest.sum())
        if total > 0:
            after[above] = rest / total
            stands[above] = total / (total + 1 - stands[above])
        elif above:
            stands[above] = 0.0
        node = above


def _tries(tree: Tree, node: int, children: list[int]) -> Iterator[tuple[int, Any]]:
    """Yield the children of a node in the order of testing, each with the distribution [vocab] that its token was drawn from.

    A sibling was drawn from what q had left. Several drafters come one after the other, each with its own q. Children that no
    distribution proposed come last, with None: they were certain, q = 1 at their token.
    """
    drawn = set[int]()
    for draws in tree.draws(node):
        q = _normal(draws.q)
        for child in draws.nodes:
            drawn.add(child)
            yield child, q
            q = q.copy()
            q[tree.tokens[child]] = 0
            q /= q.sum() or 1.0
    yield from ((child, None) for child in children if child not in drawn)


@dataclass(frozen=True, slots=True)
class _NodeTest:
    """A test of one node's children. Each rule returns the accepted child or None, and the token that comes next."""

    tree: Tree
    scores: Scores
    node: int
    children: list[int]
    choice: int
    """The target's own choice after the node."""
    history: Sequence[int] | None
    """All tokens up to the node; None where no penalty reads them."""

    def sampled(self, rule: Acceptance, sampling: Sampling) -> tuple[int | None, int]:
        """Test under `rejection` or `soft`; without an accepted child, draw the token from the residual.

        Every refusal takes from p what the refused child could have claimed, p ← norm(max(0, p − q)). Several drafters come one
        after the other (SpecInfer's multi-step speculative sampling): a token that both drew is tried twice.
        """
        if sampling.greedy:
            return self._greedy(rule, sampling)
        position = self.scores.positions[self.node]
        p = _normal(self.scores.probs(self.node, sampling, self.history))
        for attempt, (child, q) in enumerate(_tries(self.tree, self.node, self.children)):
            token = self.tree.tokens[child]
            likely = float(q[token]) if q is not None else 1.0
            limit = rule.beta if rule.rule == "soft" else uniform(sampling.seed, position, Purpose.ACCEPT, attempt)
            if passes(float(p[token]), likely, limit):
                return child, token
            residual = (p - q).clip(0) if q is not None else p.copy()
            residual[token] = 0  # it was refused: only a rounding error can be left of it
            total = residual.sum()
            # Rounding alone can leave nothing: then p equals q, and any token of p is right.
            p = residual / total if total > 0 else p
        return None, _pick(p, uniform(sampling.seed, position, Purpose.RESIDUAL))

    def _greedy(self, rule: Acceptance, sampling: Sampling) -> tuple[int | None, int]:
        """Test at temperature 0: rejection is exact match, and soft compares p and q in the plain softmax."""
        tokens = self.tree.tokens
        if (same := self._chosen_child()) is not None:
            return same, self.choice
        if rule.rule == "soft" and self.children:
            p = self.scores.probs(self.node, compared(sampling), self.history)
            drawn = {child: draws for draws in reversed(self.tree.draws(self.node)) for child in draws.nodes}
            for child in sorted(self.children, key=lambda child: -float(p[tokens[child]])):
                token = tokens[child]
                likely = float(drawn[child].q[token]) if child in drawn else 1.0
                if passes(float(p[token]), likely, rule.beta):
                    return child, token
        return None, self.choice

    def typical(self, rule: Acceptance, sampling: Sampling) -> tuple[int | None, int]:
        """Accept the most probable child with p > min(ε, δ · exp(−entropy of p)).

        p is taken at the temperature in force, or at 1 for greedy decoding, without filters, which would change the entropy.
        A child that is the target's own choice is always accepted: it would come next anyhow.
        """
        import numpy as np  # here alone: exact match, the usual rule, needs no arrays

        if (same := self._chosen_child()) is not None or not self.children:
            return same, self.choice
        unfiltered = Sampling(temperature=sampling.temperature or 1.0, repetition_penalty=sampling.repetition_penalty)
        p = _normal(self.scores.probs(self.node, unfiltered, self.history))
        nonzero = p[p > 0]
        limit = min(rule.epsilon, rule.delta * math.exp(float((nonzero * np.log(nonzero)).sum())))
        best = max(self.children, key=lambda child: float(p[self.tree.tokens[child]]))
        token = self.tree.tokens[best]
        return (best, token) if p[token] > limit else (None, self.choice)

    def _chosen_child(self) -> int | None:
        return next((child for child in self.children if self.tree.tokens[child] == self.choice), None)


def compared(sampling: Sampling) -> Sampling:
    """Return the settings under which p and q are compared: those in force, but the plain softmax for greedy decoding, whose
    filters leave one token. Penalties hold either way."""
    return Sampling(temperature=1.0, repetition_penalty=sampling.repetition_penalty) if sampling.greedy else sampling


def passes(p: float, q: float, limit: float) -> bool:
    """Test one draft token: q ≤ p, or else 1 − p/q < limit.

    With a limit drawn uniformly each time this accepts with probability min(1, p/q): rejection sampling. A fixed limit is the
    soft rule's β: 0 accepts only q ≤ p, 1 all. (One source prints the soft test the wrong way round, "accept if
    1 − p/q > β", which favours the worst tokens.)
    """
    return q <= p or 1 - p / q < limit or limit >= 1


def _normal(p: Any) -> Any:
    """Normalise a distribution [vocab] in float64."""
    p = p.astype("float64")
    return p / p.sum()


def _pick(p: Any, number: float) -> int:
    """Return the token of a distribution [vocab] at which its cumulative sum passes `number` (0 … 1)."""
    cumulative = p.cumsum()
    index = int(cumulative.searchsorted(number * cumulative[-1], side="right"))
    # A number so near 1 that rounding passes the end takes the last token that has any probability.
    return index if index < len(p) and p[index] > 0 else int(p.nonzero()[0][-1])


def probabilities(tree: Tree, scores: Scores, end: int, last: int) -> tuple[float, ...]:
    """Read the target's probability (plain softmax) of each token after node 0, in node order, then of `last` after `end`.

    Args:
        tree: what was verified [n].
        scores: row i is node i's.
        end: the last accepted node.
        last: the token chosen after it.
    """
    rows: dict[int, Any] = {}

    def probability(node: int, token: int) -> float:
        if node not in rows:
            rows[node] = scores.probs(node)
        return float(rows[node][token])

    drafted = [probability(parent, token) for parent, token in zip(tree.parents[1:], tree.tokens[1:], strict=True)]
    return (*drafted, probability(end, last))
