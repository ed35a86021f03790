"""What methods share: drafts from a text, what is learned of matches, the tree of guesses for several positions."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import Sampling
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.base import Context, Drafter
from specchat.decoders.methods.fusion import Fusion
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.parts.drafting import Trie, draw_tokens
from specchat.decoders.parts.learned import LONGEST, Reliability, Shares
from specchat.decoders.parts.merging import merge
from specchat.decoders.parts.position_tree import position_tree
from specchat.decoders.parts.proposers import Guesses
from specchat.decoders.tree import Tree

from ...cases import cases
from ...fakes.models.toy import drafting


def test_a_trie_has_no_equal_siblings_and_keeps_its_budget() -> None:
    trie = Trie(9, 6)
    assert trie.add([1, 2, 3]) == [1, 2, 3]
    assert trie.add([1, 2, 4]) == [1, 2, 4]
    assert trie.add([1, 2], parent=3) == [5]
    assert trie.add([1, 2, 3, 1]) == [1, 2, 3, 5]
    assert (trie.tree.tokens, trie.tree.parents) == ([9, 1, 2, 3, 4, 1], [-1, 0, 1, 2, 2, 3])


LINES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=5)


@cases(200)
@given(st.lists(LINES, min_size=1, max_size=4), st.integers(1, 20))
def test_merged_trees_share_what_is_equal_within_the_budget(all_lines: list[list[list[int]]], budget: int) -> None:
    trees = []
    for lines in all_lines:
        trie = Trie(9, 30)
        for line in lines:
            trie.add(line)
        trees.append(trie.tree)
    paths = [{tuple(map(each.tokens.__getitem__, each.path(n))) for n in range(len(each))} for each in trees]
    tree, own = trees[0], len(trees[0])
    others: Any = [SimpleNamespace(name=f"{i}", draft=lambda _, i=i: trees[i]) for i in range(1, len(trees))]
    merge(tree, "own", others, drafting([9]), budget)
    found = [tuple(map(tree.tokens.__getitem__, tree.path(node))) for node in range(len(tree))]
    assert len({*found}) == len(found) <= max(own, budget)
    assert {*found} <= set().union(*paths)
    if len(found) < budget:
        assert {*found} == set().union(*paths)
    if others:
        names = ["own", *(each.name for each in others)][own == 1 :]
        assert [*tree.drafters] == names
        held = paths[own == 1 :]
        assert tree.sources[1:] == [sum((path in each) << bit for bit, each in enumerate(held)) for path in found[1:]]


def test_drawn_tokens_are_of_the_text_and_repeat_by_seed() -> None:
    text = [1, 2, 3, 99, 4]
    some = draw_tokens(text, 50, 1, {99})
    assert some == draw_tokens(text, 50, 1, {99}) != draw_tokens(text, 50, 2, {99})
    assert set(some) == {1, 2, 3, 4}
    assert draw_tokens(text, 50, 1, {99}) != draw_tokens([*text, 4], 50, 1, {99}), "another place, other tokens"
    assert drafting(text).pending == 4


FEW = st.lists(st.integers(0, 2), min_size=1, max_size=60)  # few tokens, so that n-grams repeat
MAKE: dict[str, Callable[[], Drafter]] = {
    "lookup": Lookup,
    "lookup, as published": lambda: Lookup(LookupParams(variant="reference")),
    "fusion": Fusion,
}
each = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


@each
@cases(150)
@given(st.lists(FEW, min_size=2, max_size=4), st.integers(0, 60))
def test_growing_and_changing_texts_give_what_a_fresh_one_gives(
    make: Callable[[], Drafter], turns: list[list[int]], shared: int
) -> None:
    drafter, text = make(), list[int]()
    for turn in turns:
        del text[shared:]  # a new turn keeps only a prefix
        for token in turn:
            text.append(token)
            tree = drafter.draft(drafting(text))
        assert tree == make().draft(drafting(list(text)))
    del text[len(text) // 2 :]  # the same list, shorter
    if text:
        assert drafter.draft(drafting(text)) == make().draft(drafting(list(text)))


@pytest.mark.parametrize("text", ["twice", "random", "one token"])
@each
def test_memory_stays_under_a_kilobyte_per_token(make: Callable[[], Drafter], text: str) -> None:
    rng = random.Random(0)
    tokens = [rng.randrange(32_000) for _ in range(2000)]
    tokens = {"twice": tokens[:1000] * 2, "random": tokens, "one token": [7] * 2000}[text]
    tracemalloc.start()
    drafter = make()
    drafter.draft(drafting(tokens))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used / len(tokens) <= 1024


def test_longer_matches_are_surer() -> None:
    known = Reliability()
    values = [known[m] for m in range(LONGEST + 1)]
    assert values == sorted(values)
    assert values[1] == pytest.approx(1 / 3)
    assert values[8] < values[12] == values[LONGEST]
    assert 0 <= values[0] < values[-1] < 1


@pytest.mark.parametrize("odds", [0.2, 1.0, 5.0])
def test_what_a_text_keeps_of_its_promises_is_learned(odds: float) -> None:
    """A text whose odds are so many times the usual ones."""
    rng, known = random.Random(0), Reliability()
    for _ in range(2000):
        match = rng.choice((1, 2, 4, 8, 16))
        usual = Reliability()[match]
        true = odds * usual / (1 - usual + odds * usual)
        known.learn(match, rng.random() < true)
    for match in (1, 4, 16):
        usual = Reliability()[match]
        true = odds * usual / (1 - usual + odds * usual)
        assert known[match] == pytest.approx(true, abs=0.15)


@given(st.integers(2, 4), st.integers(1, 64), st.integers(1, 12), st.data())
def test_all_nodes_are_allotted_and_nobody_is_left_out_for_good(
    count: int, nodes: int, chain: int, data: st.DataObject
) -> None:
    shares = Shares(count)
    lengths = st.one_of(st.none(), st.integers(0, 8))
    for _ in range(30):
        given_out = shares.allot(nodes, chain)
        assert sum(given_out) == nodes
        assert all(each == 0 or each >= min(chain, nodes // count) for each in given_out)
        shares.learn(data.draw(st.lists(lengths, min_size=count, max_size=count)))
        assert sum(shares.fractions()) == pytest.approx(1)
        assert min(shares.fractions()) > 0
    drafted = [0] * count
    for _ in range(64 * count * chain):
        drafted = [had or each for had, each in zip(drafted, shares.allot(nodes, chain), strict=True)]
    assert all(drafted) or nodes < count


def test_nodes_go_to_who_is_missed_more() -> None:
    shares = Shares(2)
    assert shares.allot(19, 5) == [10, 9]
    for _ in range(10):
        shares.learn([3, 1])
    assert shares.fractions()[0] > 0.9
    rounds = [shares.allot(19, 5) for _ in range(20)]
    assert 1 <= sum(second > 0 for _, second in rounds) <= 8, "who is of little use seldom costs its passes"
    assert all(second in (0, 5, 6) for _, second in rounds)
    before = shares.fractions()
    shares.learn([4, None])
    assert shares.fractions() == before, "who drafts alone proves nothing about the others"
    for _ in range(40):
        shares.learn([1, 3])
    assert shares.fractions()[1] > 0.6


EOS = 9


def context(temperature: float = 0.0, rule: Any = "exact") -> Context:
    return Context([7], None, Sampling(temperature=temperature), 99, frozenset({EOS}), acceptance=Acceptance(rule))  # type: ignore[arg-type]


def paths(tree: Tree) -> list[tuple[int, ...]]:
    """The tokens of each node's path, below the root."""
    return [tuple(tree.tokens[step] for step in tree.path(node)[1:]) for node in range(1, len(tree))]


def guessed(rng: random.Random) -> list[Guesses]:
    """Up to four guesses for each of up to four positions, the most probable first."""
    return [
        sorted(((token, rng.random()) for token in rng.sample(range(10, 90), rng.randint(1, 4))), key=lambda pair: -pair[1])
        for _ in range(rng.randint(1, 4))
    ]


def test_the_most_probable_paths_are_in_it() -> None:
    rng = random.Random(1)
    for _ in range(300):
        guesses, nodes, floor = guessed(rng), rng.randint(1, 30), rng.choice((0.0, 0.1, 0.3))
        found = paths(position_tree(context(), guesses, nodes, floor, lambda _: None))
        every = [path for depth in range(1, len(guesses) + 1) for path in product(*guesses[:depth])]
        reached = {tuple(token for token, _ in path): prod(p for _, p in path) for path in every}
        best = sorted((p for p in reached.values() if p >= floor), reverse=True)[: nodes - 1]
        assert sorted((reached[path] for path in found), reverse=True) == pytest.approx(best)
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("rule", ["exact", "rejection", "soft"])
def test_where_guesses_are_drawn_their_ranks_alone_decide(rule: Any) -> None:
    rng = random.Random(2)
    for _ in range(100):
        guesses, nodes = guessed(rng), rng.randint(2, 30)
        other = [[(token + 100, rng.random()) for token, _ in found] for found in guesses]
        trees = [
            position_tree(context(0.8, rule), each, nodes, 0.0, lambda position: f"q{position}") for each in (guesses, other)
        ]
        assert trees[0].parents == trees[1].parents
        assert [token + 100 for token in trees[0].tokens[1:]] == trees[1].tokens[1:]
        if rule == "exact":
            assert trees[0].probs is None
            continue
        depths = trees[0].depths()
        for parent, draws in (trees[0].probs or {}).items():
            assert draws.q == f"q{depths[parent]}"
            below = [node for node, above in enumerate(trees[0].parents) if above == parent]
            assert draws.nodes == tuple(below)
            assert [trees[0].tokens[node] for node in below] == [token for token, _ in guesses[depths[parent]]][: len(below)]


def test_an_eos_takes_its_place_and_ends_its_path() -> None:
    rng = random.Random(3)
    seen = 0
    for _ in range(100):
        guesses, nodes = guessed(rng), rng.randint(2, 30)
        whole = position_tree(context(0.8), guesses, nodes, 0.0, lambda _: None)
        position = rng.randrange(len(guesses))
        rank = rng.randrange(len(guesses[position]))
        gone, p = guesses[position][rank]
        guesses[position][rank] = (EOS, p)
        cut = position_tree(context(0.8), guesses, nodes, 0.0, lambda _: None)
        wanted = [
            tuple(EOS if depth == position and token == gone else token for depth, token in enumerate(path))
            for path in paths(whole)
        ]
        assert paths(cut) == [path for path in wanted if EOS not in path[:-1]]
        seen += len(cut) < len(whole)
    assert seen > 10
