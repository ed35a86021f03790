"""Fusion: the tree's probabilities, where its tokens come from, growing against starting afresh, the floor that lookup sets.
Who voted for a node shows in a private field alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.base import ROOT
from specchat.decoders.base import Verified
from specchat.decoders.methods.fusion import Fusion, FusionParams, Recycled
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.parts.ppm import FREQUENT
from specchat.decoders.replay import replay
from specchat.decoders.tree import Tree

from ...cases import cases
from ...fakes.models.toy import drafting

FEW = st.lists(st.integers(0, 2), min_size=1, max_size=60)  # few tokens, so that n-grams repeat
MORE = st.lists(st.integers(0, 30), min_size=1, max_size=80)


def fusion(**params: Any) -> Fusion:
    return Fusion(FusionParams(**params))


def check_tree(drafter: Fusion, tree: Tree, nodes: int, room: int) -> None:
    """Within its bounds, no equal siblings, and probabilities that are probabilities, in falling order."""
    assert len(tree) <= nodes
    assert max(tree.depths()) <= room
    assert all(parent < node for node, parent in enumerate(tree.parents))
    assert tree.parents.count(ROOT) == 1
    siblings = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(siblings)) == len(siblings)
    reached = drafter.probabilities
    assert len(reached) == len(tree)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] > 0
    below = [0.0] * len(tree)
    for node in range(1, len(tree)):
        below[tree.parents[node]] += reached[node]
    assert all(children <= parent + 1e-12 for children, parent in zip(below, reached, strict=True))


@cases(300)
@given(st.one_of(FEW, MORE), st.integers(1, 24), st.integers(0, 20), st.booleans(), st.integers(0, FREQUENT))
def test_the_tree_keeps_its_bounds(text: list[int], nodes: int, room: int, branching: bool, frequent: int) -> None:
    drafter = fusion(nodes=nodes, frequent=frequent)
    tree = drafter.draft(drafting(text, room, branching, eos=[2]))
    assert tree.tokens[0] == text[-1]
    check_tree(drafter, tree, nodes, room)
    assert all(parent <= 0 or tree.tokens[parent] != 2 for parent in tree.parents)  # nothing after EOS
    if not branching:
        assert tree.parents == list(range(ROOT, len(tree) - 1))


@cases(300)
@given(st.one_of(FEW, MORE), st.integers(2, 24))
def test_what_is_drafted_has_followed(text: list[int], nodes: int) -> None:
    drafter = fusion(nodes=nodes, frequent=0)
    tree = drafter.draft(drafting(text))
    # A copy that reaches the end of the text goes on with itself: the guesses of its own path follow it.
    for node in range(1, len(tree)):
        line = [tree.tokens[i] for i in tree.path(node)]
        whole = [*text[:-1], *line[:-1]]  # a copy that reaches the end of the text goes on copying what it drafted
        assert any(whole[i : i + 2] == line[-2:] for i in range(len(whole) - 1))
    assert (len(tree) > 1) == (text[-1] in text[:-1])
    # Every vote is cast by an occurrence of as much of the tail as it says.
    for node, known in drafter._expansions.items():
        tail = [*text[:-1], *(tree.tokens[i] for i in tree.path(node))]
        for follows, match, start in known.votes:
            assert 0 < follows < len(text)
            if start < 0 or node == 0:
                assert text[follows - match : follows] == tail[-match:]
            elif start + len(tail) - len(text) < len(text):  # it has not come to the end
                assert follows == start + len(tail) - len(text)
            # What it copies is what it has drafted.
            drafted = tail[len(text) :]
            if start >= 0:
                line = text[start:]
                assert (line * len(tail))[: len(drafted)] == drafted
                assert text[follows] == (line * len(tail))[len(drafted)]
            else:
                assert text[follows - 1] == tail[-1]


def test_agreement_and_length_raise_a_probability() -> None:
    def first(text: list[int]) -> dict[int, float]:
        drafter = fusion(frequent=0)
        tree = drafter.draft(drafting(text))
        return {tree.tokens[n]: drafter.probabilities[n] for n in range(1, len(tree)) if tree.parents[n] == 0}

    once = first([1, 5, 8, 9, 1])
    twice = first([1, 5, 8, 1, 5, 9, 1])
    longer = first([4, 1, 5, 8, 9, 4, 1])
    split = first([1, 5, 8, 1, 6, 9, 1])
    assert split[5] < split[6] < once[5] < twice[5]
    assert once[5] < longer[5]


def test_a_copy_is_drafted_far_and_free_text_wide() -> None:
    rng = random.Random(0)
    text = [rng.randrange(3, 90) for _ in range(200)]
    copy = fusion().draft(drafting([*text, *text[100:130]]))
    assert copy.tokens[:12] == text[129:141]
    often = [token for other in range(10, 30) for token in (1, other)]
    assert max(fusion().draft(drafting([*often, 1])).depths()) <= 4
    # The end of the text is no obstacle: a loop is drafted as a loop.
    loop = [5, 6, 7, 8] * 6
    assert fusion(nodes=9, frequent=0).draft(drafting(loop)).tokens == [8, 5, 6, 7, 8, 5, 6, 7, 8]


def pieces(rng: random.Random, edits: float) -> tuple[list[int], list[int]]:
    """A text with a language's skew, and an answer that copies parts of it, some tokens replaced, left out or put in."""

    def word() -> int:
        return int(4000 * rng.random() ** 4) + 100

    prompt = [word() for _ in range(400)]
    answer: list[int] = []
    while len(answer) < 250:
        start = rng.randrange(350)
        for token in prompt[start : start + rng.randrange(8, 50)]:
            draw = rng.random()
            if draw < edits:
                answer.append(word())
            if not edits / 3 < draw < edits:
                answer.append(token)
        answer.extend(word() for _ in range(rng.randrange(4)))
    return prompt, answer


@pytest.mark.parametrize("nodes", [16, 64])
@pytest.mark.parametrize("edits", [0.0, 0.05, 0.15, 0.4])
def test_at_least_as_good_as_lookup(edits: float, nodes: int) -> None:
    rng = random.Random(4)
    records = [pieces(rng, edits) for _ in range(4)]

    def score(make: Any) -> float:
        return mean(replay(*record, make()).tokens_per_step for record in records)

    ours = score(lambda: fusion(nodes=nodes, recycle=0))
    assert ours >= score(lambda: Lookup(LookupParams(nodes=nodes)))
    assert ours >= score(lambda: Lookup(LookupParams(variant="reference")))


def test_of_a_token_that_occurs_twice_the_successors_in_the_text_stay() -> None:
    rows = [[(9, 0.0)], [(1, 0.0)], [(2, 0.0)]]
    verified: Any = SimpleNamespace(tree=Tree([5, 7, 7], [-1, 0, 0]), path=[0, 1], scores=SimpleNamespace(top=lambda _: rows))
    recycled = Recycled(1)
    recycled.learn(verified)
    assert recycled.guess([5, 7]) == [(1, 1.0)]


def test_recycled_successors_vote_and_their_worth_is_learned() -> None:
    class Oracle(Recycled):
        """Says that each token is followed by the next number."""

        learned = 0

        def guess(self, tail: Sequence[int]) -> list[tuple[int, float]]:
            return [(tail[-1] + 1, 1.0)]

        def learn(self, verified: Verified) -> None:
            self.learned += 1

    def worth(answer: list[int]) -> tuple[float, float]:
        oracle = Oracle(8)
        drafter = Fusion()
        drafter._recycled = oracle
        totals = replay([500], answer, drafter)
        assert oracle.learned == totals.steps - 1
        return totals.tokens_per_step, drafter.weights.recycled

    right, high = worth(list(range(1, 80)))
    assert right > 4
    rng = random.Random(0)
    wrong, low = worth([rng.randrange(10_000) for _ in range(80)])
    assert wrong < 1.2
    assert low < 1 < high
