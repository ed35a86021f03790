"""Suffix decoding, n-grams, lookahead, Jacobi, token recycling: counts from scratch; windows and tables as published."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import ROOT, Sampling
from specchat.decoders import Context, Conversation, Generation, Tree, Verified
from specchat.decoders.acceptance import walk
from specchat.decoders.methods.jacobi import Jacobi, JacobiParams
from specchat.decoders.methods.lookahead import Lookahead, LookaheadParams
from specchat.decoders.methods.ngram import KEY, NGRAM, Ngram, NgramParams
from specchat.decoders.methods.recycle import SHARES, Recycle, RecycleParams, SuccessorTable
from specchat.decoders.methods.suffix import DEPTH, Suffix, SuffixAutomaton, SuffixParams
from specchat.decoders.parts.ngrams import NgramPool, TextNgrams
from specchat.decoders.past.index import Past

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting, lines

EOS = 2
TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=40)
LINE = [5, 6, 7, 8, 9]


def suffix(**params: Any) -> Suffix:
    return Suffix(SuffixParams(**params))


def occurrences(text: Sequence[int], line: Sequence[int]) -> int:
    size = len(line)
    return sum(list(text[i : i + size]) == list(line) for i in range(len(text) - size + 1))


def counted(text: Sequence[int], depth: int) -> SuffixAutomaton:
    automaton = SuffixAutomaton(depth)
    automaton.follow(text)
    return automaton


@cases(150)
@given(TEXT, st.integers(2, 12), TEXT)
def test_every_sequence_is_counted(text: list[int], depth: int, other: list[int]) -> None:
    automaton = counted(text, depth)
    assert len(automaton.next) <= 2 * len(text) + 1
    for line in (text, other):
        for start in range(len(line)):
            state = 0
            for end in range(start + 1, min(start + depth, len(line)) + 1):
                state = automaton.next[state].get(line[end - 1], -1)
                assert (automaton.count[state] if state > 0 else 0) == occurrences(text, line[start:end])
                if state < 0:
                    break


@cases(150)
@given(TEXT, st.integers(2, 12), TEXT)
def test_the_longest_match_of_a_growing_text(text: list[int], depth: int, other: list[int]) -> None:
    automaton, match = counted(text, depth), (0, 0)
    for end in range(1, len(other) + 1):
        match = automaton.step(match, other[end - 1])
        longest = max(m for m in range(min(depth, end) + 1) if not m or occurrences(text, other[end - m : end]))
        assert match[1] == longest
        lengths = [m for _, shortest, longest in automaton.suffixes(match) for m in range(longest, shortest - 1, -1)]
        assert lengths == list(range(longest, 0, -1))
        for state, shortest, longest in automaton.suffixes(match):
            assert {occurrences(text, other[end - m : end]) for m in (shortest, longest)} == {automaton.count[state]}


def published(text: list[int], params: SuffixParams, room: int) -> list[tuple[float, list[tuple[int, int]]]]:
    """Draft for every length of the match by counting from scratch: (sum of probabilities, [(token, parent) …])."""

    def children(line: list[int]) -> list[tuple[int, int]]:
        after = Counter(text[i + len(line)] for i in range(len(text) - len(line)) if text[i : i + len(line)] == line)
        return after.most_common()

    drafts = []
    for m in range(1, min(DEPTH, len(text))):
        limit = min(int(params.factor * m), DEPTH - m, params.nodes - 1)
        draft: list[tuple[int, int]] = []
        open_: list[tuple[float, int, int, list[int]]] = []  # (−probability, order, parent, line)
        promised, node, reached, line, order = 0.0, 0, 1.0, text[-m:], 0
        while True:
            if len(line) - m < room and (node == 0 or line[-1] != EOS):
                for token, count in children(line)[: None if params.tree else 1]:
                    probability = reached * count / occurrences(text, line)
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


CHOICES: dict[str, list[Any]] = {
    "factor": [0.5, 1.0, 2.0, 4.0],
    "floor": [0.0, 0.1, 0.4],
    "tree": [False, True],
    "nodes": [1, 4, 12, 64],
}


@cases(150)
@given(TEXT, st.builds(SuffixParams, **{name: st.sampled_from(c) for name, c in CHOICES.items()}), st.integers(0, 8))
def test_the_draft_promises_most_of_all_lengths_of_the_match(text: list[int], params: SuffixParams, room: int) -> None:
    drafts = published(text, params, room)
    most = max((promised for promised, _ in drafts), default=0.0)
    tree = Suffix(params).draft(drafting(text, room=room, eos=[EOS]))
    assert (tree.tokens[0], tree.parents[0]) == (text[-1], ROOT)
    drafted = list(zip(tree.tokens[1:], tree.parents[1:], strict=True))
    assert drafted in [draft for promised, draft in drafts if promised > most - 1e-9] or (not drafted and most == 0)


def test_past_answers_are_drafted_from() -> None:
    past = Past()
    past.add([(1, [*LINE, 3]), (2, [*LINE, 4]), (3, [*LINE, 4])])
    tokens = [1, *LINE[:3]]
    context = Context(tokens, ToyModel(1).open_session(), Sampling(), 8, frozenset({EOS}), past=past)
    assert suffix(factor=4).draft(context).tokens == [7, 8, 9, 4]
    assert suffix(factor=4, past=False).draft(context).tokens == [7]
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
        for ngram_key in {tuple(text[i : i + length]) for i in range(len(text) - length + 1)}:
            expected: list[tuple[int, ...]] = []
            for i in range(len(text) - n, -1, -1):
                completion = tuple(text[i + length : i + n])
                if tuple(text[i : i + length]) == ngram_key and completion not in expected:
                    expected.append(completion)
            assert followed.pool.get(ngram_key, most) == expected[:most]


@cases(200)
@given(FEW, st.integers(1, 12), st.integers(0, 8))
def test_every_draft_is_a_verified_ngram(text: list[int], nodes: int, room: int) -> None:
    tree = ngram(nodes=nodes).draft(drafting(text, room=room, eos=[3]))
    assert len(tree) <= nodes
    joined = ",".join(map(str, text)) + ","
    for line in lines(tree):
        assert len(line) <= min(NGRAM - 1, room)
        assert ",".join(map(str, [text[-1], *line])) + "," in joined
        assert 3 not in line[:-1], "nothing after EOS"


def test_the_longest_key_comes_first() -> None:
    one, other = [21, 22, 23, *range(30, 40)], [24, 23, *range(40, 52)]
    text = [*one, *other, 21, 22, 23]
    tree = ngram(nodes=30).draft(drafting(text))
    assert tree.tokens[1 : 1 + NGRAM - KEY] == one[KEY:][: NGRAM - KEY]
    assert sorted(lines(tree)) == [[*range(30, 39)], [*range(40, 49)]]
    assert lines(ngram().draft(drafting(text, branching=False))) == [[*range(30, 37)]]
    assert len(ngram().draft(drafting([1, 2, 3, 4]))) == 1, "a miss drafts nothing"


def test_another_text_adds_to_what_is_known() -> None:
    drafter = ngram()
    drafter.draft(drafting([*range(30, 40)]))
    assert lines(drafter.draft(drafting([7, 8, 30]))) == [[*range(31, 40)]], "the first text was forgotten"


def test_pools_and_tables_are_bounded() -> None:
    pool, table = NgramPool(keys=10), SuccessorTable(rows=10)
    for token in range(100):
        pool.add((token,), (token + 1,), 2)
        pool.get((90,), 2)
        table.write(token, (1, 2))
        table.write(0, (3,))
    assert len([*pool]) == 10
    assert set(pool) >= {(90, 91), (99, 100)}
    assert set(table._rows) == {0, *range(91, 100)}
    for token in range(100):
        pool.add((0,), (token,), 2)
        pool.add((token + 200,), (1,), 2)
    assert pool.get((0,), 5) == [(99,), (98,)], "used keys stay, with their latest completions"


def lookahead_of(conversation: Conversation, **params: Any) -> Lookahead:
    drafter = conversation.drafter("lookahead", params)
    assert isinstance(drafter, Lookahead)
    return drafter


def begin(model: ToyModel, prompt: list[int], count: int, **params: Any) -> Generation:
    return Generation(Conversation(model), prompt, "lookahead", settings=params, max_tokens=count)


KINDS = st.sampled_from([(3, False), (9, True), (40, False)])
"""Size of a vocabulary, and whether answers end."""


@cases(60, 25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 7), st.integers(2, 6), KINDS)
def test_every_pooled_ngram_is_a_true_continuation(seed: int, memory: int, window: int, n: int, kind: tuple[int, bool]) -> None:
    """A memory of m tokens makes each m + 1 tokens in a row what the target says."""
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
    ngrams = [list(ngram) for ngram in window._pool if n == 2 or list(ngram) in pooled]
    assert all(ngram in ngrams for ngram in pooled)
    assert n == 2 or len([*window._pool]) == len(pooled)


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


def jacobi(**params: Any) -> Jacobi:
    return Jacobi(JacobiParams(**params))


def step(drafter: Jacobi, model: ToyModel, tokens: list[int]) -> list[int]:
    """One pass over the drafter's block: extends `tokens`, returns the block."""
    tree = drafter.draft(drafting(tokens))
    path = [*tokens[:-1]]
    chosen = []
    for token in tree.tokens:
        path.append(token)
        chosen.append(model.ranked(path)[0])
    accepted = walk(tree, chosen)
    session = model.open_session()
    drafter.learn(Verified(tree, chosen, accepted, session.evaluate(tree.tokens, tree.parents)))
    tokens += [tree.tokens[node] for node in accepted[1:]] + [chosen[accepted[-1]]]
    return tree.tokens[1:]


def test_the_next_guesses_are_the_choices_and_a_right_block_is_taken_whole() -> None:
    model, drafter, tokens = ToyModel(2, memory=3, vocabulary=50), jacobi(tokens=5), [1, 2, 3]
    answer = plain(model, tokens, 12)
    block = step(drafter, model, tokens)
    assert len(tokens) == 4, "with 50 tokens no first guess is right"
    path = [1, 2, 3, *block]
    choices = [model.ranked(path[: i + 4])[0] for i in range(5)]
    assert drafter.draft(drafting(tokens)).tokens[: 1 + 5] == [tokens[-1], *choices]
    drafter._guesses = answer[1:6]
    step(drafter, model, tokens)
    assert tokens == [1, 2, 3, *answer[:7]], "K guesses and one"


def test_first_guesses_are_drawn_from_the_text() -> None:
    drawn = jacobi(tokens=30).draft(drafting([4, 5, 6, 99, 7], eos=[99]))
    assert drawn == jacobi(tokens=30).draft(drafting([4, 5, 6, 99, 7], eos=[99]))
    assert set(drawn.tokens) == {4, 5, 6, 7}


def recycle(rows: dict[int, tuple[int, ...]] | None = None, **params: Any) -> Recycle:
    drafter = Recycle(RecycleParams(**params))
    for token, row in (rows or {}).items():
        drafter._table.write(token, row)
    return drafter


def paths(tree: Tree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[i] for i in tree.path(node)) for node in range(len(tree))}


@cases(100)
@given(st.integers(0, 10**6), st.integers(1, 24), st.integers(0, 5), st.booleans())
def test_the_tree_is_the_most_probable_one(seed: int, nodes: int, room: int, branching: bool) -> None:
    rng = random.Random(seed)
    rows = {token: tuple(rng.sample(range(6), rng.randint(0, 4))) for token in range(6)}
    tree = recycle(rows, nodes=nodes).draft(drafting([0], room=room, branching=branching, eos=[5]))
    # Every path there is, with the product of its ranks' shares.
    level: dict[tuple[int, ...], float] = {(0,): 1.0}
    everything = dict(level)
    for _ in range(room):
        level = {
            (*path, token): p * SHARES[rank]
            for path, p in level.items()
            if path[-1] != 5
            for rank, token in enumerate(rows[path[-1]])
            if branching or rank == 0
        }
        everything |= level
    grown = paths(tree)
    assert len(grown) == len(tree) == min(nodes, len(everything))
    best = sorted(everything.values(), reverse=True)[: len(tree)]
    assert sorted((everything[path] for path in grown), reverse=True) == best


def test_every_evaluated_node_fills_its_row() -> None:
    model = ToyModel(1, memory=1, vocabulary=20)
    conversation = Conversation(model)
    evaluated = set()
    for step in Generation(conversation, [1, 2, 3], "recycle", settings={"successors": 5}, max_tokens=60):
        evaluated |= set(step.tree.tokens)
    drafter = conversation.drafter("recycle", {"successors": 5})
    assert isinstance(drafter, Recycle)
    assert set(drafter._table._rows) == evaluated | {1, 2}  # of the prompt
    for token in evaluated:
        assert drafter._table.row(token) == tuple(model.ranked([token])[:5])


def test_of_a_token_met_twice_the_accepted_one_counts() -> None:
    model = ToyModel(2, memory=2, vocabulary=30)
    session = model.open_session()
    tree = Tree([1, 2, 3, 2], [-1, 0, 0, 2])
    scores = session.evaluate(tree.tokens, tree.parents)
    drafter = recycle(successors=4)
    drafter.learn(Verified(tree, [2, 5, 6, 7], [0, 1], scores))
    assert model.ranked([1, 2])[:4] != model.ranked([3, 2])[:4]
    assert drafter._table.row(2) == tuple(model.ranked([1, 2])[:4])
    assert drafter._table.row(3) == tuple(model.ranked([1, 3])[:4])


def test_the_text_gives_first_successors() -> None:
    tree = recycle(nodes=8).draft(drafting([1, 2, 3, 1, 4, 1]))
    assert paths(tree) >= {(1, 4), (1, 2), (1, 2, 3), (1, 4, 1)}
    assert tree.tokens[1] == 4, "the latest first"
    # What the target thinks replaces it, and keeps its width.
    drafter = recycle({1: (7, 8)}, successors=2)
    assert drafter.draft(drafting([1, 9, 1])).tokens[:2] == [1, 9]
    assert drafter._table.row(1) == (9, 7)
