"""Lookahead decoding: the window's layout, the truth of its n-grams, and the corner cases that others crash or lose in. The
window and the pool are private, and read here: drafts show the one in part and the other by chance."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders import Conversation
from specchat.decoders.loop import Generation
from specchat.decoders.methods.lookahead import Lookahead, LookaheadParams

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting


def lookahead_of(conversation: Conversation, **params: Any) -> Lookahead:
    drafter = conversation.drafter("lookahead", params)
    assert isinstance(drafter, Lookahead)
    return drafter


def begin(model: ToyModel, prompt: list[int], count: int, **params: Any) -> Generation:
    return Generation(Conversation(model), prompt, "lookahead", settings=params, max_tokens=count)


@cases(60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.integers(1, 7),
    st.integers(2, 6),
    st.sampled_from([(3, False), (9, True), (40, False)]),
)
def test_every_pooled_ngram_is_a_true_continuation(seed: int, memory: int, window: int, n: int, kind: tuple[int, bool]) -> None:
    """With a memory of m tokens, each m + 1 tokens in a row must be what the target says."""
    model = ToyModel(seed, memory=memory, vocabulary=kind[0], ends=kind[1])
    conversation, rng = Conversation(model), random.Random(seed)
    pooled = 0
    for _ in range(2):  # turns
        prompt = [rng.randrange(kind[0]) for _ in range(rng.randint(1, 9))]
        params = {"window": window, "ngram": n, "guesses": 3, "text": False}
        generation = Generation(conversation, prompt, "lookahead", settings=params, max_tokens=60)
        for _ in generation:
            if rng.random() < 0.1:  # the text goes on without the window
                generation.switch(rng.choice(["greedy", "lookup"]))
            else:
                generation.switch("lookahead", params)
        for ngram in lookahead_of(conversation, **params)._pool:
            pooled += 1
            assert len(ngram) == n
            assert model.eos not in ngram[:-1]
            for i in range(n - memory):
                assert ngram[i + memory] == model.ranked(ngram[i : i + memory])[0], ngram
    if not kind[1] and window > 1:  # of a single column level 0 is always the pending token, which the others rarely follow
        assert pooled > 0


@pytest.mark.parametrize(("w", "n"), [(4, 4), (1, 4), (4, 2), (1, 2), (3, 3), (2, 6)])
def test_the_window_is_laid_out_and_moves_as_published(w: int, n: int) -> None:
    # In a vocabulary so large no two nodes coincide and no guess is right: each step gives one token.
    model, prompt = ToyModel(3, memory=3, vocabulary=5000), [1, 2, 3, 4, 5, 6, 7, 8]
    params = {"window": w, "ngram": n, "text": False}
    generation = begin(model, prompt, 100, **params)
    window = lookahead_of(generation.conversation, **params)
    pooled = []
    for index in range(12):
        tree = next(generation).tree
        columns, levels = window._window, min(index + 1, n - 1)
        # The drafter has learned: what was evaluated stands one level lower, or while it fills one column to the right.
        filling = index < n - 2
        grid = [column.nodes for column in columns]
        if filling:
            grid = [[0, *range(1, levels)], *grid]
        assert len(grid) == w + n - 1 - levels
        assert [len(nodes) for nodes in grid] == [levels] * len(grid)
        assert sorted(node for nodes in grid for node in nodes) == list(range(len(tree)))
        assert tree.window == frozenset(range(1, len(tree)))
        for i, nodes in enumerate(grid):
            assert nodes[0] == 0 if i == 0 else tree.parents[nodes[0]] == grid[i - 1][0]
            for level in range(1, levels):
                assert tree.parents[nodes[level]] == nodes[level - 1]
            # new[i]: the choice after the last level of column i.
            path = generation.tokens[: len(prompt) + index] + [tree.tokens[node] for node in tree.path(nodes[-1])][1:]
            trajectory = [tree.tokens[node] for node in nodes] + [model.ranked(path)[0]]
            if not filling:
                assert columns[i].tokens == trajectory[1:]
                if i > 0:
                    pooled.append(trajectory)
            elif i > 0:
                assert columns[i - 1].tokens == trajectory
    # Column 0 begins with the pending token, which its other levels were not made for.
    found = [list(ngram) for ngram in window._pool if n == 2 or list(ngram) in pooled]
    assert all(ngram in found for ngram in pooled)
    assert n == 2 or len(window._pool) == len(pooled)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("w", [1, 3])
def test_a_full_match_yields_n_tokens(n: int, w: int) -> None:
    model, prompt = ToyModel(3, memory=3, vocabulary=5000), [1, 2, 3]
    answer = plain(model, prompt, 20)
    generation = begin(model, prompt, 20, window=w, ngram=n, text=False)
    pool = lookahead_of(generation.conversation, window=w, ngram=n, text=False)._pool
    pool.add((3,), tuple(answer[: n - 1]), 7)
    pool.add((3,), (*answer[: n - 2], 7), 7)
    step = next(generation)
    assert list(step.tokens) == answer[:n]
    assert step.accepted == n - 1
    assert step.drafted == n, "what two n-grams share is verified once"


def test_eos_in_the_window_is_drawn_anew_and_ngrams_may_end_in_it() -> None:
    ended = 0
    for seed in range(30):
        model = ToyModel(seed, memory=1, vocabulary=5, ends=True)
        generation = begin(model, [0, 1, 2, 3, 4], 60, window=5, ngram=3, text=False)
        for step in generation:
            assert not any(step.tree.tokens[node] == model.eos for node in step.tree.window)
        pool = lookahead_of(generation.conversation, window=5, ngram=3, text=False)._pool
        ended += any(ngram[-1] == model.eos for ngram in pool)
    assert ended > 0


def test_the_pool_may_be_seeded_from_the_text() -> None:
    text = [1, 2, 3, 4, 5, 1]
    seeded = Lookahead(LookaheadParams(ngram=4)).draft(drafting(text))
    assert [seeded.tokens[node] for node in range(4)] == [1, 2, 3, 4]
    assert not seeded.window & {1, 2, 3}
    unseeded = Lookahead(LookaheadParams(ngram=4, text=False)).draft(drafting(text))
    assert unseeded.window == frozenset(range(1, len(unseeded)))
