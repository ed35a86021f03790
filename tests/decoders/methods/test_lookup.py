"""Prompt lookup: the published method against its published code, ours against what it promises, the index against lists."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.base import ROOT
from specchat.decoders.base import Verified
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.parts.ngrams import LONGEST, ORDERS, STRIDE, NgramIndex
from specchat.decoders.tree import Tree

from ...cases import cases
from ...fakes.models.toy import drafting, lines

FEW = st.lists(st.integers(0, 2), min_size=1, max_size=60)  # few tokens, so that n-grams repeat


def lookup(**params: Any) -> Lookup:
    return Lookup(LookupParams(**params))


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
        found = index.matches(10_000, shortest=shortest)
        clipped = sorted(((at, min(length, ORDERS)) for at, length in found), key=lambda m: (-m[1], -m[0]))
        assert clipped == naive_matches(text[: i + 1], shortest=shortest)
        true = dict(naive_matches(text[: i + 1], LONGEST))
        for at, length in found:
            assert length == (true[at] if length < ORDERS else true[at] // STRIDE * STRIDE)
        assert [length for _, length in found] == sorted((length for _, length in found), reverse=True)
        some = index.matches(limit, longest=3)
        assert some == naive_matches(text[: i + 1], 3)[:limit]


@pytest.mark.parametrize(("copied", "measured"), [(7, 7), (8, 8), (15, 8), (16, 16), (31, 24), (40, 32)])
def test_long_matches_are_measured_in_strides(copied: int, measured: int) -> None:
    index = NgramIndex()
    index.follow([*range(100), *range(50 - copied, 50)])
    assert index.matches(8) == [(50, measured)]


@cases(300)
@given(FEW, st.integers(1, 20), st.integers(0, 20), st.integers(1, 3), st.booleans())
def test_ours_drafts_what_followed_a_match(text: list[int], nodes: int, room: int, shortest: int, branching: bool) -> None:
    drafter = lookup(nodes=nodes, min_ngram=shortest)
    tree = drafter.draft(drafting(text, room, branching, eos=[2]))
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
            assert any(follow(text, at, len(line)) == line for at, _ in naive_matches(text, shortest=shortest))
    # Nothing is left out that could have been drafted.
    assert (len(tree) > 1) == bool(naive_matches(text, shortest=shortest) and nodes > 1 and room > 0)


def follow(text: list[int], at: int, n: int) -> list[int]:
    """n tokens from `at` on; past the end of the text the copy goes on from itself."""
    line = text[at:]
    return (line * n)[:n]


def test_a_long_match_drafts_far_and_a_short_one_does_not() -> None:
    rng = random.Random(0)
    text = [rng.randrange(3, 90) for _ in range(200)]
    known = lookup().draft(drafting([*text, *text[100:130]]))
    assert known.tokens[:9] == text[129:138]
    assert max(known.depths()) >= 8
    # One common token with many successors: the budget goes into breadth.
    often = [token for other in range(10, 30) for token in (1, other)]
    assert max(lookup().draft(drafting([*often, 1])).depths()) <= max(known.depths()) // 2


@cases(150)
@given(FEW)
def test_the_latest_place_of_the_longest_run_is_told_without_a_tree(text: list[int]) -> None:
    index = NgramIndex()
    index.follow(text)
    found = naive_matches(text)
    assert index.latest[1] == max((min(match, ORDERS) for _, match in found), default=0)
    assert lookup().match(text) == index.latest[1]
    if found:
        place, match = index.latest
        assert place == max(place for place, length in found if min(length, ORDERS) == match)


@pytest.mark.parametrize("right", [True, False])
def test_matches_are_learned_about_whoever_drafts(right: bool) -> None:
    """A step without a draft tells as much: only the next token counts."""
    drafter = lookup()
    before = drafter.reliability[2]
    text = [5, 6, 7, 8, 9, 5, 6]
    scores = drafting(text).session.evaluate([6], [ROOT])
    for _ in range(4):
        assert drafter.match(text) == 2
        chosen = [7 if right else 3]
        drafter.learn(Verified(Tree.root(6), chosen, [0], scores))
    assert (drafter.reliability[2] > before) is right
    known = drafter.reliability[2]
    drafter.learn(Verified(Tree.root(6), [3], [0], scores))  # no match was asked for: nothing to learn
    assert drafter.reliability[2] == known


def test_the_accepted_path_tells_of_the_match_up_to_its_first_mistake() -> None:
    text = [5, 6, 7, 8, 9, 5, 6]
    scores = drafting(text).session.evaluate([6], [ROOT])

    def after(chosen: list[int], path: list[int], tokens: list[int]) -> float:
        drafter = lookup()
        drafter.draft(drafting(text))
        tree = Tree.chain(6, tokens)
        drafter.learn(Verified(tree, chosen, path, scores))
        return drafter.reliability[4]

    nothing = lookup().reliability[4]
    one = after([7, 1, 1], [0], [7, 8])
    three = after([7, 8, 9], [0, 1, 2], [7, 8])
    assert three > one > nothing
    # What came after the first mistake says nothing of this match: the rest of the path is another's.
    assert after([3, 8, 9], [0, 1, 2], [3, 8]) == after([3, 1, 1], [0], [7, 8]) < nothing


def test_late_matches_and_loops() -> None:
    # The only match is two tokens from the end: the published method has no K tokens to draft, ours drafts the loop.
    text = [5, 6, 7, 8, 6, 7]
    assert lookup(variant="reference").draft(drafting(text)).tokens == [7]
    assert lookup(nodes=6).draft(drafting(text)).tokens == [7, 8, 6, 7, 8, 6]
