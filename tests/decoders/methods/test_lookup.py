"""Prompt lookup against its published code, and fusion: what they promise, and where tokens come from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import ROOT
from specchat.decoders import Tree, Verified
from specchat.decoders.methods.fusion import Fusion, FusionParams, Recycled
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.parts.ngrams import LONGEST, ORDERS, STRIDE, NgramIndex
from specchat.decoders.parts.ppm import FREQUENT
from specchat.decoders.replay import replay

from ...cases import cases
from ...fakes.models.toy import drafting, lines

FEW = st.lists(st.integers(0, 2), min_size=1, max_size=60)  # few tokens, so that n-grams repeat


def lookup(**params: Any) -> Lookup:
    return Lookup(LookupParams(**params))


def fusion(**params: Any) -> Fusion:
    return Fusion(FusionParams(**params))


def published(ids: list[int], max_ngram_size: int, num_pred_tokens: int) -> list[int]:
    """`find_candidate_pred_tokens` of the prompt lookup repository, on lists."""
    for size in range(max_ngram_size, 0, -1):
        ngram = ids[-size:]
        for i in range(len(ids) - size + 1):
            if ids[i : i + size] == ngram:
                start, end = i + size, i + size + num_pred_tokens
                if end <= len(ids) and start < len(ids) - size:
                    return ids[start:end]
    return []


def naive_matches(text: list[int], longest: int = ORDERS, shortest: int = 1) -> list[tuple[int, int]]:
    """Every earlier occurrence of a suffix: (index after it, length up to `longest`), longest first, then latest."""
    out = []
    for follows in range(len(text) - 1, 0, -1):
        length = 0
        while length < min(follows, longest) and text[follows - 1 - length] == text[-1 - length]:
            length += 1
        if length >= shortest:
            out.append((follows, length))
    return sorted(out, key=lambda match: -match[1])


@cases(300)
@given(FEW, st.integers(1, 5), st.integers(1, 12), st.integers(0, 12))
def test_reference_is_the_published_code(text: list[int], ngram: int, k: int, room: int) -> None:
    drafter = lookup(variant="reference", max_ngram=ngram, tokens=k)
    growing: list[int] = []
    for token in text:
        growing.append(token)
        tree = drafter.draft(drafting(growing, room))
        expected = published(growing, ngram, k)[:room]
        assert tree.tokens == [token, *expected]
        assert tree.parents == list(range(-1, len(expected)))
    assert lookup(variant="reference", max_ngram=ngram, tokens=k).draft(drafting(text, room)) == tree


@cases(300)
@given(FEW, st.integers(1, 4), st.integers(1, 20))
def test_index_finds_every_occurrence(text: list[int], shortest: int, limit: int) -> None:
    index = NgramIndex()
    for i, token in enumerate(text):
        index.append(token)
        matches = index.matches(10_000, shortest=shortest)
        clipped = sorted(((at, min(length, ORDERS)) for at, length in matches), key=lambda m: (-m[1], -m[0]))
        assert clipped == naive_matches(text[: i + 1], shortest=shortest)
        true = dict(naive_matches(text[: i + 1], LONGEST))
        for at, length in matches:
            assert length == (true[at] if length < ORDERS else true[at] // STRIDE * STRIDE)
        assert [length for _, length in matches] == sorted((length for _, length in matches), reverse=True)
        longest = index.matches(limit, longest=3)
        assert longest == naive_matches(text[: i + 1], 3)[:limit]
        latest = max((min(match, ORDERS) for _, match in naive_matches(text[: i + 1])), default=0)
        assert index.latest[1] == lookup().match(text[: i + 1]) == latest, "the longest run, without a tree"
        places = [place for place, length in naive_matches(text[: i + 1]) if min(length, ORDERS) == latest]
        assert not places or index.latest[0] == max(places)


def test_long_matches_are_measured_in_strides() -> None:
    for copied, measured in ((7, 7), (8, 8), (15, 8), (16, 16), (31, 24), (40, 32)):
        index = NgramIndex()
        index.follow([*range(100), *range(50 - copied, 50)])
        assert index.matches(8) == [(50, measured)]


@cases(300)
@given(FEW, st.integers(1, 20), st.integers(0, 20), st.booleans())
def test_ours_drafts_what_followed_a_match(text: list[int], nodes: int, room: int, branching: bool) -> None:
    tree = lookup(nodes=nodes).draft(drafting(text, room, branching, eos=[2]))
    assert tree.tokens[0] == text[-1]
    assert len(tree) <= nodes
    assert max(tree.depths()) <= room
    siblings = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(siblings)) == len(siblings)
    drafted = lines(tree)
    if not branching:
        assert len(drafted) == 1
    for line in drafted:
        assert 2 not in line[:-1]  # nothing after EOS
        if line:
            assert any(follow(text, at, len(line)) == line for at, _ in naive_matches(text))
    # Nothing is left out that could have been drafted.
    assert (len(tree) > 1) == bool(naive_matches(text) and nodes > 1 and room > 0)


def follow(text: list[int], at: int, n: int) -> list[int]:
    """n tokens from `at` on; past the end of the text the copy goes on from itself."""
    line = text[at:]
    return (line * n)[:n]


@pytest.mark.parametrize(("make", "far", "wide"), [(lookup, 8, 5), (fusion, 11, 4)])
def test_a_long_match_drafts_far_and_a_short_one_does_not(make: Any, far: int, wide: int) -> None:
    rng = random.Random(0)
    text = [rng.randrange(3, 90) for _ in range(200)]
    copy = make().draft(drafting([*text, *text[100:130]]))
    assert copy.tokens[: far + 1] == text[129 : 130 + far]
    assert max(copy.depths()) >= far
    # One common token with many successors: the budget goes into breadth.
    often = [token for other in range(10, 30) for token in (1, other)]
    assert max(make().draft(drafting([*often, 1])).depths()) <= wide
    # The end of the text is no obstacle: a loop is drafted as a loop.
    assert make(nodes=9, **({"frequent": 0} if make is fusion else {})).draft(drafting([5, 6, 7, 8] * 6)).tokens == [
        8,
        *[5, 6, 7, 8] * 2,
    ]


def test_the_text_tells_of_a_match_up_to_its_first_mistake_whoever_drafts() -> None:
    text = [5, 6, 7, 8, 9, 5, 6]
    scores = drafting(text).session.evaluate([6], [ROOT])

    def after(chosen: list[int], path: list[int], tokens: Sequence[int], *, drafts: bool = True) -> float:
        drafter = lookup()
        if drafts:
            drafter.draft(drafting(text))
        else:
            assert drafter.match(text) == 2
        drafter.learn(Verified(Tree.chain(6, tokens), chosen, path, scores))
        learned = drafter.reliability[4]
        drafter.learn(Verified(Tree.root(6), [3], [0], scores))  # no match was asked for: nothing to learn
        assert drafter.reliability[4] == learned
        return learned

    nothing = lookup().reliability[4]
    one = after([7, 1, 1], [0], [7, 8])
    assert after([7, 8, 9], [0, 1, 2], [7, 8]) > one > nothing
    # A step without a draft tells as much: only the next token counts.
    assert after([7], [0], (), drafts=False) == one
    # What came after the first mistake says nothing of this match: the rest of the path is another's.
    assert after([3, 8, 9], [0, 1, 2], [3, 8]) == after([3], [0], (), drafts=False) < nothing


def test_of_a_match_near_the_end_the_loop_is_drafted() -> None:
    """The published method has no K tokens to draft there."""
    text = [5, 6, 7, 8, 6, 7]
    assert lookup(variant="reference").draft(drafting(text)).tokens == [7]
    assert lookup(nodes=6).draft(drafting(text)).tokens == [7, 8, 6, 7, 8, 6]


MORE = st.lists(st.integers(0, 30), min_size=1, max_size=80)


@cases(300)
@given(st.one_of(FEW, MORE), st.integers(1, 24), st.integers(0, 20), st.booleans(), st.integers(0, FREQUENT))
def test_the_tree_keeps_its_bounds(text: list[int], nodes: int, room: int, branching: bool, frequent: int) -> None:
    """No equal siblings, and probabilities that are probabilities, in falling order."""
    drafter = fusion(nodes=nodes, frequent=frequent)
    tree = drafter.draft(drafting(text, room, branching, eos=[2]))
    assert tree.tokens[0] == text[-1]
    assert len(tree) <= nodes
    assert max(tree.depths()) <= room
    assert all(parent < node for node, parent in enumerate(tree.parents))
    assert all(parent <= 0 or tree.tokens[parent] != 2 for parent in tree.parents)  # nothing after EOS
    assert branching or tree.parents == list(range(ROOT, len(tree) - 1))
    siblings = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(siblings)) == len(siblings) == len(drafter.probabilities)
    reached, below = drafter.probabilities, [0.0] * len(tree)
    assert reached == sorted(reached, reverse=True)
    for node in range(1, len(tree)):
        below[tree.parents[node]] += reached[node]
    assert all(children <= parent + 1e-12 for children, parent in zip(below, reached, strict=True))


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


@pytest.mark.parametrize(("edits", "nodes"), [(0.0, 16), (0.15, 16), (0.4, 64)])
def test_at_least_as_good_as_lookup(edits: float, nodes: int) -> None:
    rng = random.Random(4)
    records = [pieces(rng, edits) for _ in range(3)]

    def score(make: Any) -> float:
        return mean(replay(*record, make()).tokens_per_step for record in records)

    ours = score(lambda: fusion(nodes=nodes))
    assert ours >= score(lambda: Lookup(LookupParams(nodes=nodes)))
    assert ours >= score(lambda: Lookup(LookupParams(variant="reference")))


def test_recycled_successors_vote_and_their_worth_is_learned() -> None:
    class Oracle(Recycled):
        """Says that each token is followed by the next number."""

        learned = 0

        def guess(self, tail: Sequence[int]) -> list[tuple[int, float]]:
            return [(tail[-1] + 1, 1.0)]

        def learn(self, verified: Verified) -> None:
            self.learned += 1

    def worth(answer: list[int]) -> tuple[float, float]:
        oracle = Oracle()
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
