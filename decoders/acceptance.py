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
    residual; soft and typical are lossy."""
    beta: float = 0.0
    """soft: accept iff q ≤ p or 1 − p/q < beta; 0 accepts only q ≤ p, 1 all."""
    epsilon: float = 0.3
    """typical, with `delta`: accept iff p > min(epsilon, delta · exp(−entropy of p))."""
    delta: float = 0.09
    by_token: bool = False
    """rejection: each token is tested by itself, with probability min(1, p/q), from the root down; else whole paths, from the
    leaves up, which accepts more."""

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
        """The rule as text, in the form that `parse` reads."""
        match self.rule:
            case "soft":
                return f"soft:{self.beta:g}"
            case "typical":
                return f"typical:{self.epsilon:g},{self.delta:g}"
            case "rejection" if self.by_token:
                return "rejection:token"
            case rule:
                return rule

    @classmethod
    def parse(cls, text: str) -> Acceptance:
        """Read a rule from text: exact, rejection, rejection:token, soft:BETA, typical or typical:EPSILON,DELTA.

        Raises:
            UserError: the text is none of these, or a number is malformed or out of range.
        """
        rule, _, numbers = text.strip().lower().partition(":")
        if (rule, numbers) == ("rejection", "token"):
            return cls("rejection", by_token=True)
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
            "accept is exact, rejection, soft:BETA with BETA from 0 to 1, typical:EPSILON,DELTA such as typical:0.3,0.09, or "
            f"rejection:token, not {text!r}."
        )


EXACT = Acceptance()
"""The usual rule: a draft token is accepted where it is the target's own choice."""


def walk(tree: Tree, chosen: Sequence[int]) -> list[int]:
    """The accepted path: from node 0 to a child that carries what the target chose, as long as there is one.

    Args:
        tree: tokens and parents [n]; of two equal siblings the first counts.
        chosen: the target's choice after each node [n].

    Returns:
        indices of the accepted nodes, node 0 first. The choice after the last of them is the next pending token, so a step
        produces as many tokens as this has entries.
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
    """The accepted path under a rule other than exact match, and the token after it.

    Its draws are independent of the draft's, and of those of other steps: they have streams of their own (`noise.Purpose`).

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
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents[1:], 1):
        children.setdefault(parent, []).append(node)
    if rule.rule == "rejection" and not rule.by_token and not sampling.greedy and tree.apart:
        return _traversed(tree, scores, sampling, children, histories)
    test = _typical if rule.rule == "typical" else _sampled
    path = [0]
    while True:
        node = path[-1]
        history = histories(node) if sampling.uses_history else None
        accepted, token = test(tree, scores, chosen[node], rule, sampling, node, children.get(node, []), history)
        if accepted is None:
            return path, token
        path.append(accepted)


def _traversed(
    tree: Tree, scores: Scores, sampling: Sampling, children: dict[int, list[int]], histories: Histories
) -> tuple[list[int], int]:
    """The accepted path under `rejection`, and a token after it: traversal verification, on a chain block verification.

    Of a leaf its whole path is tested: `stands` is the probability that it does, given what has been refused. A refused leaf
    takes from its parent's p what it could have claimed; then the parent's next child has its turn, or, as a leaf, the parent.
    """
    root, node = scores.positions[0], 0
    stands, after, left = {0: 1.0}, dict[int, Any](), dict[int, Iterator[tuple[int, Any]]]()
    # By node the child that is being tested, and what its token was drawn from.
    tested: dict[int, tuple[int, Any]] = {}

    def p(node: int) -> Any:
        if node not in after:
            after[node] = _normal(scores.probs(node, sampling, histories(node) if sampling.uses_history else None))
        return after[node]

    while True:
        tries = left.setdefault(node, _tries(tree, node, children.get(node, [])))
        while (found := next(tries, None)) is not None:
            tested[node] = child, q = found
            token = tree.tokens[child]
            # Of two draws of one token the second finds nothing left.
            stands[child] = min(1.0, stands[node] * float(p(node)[token]) / (float(q[token]) if q is not None else 1.0))
            node = child
            tries = left.setdefault(node, _tries(tree, node, children.get(node, [])))
        if node == 0 or uniform(sampling.seed, root, Purpose.ACCEPT, node) < stands[node]:
            return tree.path(node), _pick(p(node), uniform(sampling.seed, scores.positions[node], Purpose.RESIDUAL))
        above = tree.parents[node]
        child, q = tested[above]
        rest = stands[above] * p(above)
        if q is not None:
            rest = (rest - q).clip(0)
        rest[tree.tokens[child]] = 0  # what rounding leaves of it is nothing
        total = float(rest.sum())
        if total > 0:
            after[above], stands[above] = rest / total, total / (total + 1 - stands[above])
        elif above:
            stands[above] = 0.0
        node = above


def _tries(tree: Tree, node: int, children: list[int]) -> Iterator[tuple[int, Any]]:
    """The children of a node in the order in which they are tested, each with the distribution [vocab] that its token was drawn
    from. A sibling was drawn from what q had left; of several drafters one comes after the other, each with its own q. Last
    come those that no distribution proposed, with None: they were certain, q = 1 at their token."""
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


def _sampled(
    tree: Tree, scores: Scores, own: int, rule: Acceptance, sampling: Sampling, node: int, children: list[int], history: Any
) -> tuple[int | None, int]:
    """One node under `rejection` or `soft`: an accepted child, or a token drawn from what the refused ones left.

    Every refusal takes from p what the refused child could have claimed, p ← norm(max(0, p − q)). Of several drafters one comes
    after the other (SpecInfer's multi-step speculative sampling): a token that both drew is tried twice.
    """
    if sampling.greedy:
        return _greedy(tree, scores, own, rule, sampling, node, children, history)
    position = scores.positions[node]
    p = _normal(scores.probs(node, sampling, history))
    for attempt, (child, q) in enumerate(_tries(tree, node, children)):
        token = tree.tokens[child]
        likely = float(q[token]) if q is not None else 1.0
        limit = rule.beta if rule.rule == "soft" else uniform(sampling.seed, position, Purpose.ACCEPT, attempt)
        if passes(float(p[token]), likely, limit):
            return child, token
        left = (p - q).clip(0) if q is not None else p.copy()
        left[token] = 0  # it has been refused: what rounding leaves of it is nothing
        total = left.sum()
        # Rounding alone can leave nothing: then p equals q, and whatever p says is right.
        p = left / total if total > 0 else p
    return None, _pick(p, uniform(sampling.seed, position, Purpose.RESIDUAL))


def compared(sampling: Sampling) -> Sampling:
    """The settings under which p and q are compared: those in force, or for greedy decoding, whose filters leave one token,
    the plain softmax. Penalties hold either way."""
    return Sampling(temperature=1.0, repetition_penalty=sampling.repetition_penalty) if sampling.greedy else sampling


def passes(p: float, q: float, limit: float) -> bool:
    """The test of one draft token: q ≤ p, or else 1 − p/q < limit.

    With a limit drawn uniformly each time this accepts with probability min(1, p/q): rejection sampling. A fixed limit is the
    soft rule's β: 0 accepts only q ≤ p, 1 all. (One source prints the soft test the wrong way round, "accept if
    1 − p/q > β", which favours the worst tokens.)
    """
    return q <= p or 1 - p / q < limit or limit >= 1


def _greedy(
    tree: Tree, scores: Scores, own: int, rule: Acceptance, sampling: Sampling, node: int, children: list[int], history: Any
) -> tuple[int | None, int]:
    """At temperature 0 rejection is exact match; the soft rule takes p and q from the plain softmax, where more than one token
    has some of it, and any child that greedy decoding would choose."""
    for child in children:
        if tree.tokens[child] == own:
            return child, own
    if rule.rule == "soft" and children:
        p = scores.probs(node, compared(sampling), history)
        by = {child: draws for draws in reversed(tree.draws(node)) for child in draws.nodes}
        for child in sorted(children, key=lambda child: -float(p[tree.tokens[child]])):
            token = tree.tokens[child]
            likely = float(by[child].q[token]) if child in by else 1.0
            if passes(float(p[token]), likely, rule.beta):
                return child, token
    return None, own


def _normal(p: Any) -> Any:
    """The same distribution in float64 [vocab], its sum 1."""
    p = p.astype("float64")
    return p / p.sum()


def _pick(p: Any, number: float) -> int:
    """The token of a distribution [vocab] at which its cumulative sum passes `number` (0 … 1)."""
    upto = p.cumsum()
    index = int(upto.searchsorted(number * upto[-1], side="right"))
    # A number so near 1 that rounding passes the end takes the last token that has any probability.
    return index if index < len(p) and p[index] > 0 else int(p.nonzero()[0][-1])


def _typical(
    tree: Tree, scores: Scores, own: int, rule: Acceptance, sampling: Sampling, node: int, children: list[int], history: Any
) -> tuple[int | None, int]:
    """One node under `typical`: the most probable child with p > min(ε, δ · exp(−entropy of p)), or the target's own choice.

    p is taken at the temperature in force, or at 1 for greedy decoding; no filter, so that the entropy is the model's own.
    A child that is the target's own choice is accepted in any case: it would come next anyhow.
    """
    same = next((child for child in children if tree.tokens[child] == own), None)
    if same is not None or not children:
        return same, own
    unfiltered = Sampling(temperature=sampling.temperature or 1.0, repetition_penalty=sampling.repetition_penalty)
    p = _normal(scores.probs(node, unfiltered, history))
    some = p[p > 0]
    limit = min(rule.epsilon, rule.delta * math.exp(float((some * _log(some)).sum())))
    best = max(children, key=lambda child: float(p[tree.tokens[child]]))
    return (best, tree.tokens[best]) if p[tree.tokens[best]] > limit else (None, own)


def _log(p: Any) -> Any:
    import numpy as np  # here alone: exact match, the usual rule, needs no arrays

    return np.log(p)


def probabilities(tree: Tree, scores: Scores, end: int, last: int) -> tuple[float, ...]:
    """The target's probability (plain softmax) of every token after node 0, in node order, then of `last` after node `end`.

    Args:
        tree: what was verified [n].
        scores: row i is node i's.
        end: the last accepted node.
        last: the token chosen after it.
    """
    rows: dict[int, Any] = {}

    def prob(node: int, token: int) -> float:
        if node not in rows:
            rows[node] = scores.probs(node)
        return float(rows[node][token])

    return (*(prob(tree.parents[node], tree.tokens[node]) for node in range(1, len(tree))), prob(end, last))
