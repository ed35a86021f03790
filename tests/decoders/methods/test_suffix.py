"""Suffix decoding and n-grams: counts against counting from scratch, drafts against the published rule, what is kept
and for how long. Pools are private, and read here: drafts show what is in them by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import ROOT, Sampling
from specchat.decoders import Context, Conversation, Generation
from specchat.decoders.methods.ngram import Ngram, NgramParams
from specchat.decoders.methods.suffix import Suffix, SuffixAutomaton, SuffixParams
from specchat.decoders.parts.ngrams import NgramPool, TextNgrams
from specchat.decoders.past.index import Past

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting, lines, run

EOS = 2
TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=40)
TEXTS = st.lists(TEXT, min_size=1, max_size=4)
LINE = [5, 6, 7, 8, 9]


def suffix(**params: Any) -> Suffix:
    return Suffix(SuffixParams(**params))


def occurrences(texts: Sequence[Sequence[int]], wanted: Sequence[int]) -> int:
    size = len(wanted)
    return sum(list(text[i : i + size]) == list(wanted) for text in texts for i in range(len(text) - size + 1))


def counted(texts: Sequence[Sequence[int]], depth: int) -> SuffixAutomaton:
    automaton = SuffixAutomaton(depth)
    for text in texts:
        for token in text:
            automaton.append(token)
        automaton.end_text()
    return automaton


@cases(150)
@given(TEXTS, st.integers(2, 12), TEXT)
def test_every_sequence_is_counted(texts: list[list[int]], depth: int, other: list[int]) -> None:
    automaton = counted(texts, depth)
    assert len(automaton.next) <= 2 * sum(map(len, texts)) + 1
    for text in (*texts, other):
        for start in range(len(text)):
            state = 0
            for end in range(start + 1, min(start + depth, len(text)) + 1):
                state = automaton.next[state].get(text[end - 1], -1)
                assert (automaton.count[state] if state > 0 else 0) == occurrences(texts, text[start:end])
                if state < 0:
                    break


@cases(150)
@given(TEXTS, st.integers(2, 12), TEXT)
def test_the_longest_match_of_a_growing_text(texts: list[list[int]], depth: int, text: list[int]) -> None:
    automaton, match = counted(texts, depth), (0, 0)
    for end in range(1, len(text) + 1):
        match = automaton.step(match, text[end - 1])
        longest = max(m for m in range(min(depth, end) + 1) if not m or occurrences(texts, text[end - m : end]))
        assert match[1] == longest
        lengths = [m for _, shortest, longest in automaton.suffixes(match) for m in range(longest, shortest - 1, -1)]
        assert lengths == list(range(longest, 0, -1))
        for state, shortest, longest in automaton.suffixes(match):
            assert {occurrences(texts, text[end - m : end]) for m in (shortest, longest)} == {automaton.count[state]}


def published(text: list[int], params: SuffixParams, room: int) -> list[tuple[float, list[tuple[int, int]]]]:
    """The draft of every length of the match, as (sum of the probabilities, [(token, parent) …]), by counting anew."""

    def children(line: list[int]) -> list[tuple[int, int]]:
        after = Counter(text[i + len(line)] for i in range(len(text) - len(line)) if text[i : i + len(line)] == line)
        return after.most_common()

    drafts = []
    for m in range(1, min(params.depth, len(text))):
        limit = min(int(params.factor * m + params.offset + 1e-6), params.depth - m, params.nodes - 1)
        draft: list[tuple[int, int]] = []
        open_: list[tuple[float, int, int, list[int]]] = []  # (−probability, order, parent, line)
        promised, node, reached, line, order = 0.0, 0, 1.0, text[-m:], 0
        while True:
            if len(line) - m < room and (node == 0 or line[-1] != EOS):
                for token, count in children(line)[: None if params.tree else 1]:
                    probability = reached * count / occurrences([text], line)
                    if probability >= params.floor:
                        open_.append((-probability, order, node, [*line, token]))
                        order += 1
            if not open_ or len(draft) >= limit:
                break
            open_.sort()
            least, _, parent, line = open_.pop(0)
            promised, reached = promised - least, -least
            draft.append((line[-1], parent))
            node = len(draft)
        drafts.append((promised, draft))
    return drafts


@cases(150)
@given(
    TEXT,
    st.builds(
        SuffixParams,
        factor=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
        offset=st.sampled_from([-1.0, 0.0, 2.0]),
        floor=st.sampled_from([0.0, 0.1, 0.4]),
        tree=st.booleans(),
        nodes=st.sampled_from([1, 4, 12, 64]),
        depth=st.sampled_from([3, 10, 64]),
    ),
    st.integers(0, 8),
)
def test_the_draft_promises_most_of_all_lengths_of_the_match(text: list[int], params: SuffixParams, room: int) -> None:
    drafts = published(text, params, room)
    most = max((promised for promised, _ in drafts), default=0.0)
    tree = Suffix(params).draft(drafting(text, room=room, eos=[EOS]))
    assert (tree.tokens[0], tree.parents[0]) == (text[-1], ROOT)
    drafted = list(zip(tree.tokens[1:], tree.parents[1:], strict=True))
    assert drafted in [draft for promised, draft in drafts if promised > most - 1e-9] or (not drafted and most == 0)


def test_an_answer_that_is_tried_again_is_drafted_from_the_first_try() -> None:
    drafter, prompt = suffix(), [1, 2, 3]
    first = [*prompt]
    drafter.draft(drafting(first))
    first += LINE
    assert drafter.draft(drafting([*prompt, 5])).tokens == [5, 6, 7], "two tokens of match"
    assert drafter.draft(drafting([*prompt, 5, 6, 7])).tokens == [7, 8, 9]


def test_past_answers_are_bounded() -> None:
    drafter = suffix(past=2)

    def answer(*tokens: int) -> None:
        text = [0]
        drafter.draft(drafting(text))
        text += tokens
        drafter.draft(drafting(text))

    for token in range(10, 100, 3):
        answer(token, token + 1, token + 2)
    drafter.draft(drafting([0, 0]))
    assert 2 <= len(drafter._answers) <= 4
    assert len(drafter._past.next) < 50
    assert drafter.draft(drafting([1, 97])).tokens == [97, 98], "the latest is there"
    assert drafter.draft(drafting([1, 10])).tokens == [10], "the first is not"
    none = suffix(past=0)
    none.draft(drafting([1, 2, 3]))
    assert none.draft(drafting([4, 2])).tokens == [2]


@pytest.mark.parametrize("settings", [{}, {"tree": True, "factor": 4.0, "floor": 0.0}])
def test_the_same_question_again_takes_fewer_passes(settings: dict[str, Any]) -> None:
    model = ToyModel(3, vocabulary=60, memory=4)
    conversation = Conversation(model)
    first = run(Generation(conversation, [1, 2, 3], "suffix", settings=settings, max_tokens=60))
    again = run(Generation(conversation, [1, 2, 3], "suffix", settings=settings, max_tokens=60))
    assert again.answer == first.answer == plain(model, [1, 2, 3], 60)
    assert again.totals.steps * 2 < first.totals.steps


def test_kept_answers_take_the_place_of_the_session_s() -> None:
    past = Past()
    past.add([(1, [*LINE, 3]), (2, [*LINE, 4]), (3, [*LINE, 4])])
    tokens = [1, *LINE[:3]]
    context = Context(tokens, ToyModel(1).open_session(), Sampling(), 8, frozenset({EOS}), past=past)
    assert suffix(factor=4).draft(context).tokens == [7, 8, 9, 4]
    assert suffix(factor=4, past=0).draft(context).tokens == [7]
    tree = suffix(factor=4, tree=True, floor=0).draft(context)
    assert sorted(tree.tokens) == [3, 4, 7, 8, 9]


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
