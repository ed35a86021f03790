"""Suffix decoding: its counts against counting anew, its drafts against the published rule, past answers. That what is kept is
bounded shows in private fields alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.base import ROOT, Sampling
from specchat.decoders.base import Context
from specchat.decoders.conversation import Conversation
from specchat.decoders.loop import Generation
from specchat.decoders.methods.suffix import Suffix, SuffixAutomaton, SuffixParams
from specchat.decoders.past.index import Past

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting, run

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
