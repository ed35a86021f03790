"""The online n-gram model: what it stores, what it drafts, and that it remembers. The pool is private, and read here: drafts
show what is in it by chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders import Conversation, Generation
from specchat.decoders.methods.ngram import Ngram, NgramParams
from specchat.decoders.parts.ngrams import NgramPool, TextNgrams

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting, lines, run

FEW = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def ngram(**params: Any) -> Ngram:
    return Ngram(NgramParams(**params))


@cases(200)
@given(FEW, st.integers(2, 5), st.integers(1, 3), st.integers(1, 4))
def test_the_pool_holds_the_latest_completions_of_each_key(text: list[int], n: int, key: int, most: int) -> None:
    followed = TextNgrams(NgramPool(), n, min(key, n - 1), most)
    followed.follow(text)
    for length in range(1, min(key, n - 1) + 1):
        for wanted in {tuple(text[i : i + length]) for i in range(len(text) - length + 1)}:
            expected: list[tuple[int, ...]] = []
            for i in range(len(text) - n, -1, -1):
                completion = tuple(text[i + length : i + n])
                if tuple(text[i : i + length]) == wanted and completion not in expected:
                    expected.append(completion)
            assert followed.pool.get(wanted, most) == expected[:most]


@cases(200)
@given(FEW, st.integers(2, 6), st.integers(1, 3), st.integers(1, 12), st.integers(0, 8))
def test_every_draft_is_a_verified_ngram(text: list[int], n: int, key: int, nodes: int, room: int) -> None:
    tree = ngram(n=n, key=key, nodes=nodes).draft(drafting(text, room=room, eos=[3]))
    assert len(tree) <= nodes
    joined = ",".join(map(str, text)) + ","
    for line in lines(tree):
        assert len(line) <= min(n - 1, room)
        assert ",".join(map(str, [text[-1], *line])) + "," in joined
        assert 3 not in line[:-1], "nothing after EOS"


def test_the_longest_key_comes_first() -> None:
    text = [1, 2, 3, 4, 9, 2, 3, 5, 9, 1, 2, 3]
    assert lines(ngram(n=4, key=3, completions=1).draft(drafting(text))) == [[4], [5, 9, 1]]
    assert lines(ngram(n=4, key=1, completions=1).draft(drafting(text))) == [[5, 9, 1]]
    assert lines(ngram(n=4, key=3).draft(drafting(text, branching=False))) == [[4]]


def test_a_miss_drafts_nothing_unless_random_fill_is_on() -> None:
    text = [1, 2, 3, 4]
    assert len(ngram(n=3).draft(drafting(text))) == 1
    filled = ngram(n=3, fill="random").draft(drafting(text, eos=[2]))
    assert len(filled) == 3
    assert set(filled.tokens) <= {1, 3, 4}
    assert filled == ngram(n=3, fill="random").draft(drafting(text, eos=[2]))
    assert len(ngram(n=9, fill="random").draft(drafting(text, room=0))) == 1


def test_another_text_adds_to_what_is_known() -> None:
    drafter = ngram(n=3, key=1)
    drafter.draft(drafting([1, 2, 3, 4]))
    assert lines(drafter.draft(drafting([7, 8, 1]))) == [[2, 3]], "the first text was forgotten"
    assert lines(drafter.draft(drafting([1, 2, 5, 1]))) == [[2, 5], [2, 3]]


@pytest.mark.parametrize("n", [3, 5])
def test_all_ngrams_has_what_the_target_chose_after_refused_tokens(n: int) -> None:
    model, prompt = ToyModel(3, vocabulary=12, memory=2), [1, 2, 3]
    conversation = Conversation(model)
    settings = {"n": n, "store": "all", "fill": "random"}
    generation = run(Generation(conversation, prompt, "ngram", settings=settings, max_tokens=60))
    assert generation.answer == plain(model, prompt, 60)
    drafter = conversation.drafter("ngram", settings)
    assert isinstance(drafter, Ngram)
    text = ",".join(map(str, generation.tokens)) + ","
    beside = [ngram for ngram in drafter._text.pool if ",".join(map(str, ngram)) + "," not in text]
    assert beside
    assert all(ngram[-1] == model.ranked(ngram[-3:-1])[0] for ngram in beside)
    verified = Conversation(model)
    run(Generation(verified, prompt, "ngram", settings={"n": n, "fill": "random"}, max_tokens=60))
    assert len(drafter._text.pool) > len(verified.drafter("ngram", {"n": n, "fill": "random"})._text.pool)  # type: ignore[attr-defined]


def test_the_pool_is_bounded() -> None:
    pool = NgramPool(keys=10)
    for token in range(100):
        pool.add((token,), (token + 1,), 2)
        pool.get((90,), 2)
    assert len(pool) == 10
    assert set(pool) >= {(90, 91), (99, 100)}
    for token in range(100):
        pool.add((0,), (1,), 2)  # the same again keeps it young
        pool.add((token + 200,), (1,), 2)
    assert (0, 1) in set(pool)
    for token in range(100):
        pool.add((0,), (token,), 2)
    assert pool.get((0,), 5) == [(99,), (98,)]
