"""Acceptance rules: rejection leaves the target's distribution, on chains and on trees; soft and typical are monotonic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from specchat.backends import ROOT, Capabilities, Sampling, UserError
from specchat.backends.scores import TorchScores
from specchat.decoders import Acceptance, Context, Tree
from specchat.decoders.acceptance import accept, passes
from specchat.decoders.base import effective_label
from specchat.decoders.parts.position_tree import position_tree
from specchat.decoders.registry import get
from specchat.decoders.tree import Draws

from ..cases import FULL

SMALL = 2_500
DRAWS = 200_000 if FULL else SMALL
P = np.array([0.5, 0.05, 0.2, 0.15, 0.1])
Q = np.array([0.1, 0.4, 0.3, 0.15, 0.05])
AFTER = np.array([[0.3, 0.3, 0.2, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1, 0.6], [0.2] * 5, [0.7, 0.1, 0.1, 0.05, 0.05], [0.05, 0.05, 0.3, 0.3, 0.3]])  # fmt: skip  # noqa: E501
Q_AFTER = AFTER[::-1].copy()
"""The target's and the draft's probabilities of the second token, by the first one."""
Q_BLIND = np.array([0.3, 0.1, 0.05, 0.35, 0.2])
"""The draft's probabilities of the second token where it does not know the first one."""


class Table(TorchScores):
    """Scores of a target that is a table: no logits, so that 200,000 steps take seconds."""

    def __init__(self, rows: Sequence[Any], positions: Sequence[int]) -> None:
        self.rows = rows
        self.nodes = tuple(range(len(rows)))
        self.positions = tuple(positions)

    def probs(self, row: int, sampling: Sampling | None = None, history: Sequence[int] | None = None) -> Any:
        return self.rows[row]


def drawn(q: Any, rng: np.random.Generator, count: int) -> list[int]:
    """`count` different tokens, each drawn from what the others left of q."""
    out: list[int] = []
    left = q.copy()
    for _ in range(count):
        out.append(int(rng.choice(len(q), p=left / left.sum())))
        left[out[-1]] = 0
    return out


def step(tree: Tree, seed: int, rule: Acceptance) -> list[int]:
    """The tokens that a step gives under the rule, the first two places of them at most."""
    depths = tree.depths()
    rows = [P if depth == 0 else AFTER[tree.tokens[node]] for node, depth in enumerate(depths)]
    scores = Table(rows, [7 + depth for depth in depths])
    path, last = accept(tree, scores, [0] * len(tree), rule, Sampling(temperature=1.0, seed=seed), lambda node: ())
    return [*(tree.tokens[node] for node in path[1:]), last][:2]


def chain(rng: np.random.Generator) -> Tree:
    tree = Tree.chain(0, drawn(Q, rng, 1))
    tree.probs = {0: Draws(Q, (1,))}
    return tree


def branching(rng: np.random.Generator) -> Tree:
    """Two children drawn without replacement next to a certain one, and a drawn child below each of the first two."""
    first = drawn(Q, rng, 2)
    tree = Tree([0, *first], [ROOT, 0, 0])
    tree.probs = {0: Draws(Q, (1, 2))}
    if 3 not in first:
        tree.add(3, 0)
    for node in (1, 2):
        child = tree.add(drawn(Q_AFTER[tree.tokens[node]], rng, 1)[0], node)
        tree.probs[node] = Draws(Q_AFTER[tree.tokens[node]], (child,))
    tree.apart = True
    return tree


def blind(rng: np.random.Generator) -> Tree:
    """Three children drawn without replacement, and below the likely ones children that are drawn once for all of them."""
    context = Context([0], None, Sampling(temperature=1.0), 99, frozenset(), acceptance=Acceptance("rejection"))  # type: ignore[arg-type]
    guesses = [[(token, float(q[token])) for token in drawn(q, rng, 3)] for q in (Q, Q_BLIND)]
    return position_tree(context, guesses, 8, 0.0, lambda position: (Q, Q_BLIND)[position])


def several(rng: np.random.Generator) -> Tree:
    """A tree of two drafters: a child drawn from Q and two from Q_BLIND, a token that both drew is one node, a certain child
    as well, and below each node what its drafters draw there."""
    tree, children = Tree.root(0), dict[tuple[int, int], int]()

    def hang(parent: int, q: Any, draws: Sequence[int], then: Draws | None = None) -> Draws:
        for token in draws:
            if (parent, token) not in children:
                children[parent, token] = tree.add(token, parent)
        return Draws(q, tuple(children[parent, token] for token in draws), then)

    first, second = drawn(Q, rng, 1), drawn(Q_BLIND, rng, 2)
    tree.probs = {0: hang(0, Q, first, hang(0, Q_BLIND, second))}
    hang(0, P, [3])
    for node in range(1, len(tree)):
        token = tree.tokens[node]
        draws = hang(node, Q_BLIND, drawn(Q_BLIND, rng, 1)) if token in second else None
        if token in first:
            draws = hang(node, Q_AFTER[token], drawn(Q_AFTER[token], rng, 2), draws)
        if draws is not None:
            tree.probs[node] = draws
    return tree


def p_value(make: Callable[[np.random.Generator], Tree], rule: Acceptance, draws: int) -> float:
    """Chi-square of the first token against the target's distribution."""
    rng = np.random.default_rng(3)
    counts = np.zeros(len(P))
    for seed in range(draws):
        counts[step(make(rng), seed, rule)[0]] += 1
    return float(chisquare(counts, P * draws).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("make", [chain, branching])
@pytest.mark.parametrize("by_token", [False, True])
def test_rejection_leaves_the_targets_distribution(make: Callable[[np.random.Generator], Tree], by_token: bool) -> None:
    assert p_value(lambda rng: replace(make(rng), apart=not by_token), Acceptance("rejection"), DRAWS) > 1e-3


@pytest.mark.parametrize("make", [branching, blind, several])
def test_two_tokens_of_a_tree_have_their_joint_distribution(make: Callable[[np.random.Generator], Tree]) -> None:
    rng = np.random.default_rng(11)
    counts = np.zeros((5, 5))
    for seed in range(SMALL):
        tokens = step(make(rng), seed, Acceptance("rejection"))
        if len(tokens) < 2:  # the second one is the next step's, drawn plainly
            tokens.append(int(rng.choice(5, p=AFTER[tokens[0]])))
        counts[tokens[0], tokens[1]] += 1
    assert chisquare(counts.ravel(), (P[:, None] * AFTER).ravel() * SMALL).pvalue > 1e-3


@pytest.mark.parametrize("rule", [Acceptance("soft", beta=0.5), Acceptance("soft", beta=1.0), Acceptance("typical")])
def test_the_lossy_rules_do_not(rule: Acceptance) -> None:
    assert p_value(chain, rule, 3000) < 1e-6


def test_soft_acceptance_is_not_the_rule_that_was_printed_inverted() -> None:
    # q = 0.4 for a token of p = 0.05: a bad draft, 1 - p/q = 0.875.
    assert not passes(0.05, 0.4, 0.5)
    assert passes(0.05, 0.4, 0.9)
    # A good one, 1 - p/q = 0.25: inverted, it would be refused here and accepted below.
    assert passes(0.3, 0.4, 0.5)
    assert not passes(0.3, 0.4, 0.2)
    assert passes(0.4, 0.4, 0)
    assert not passes(0.39, 0.4, 0)


def test_typical_acceptance_follows_its_formula() -> None:
    entropy = -sum(p * math.log(p) for p in P)
    limit = 0.6 * math.exp(-entropy)  # between p = 0.1 and 0.15
    rule = Acceptance("typical", epsilon=0.9, delta=0.6)
    for token, p in enumerate(P):
        path, _ = accept(
            Tree.chain(9, [token]), Table([P, P], [7, 8]), [9, 9], rule, Sampling(temperature=1.0), lambda node: ()
        )
        assert (len(path) == 2) == (p > limit)


def test_at_temperature_0_rejection_is_exact_match_and_soft_takes_near_choices() -> None:
    logits = torch.log(torch.tensor(np.array([P, P, P])))
    scores = TorchScores(logits, (0, 1, 2), (7, 8, 8))
    tree = Tree([9, 2, 1], [ROOT, 0, 0])
    greedy = Sampling()
    assert accept(tree, scores, [0, 0, 0], Acceptance("rejection"), greedy, lambda node: ()) == ([0], 0)
    assert accept(tree, scores, [0, 0, 0], Acceptance("soft", beta=0.5), greedy, lambda node: ()) == ([0], 0)
    assert accept(tree, scores, [0, 0, 0], Acceptance("soft", beta=0.85), greedy, lambda node: ()) == ([0, 1], 0)
    assert accept(tree, scores, [2, 0, 0], Acceptance("soft", beta=0), greedy, lambda node: ()) == ([0, 1], 0)


def test_at_temperature_0_soft_takes_the_drafts_own_probability() -> None:
    scores = TorchScores(torch.log(torch.tensor(np.array([P, P, P]))), (0, 1, 2), (7, 8, 8))
    tree, soft = Tree([9, 2, 1], [ROOT, 0, 0]), Acceptance("soft", beta=0.0)
    q = P.copy()
    q[1], q[2] = P[1] * 0.9, P[2] * 1.1
    assert accept(tree, scores, [0, 0, 0], soft, Sampling(), lambda node: ()) == ([0], 0), "certain guesses: q = 1"
    tree.probs = {0: Draws(q, (1, 2))}
    assert accept(tree, scores, [0, 0, 0], soft, Sampling(), lambda node: ()) == ([0, 2], 0), "q ≤ p"
    tree.probs = {0: Draws(q, (1,))}
    assert accept(tree, scores, [0, 0, 0], soft, Sampling(), lambda node: ()) == ([0], 0), "the other one was certain"
    near = Acceptance("soft", beta=0.1)
    assert accept(tree, scores, [0, 0, 0], near, Sampling(), lambda node: ()) == ([0, 1], 0), "1 − p/q = 0.09"


HOT = Sampling(temperature=1.0)


def test_a_rule_reads_what_it_writes_and_refuses_all_else() -> None:
    for text in "exact rejection soft:0.25 soft:0 typical:0.3,0.09 typical:0.5,0".split():
        assert str(Acceptance.parse(text)) == text
        assert Acceptance.parse(f" {text.upper()} ") == Acceptance.parse(text)
    assert str(Acceptance.parse("soft")) == "soft:0.3", "numbers may be left out"
    assert Acceptance.parse("typical") == Acceptance("typical")
    for text in ("", "exactly", "soft:2", "soft:x", "soft:0.1,0.2", "typical:0.3", "typical:2,1", "exact:1"):
        with pytest.raises(UserError, match="exact, rejection, soft:BETA"):
            Acceptance.parse(text)


@pytest.mark.parametrize(("method", "rule", "sampling", "able", "label"), [
    ("draft", "exact", HOT, Capabilities(), "identical"), ("draft", "rejection", HOT, Capabilities(), "same distribution"),
    ("draft", "rejection", Sampling(), Capabilities(), "identical"), ("draft", "soft:0.5", Sampling(), Capabilities(), "lossy"),
    ("lookup", "typical", HOT, Capabilities(), "lossy"), ("greedy", "soft:0.5", HOT, Capabilities(), "identical"),
    ("recompute", "rejection", HOT, Capabilities(), "identical"), ("beam", "rejection", HOT, Capabilities(), get("beam").label),
    ("draft", "exact", Sampling(), Capabilities(most=2), "identical"),
    ("draft", "exact", Sampling(), Capabilities(exact=False), "identical but for near ties"),
    ("greedy", "exact", Sampling(), Capabilities(exact=False), "identical"),
    ("draft", "soft:0.3", Sampling(), Capabilities(exact=False), "lossy"),
])  # fmt: skip
def test_the_label_says_what_holds(method: str, rule: str, sampling: Sampling, able: Capabilities, label: str) -> None:
    assert effective_label(get(method), Acceptance.parse(rule), sampling, able) == label
