"""Parts of methods: costs, sizes, copies for a draft model, trees of guesses, drafting ahead."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import LoadOptions, Model, Sampling, Scores, Session, UserError, load_model
from specchat.backends.info import least_share, plain_passes
from specchat.decoders import Acceptance, Context, Conversation, Drafter, Generation, Step, Tree, Verified, encode_prompt
from specchat.decoders.methods.auto.figures import PassCosts
from specchat.decoders.methods.fusion import Fusion
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.parts import ahead as ahead_module
from specchat.decoders.parts.ahead import Ahead, OwnThread
from specchat.decoders.parts.cascade import Copies, grow_chain
from specchat.decoders.parts.drafting import LONGEST, Reliability, Trie, draw_tokens
from specchat.decoders.parts.growth import Shares
from specchat.decoders.parts.position_tree import position_tree
from specchat.decoders.parts.proposers import DraftModelProposer, FirstLayers, Guesses, Proposer
from specchat.decoders.parts.sizes import Sizes

from ...cases import FULL, cases
from ...fakes.answers import answered
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.tiny import tiny_model
from ...fakes.models.toy import ToyModel, drafting
from ...fakes.prompts import TEXTS


@pytest.mark.parametrize("curve", [(), ((1, 10.0), (4, 24.0), (8, 19.0), (16, 40.0))])
def test_costs_begin_with_the_load_and_follow_the_passes(curve: tuple[tuple[int, float], ...]) -> None:
    passes = PassCosts(curve)
    assert passes.seconds(5) == pytest.approx(22.75 if curve else 0), "what dips stays so"
    assert passes.known == bool(curve)
    for _ in range(60):
        passes.learn(1, 20.0)
        passes.learn(4, 30.0)
    assert (passes.seconds(1), passes.seconds(4)) == pytest.approx((20, 30), abs=1)
    passes.learn(1, 5000.0)
    assert passes.seconds(1) < 22, "one interrupted pass does not change the picture"


COPY = f"Repeat this text exactly: {TEXTS[0]}"
STORY = "Tell me a story about a dog."


def context_of(model: Model, session: Session, tokens: Sequence[int], sampling: Sampling, acceptance: Acceptance) -> Context:
    eos = frozenset(model.info.eos_ids)
    return Context(tokens, session, sampling, 60, eos, model=model, acceptance=acceptance)


def chains(model: Model, make: Any, prompt: str, copies: Copies | None, **more: Any) -> tuple[list[list[int]], int]:
    """Chains of 12 at five places of an answer, and the draft's passes."""
    sampling = more.get("sampling", Sampling())
    conversation = Conversation(model)
    tokens = encode_prompt(model, prompt)
    answer = Generation(conversation, tokens, max_tokens=60, sampling=sampling)
    list(answer)
    text = answer.tokens
    proposer: Proposer = make()
    session: Any = conversation.session if isinstance(proposer, FirstLayers) else proposer.session  # type: ignore[attr-defined]
    out, passes, evaluate = list[list[int]](), [0], session.evaluate

    def counted(*args: Any, **options: Any) -> Scores:
        passes[0] += 1
        scores: Scores = evaluate(*args, **options)
        return scores

    for end in range(len(tokens) + 1, len(text), max(1, (len(text) - len(tokens)) // 5)):
        conversation.session.rewind(0)
        conversation.session.prefill(text[: end - 1])
        context = context_of(model, conversation.session, text[:end], sampling, more.get("acceptance", Acceptance()))
        session.evaluate = counted
        tree = grow_chain(proposer, context, 12, copies=copies)
        session.evaluate = evaluate
        assert tree.parents == list(range(-1, len(tree) - 1))
        out.append(tree.tokens)
        if isinstance(proposer, FirstLayers):
            # What was foreseen in vain is gone: a full pass completes just the chain.
            assert tree.pre_evaluated == proposer.evaluated <= len(tree)
            scores = conversation.session.evaluate(
                tree.tokens[tree.pre_evaluated :], tree.parents[tree.pre_evaluated :], range(len(tree))
            )
            assert len(scores.choose(Sampling())) == len(tree)
        proposer.settle(range(min(2, proposer.evaluated)))
    proposer.close()
    conversation.close()
    return out, passes[0]


SAMPLED = Sampling(temperature=0.8, seed=3)
WAYS: list[dict[str, Any]] = [
    {},
    {"sampling": SAMPLED},
    {"sampling": SAMPLED, "acceptance": Acceptance("rejection")},
    {"sampling": Sampling(temperature=0.8, seed=3, repetition_penalty=1.3)},
]


@pytest.mark.parametrize(("layers", "row"), product((0, 4), range(len(WAYS))) if FULL else [(0, 2), (4, 0)])
def test_a_copy_is_drafted_in_fewer_passes(builtin_model: Model, draft_model: Model, layers: int, row: int) -> None:
    def make() -> Proposer:
        return FirstLayers(layers) if layers else DraftModelProposer(draft_model, 2048)

    alone, passes = chains(builtin_model, make, COPY, None, **WAYS[row])
    helped, fewer = chains(builtin_model, make, COPY, Copies(), **WAYS[row])
    assert helped == alone, "another's guesses change nothing about a draft's own choices"
    assert passes == sum(len(chain) - 1 for chain in alone)
    assert fewer < passes / (1.5 if row else 2)


def test_what_followed_is_foreseen_up_to_the_end_of_an_answer() -> None:
    copies = Copies()
    copies.follow([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50, 51, 1, 2, 3])
    none = frozenset[int]()
    assert copies.after((), 2, none)[0] == [4, 5]
    assert copies.after((), 20, frozenset([5]))[0] == [4, 5], "nothing follows an EOS token"
    assert copies.after([4, 5], 3, none)[0] == [6, 7, 8], "behind drafted tokens as well"
    assert copies.after([4, 5], 3, frozenset([5])) == copies.after([], 0, none) == ([], [])


@cases(200)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.lists(st.integers(0, 3), max_size=6), st.integers(0, 12))
def test_a_line_always_stood_behind_the_last_tokens(text: list[int], drafted: list[int], most: int) -> None:
    copies = Copies()
    copies.follow(text)
    line, chances = copies.after(drafted, most, frozenset([3]))
    assert len(line) == len(chances) <= most
    assert chances == sorted(chances, reverse=True)
    last = [*text, *drafted][-1]
    assert not line or any(text[i] == last and text[i + 1 : i + 1 + len(line)] == line for i in range(len(text)))
    assert 3 not in line[:-1]


Q8_0 = ((1, 20.0), (2, 52.0), (4, 74.0), (8, 76.0), (16, 110.0))
Q4_0 = ((1, 10.0), (2, 14.0), (4, 16.0), (8, 27.0), (16, 44.0))
DIPPED = ((1, 10.0), (4, 18.0), (6, 24.0), (8, 19.0), (16, 60.0))


def on(curve: tuple[tuple[int, float], ...], tokens: Sequence[int] = (1, 2, 3)) -> Context:
    model = ToyModel(0)
    model.info = replace(model.info, pass_seconds=curve)
    return replace(drafting(list(tokens)), model=model)


def line(*chances: float) -> Tree:
    """A chain in which each token is so probable if those before it are right."""
    tree = Tree.chain(3, range(10, 10 + len(chances)))
    tree.reached = [1.0]
    for chance in chances:
        tree.reached.append(tree.reached[-1] * chance)
    return tree


def test_costs_lie_on_lines_between_the_sizes_that_were_measured() -> None:
    costs = plain_passes(Q8_0)
    assert [round(costs[n], 2) for n in (0, 1, 2, 3, 4, 6, 8, 12, 16)] == [1, 1, 2.6, 3.15, 3.7, 3.75, 3.8, 4.65, 5.5]
    assert costs[32] == pytest.approx(5.5 + 16 * 1.7 / 8), "beyond them it goes on"
    assert plain_passes(DIPPED)[8] < plain_passes(DIPPED)[6], "what dips stays so"
    assert set(plain_passes(())) == set(plain_passes(((1, 0.02),))) == {1.0}
    assert least_share(Q8_0) == pytest.approx(0.2125, abs=0.01)
    assert least_share(()) == 0


DOUBTFUL = (0.6, 0.5, 0.5)


@pytest.mark.parametrize(("chances", "curve", "nodes"), [
    ([0.95] * 15, Q8_0, 16), (DOUBTFUL, Q8_0, 1), (DOUBTFUL, Q4_0, 4), (DOUBTFUL, (), 4),
    ((0.9, 0.9, 0.9, 0.9, 0.9, 0.4, 0.3, 0.3), DIPPED, 8),
])  # fmt: skip
def test_a_draft_gets_the_size_that_pays(chances: Sequence[float], curve: Any, nodes: int) -> None:
    """Far where two nodes cost much, and a doubtful guess not at all; all of it where costs are not known."""
    sizes = Sizes()
    assert len(sizes.cut(line(*chances), on(curve))) == nodes
    assert sizes.declined == (() if nodes > 1 else (2, 2.6))


def test_of_a_tree_the_most_probable_nodes_are_kept_with_their_parents() -> None:
    tree = Tree([3, 5, 6, 7, 8, 9], [-1, 0, 0, 1, 3, 2], reached=[1.0, 0.8, 0.1, 0.7, 0.6, 0.05])
    cut = Sizes().cut(tree, on(Q4_0))
    assert (cut.tokens, cut.parents, cut.reached) == ([3, 5, 7, 8], [-1, 0, 1, 2], [1.0, 0.8, 0.7, 0.6])
    assert cut.as_drafted(range(4)) == (tree, [0, 1, 3, 4])
    chain = Tree.chain(3, [1, 2, 3])
    assert Sizes().cut(chain, on(Q8_0)) is chain, "it says nothing of its chances"


def test_promises_that_are_broken_are_believed_less() -> None:
    sizes, context, tree = Sizes(), on(Q4_0), line(0.75, 0.75, 0.75)
    tries = 0
    while len(cut := sizes.cut(tree, context)) > 1 and tries < 50:
        sizes.learn(cut, [0], context)
        tries += 1
    assert 0 < tries < 8
    chain = line(0.75, 0.75, 0.75)
    other = Sizes()
    for _ in range(20):
        other.learn(chain, range(4), context)
    assert other.expected(chain.reached)[-1] > Sizes().expected(chain.reached)[-1]


@pytest.mark.parametrize("right", [True, False])
def test_what_was_declined_is_judged_by_how_the_text_goes_on(right: bool) -> None:
    context, sizes, tokens = on(Q8_0, ()), Sizes(), [1, 2, 3]
    context.tokens = tokens
    for _ in range(30):
        assert len(sizes.cut(line(0.6, 0.6), context)) == 1 or right
        tokens += [10, 11, 12, 13] if right else [99]
        sizes.learn(Tree.root(3), [0], context)
    assert (sizes.expected([1.0, 0.6])[-1] > 1.6) is right


def test_a_trie_has_no_equal_siblings_and_keeps_its_budget() -> None:
    trie = Trie(9, 6)
    assert trie.add([1, 2, 3]) == [1, 2, 3]
    assert trie.add([1, 2, 4]) == [1, 2, 4]
    assert trie.add([1, 2], parent=3) == [5]
    assert trie.add([1, 2, 3, 1]) == [1, 2, 3, 5]
    assert (trie.tree.tokens, trie.tree.parents) == ([9, 1, 2, 3, 4, 1], [-1, 0, 1, 2, 2, 3])


def test_drawn_tokens_are_of_the_text_and_repeat() -> None:
    drawn = draw_tokens([1, 2, 3, 99, 4], 50, {99})
    assert drawn == draw_tokens([1, 2, 3, 99, 4], 50, {99}) != draw_tokens([1, 2, 3, 99, 4, 4], 50, {99})
    assert set(drawn) == {1, 2, 3, 4}


FEW = st.lists(st.integers(0, 2), min_size=1, max_size=60)  # few tokens, so that n-grams repeat
MAKE: dict[str, Callable[[], Drafter]] = {
    "lookup": Lookup,
    "lookup, as published": lambda: Lookup(LookupParams(variant="reference")),
    "fusion": Fusion,
}
every_make = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


@every_make
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


@pytest.mark.parametrize("odds", [0.2, 1.0, 5.0])
def test_longer_matches_are_surer_and_what_a_text_keeps_of_its_promises_is_learned(odds: float) -> None:
    """A text whose odds are so many times the usual ones."""
    rng, reliability, usual = random.Random(0), Reliability(), Reliability()
    values = [usual[m] for m in range(LONGEST + 1)]
    assert values == sorted(values)
    assert values[1] == pytest.approx(1 / 3)
    assert values[8] < values[12] == values[LONGEST]

    def true(match: int) -> float:
        return odds * usual[match] / (1 - usual[match] + odds * usual[match])

    for _ in range(2000):
        match = rng.choice((1, 2, 4, 8, 16))
        reliability.learn(match, rng.random() < true(match))
    assert [reliability[match] for match in (1, 4, 16)] == pytest.approx([true(match) for match in (1, 4, 16)], abs=0.15)


@cases(100, 30)
@given(st.integers(2, 4), st.integers(1, 64), st.integers(1, 12), st.data())
def test_all_nodes_are_allotted_and_nobody_is_left_out_for_good(
    count: int, nodes: int, chain: int, data: st.DataObject
) -> None:
    shares = Shares(count)
    lengths = st.one_of(st.none(), st.integers(0, 8))
    for _ in range(30):
        given_out = shares.allot(nodes, chain)
        assert sum(given_out) == nodes
        assert all(share == 0 or share >= min(chain, nodes // count) for share in given_out)
        shares.learn(data.draw(st.lists(lengths, min_size=count, max_size=count)))
        assert sum(shares.fractions()) == pytest.approx(1)
        assert min(shares.fractions()) > 0
    drafted = [0] * count
    for _ in range(64 * count * chain):
        drafted = [had or share for had, share in zip(drafted, shares.allot(nodes, chain), strict=True)]
    assert all(drafted) or nodes < count


def test_nodes_go_to_who_is_missed_more() -> None:
    shares = Shares(2)
    assert shares.allot(19, 5) == [10, 9]
    for _ in range(10):
        shares.learn([3, 1])
    rounds = [shares.allot(19, 5) for _ in range(20)]
    assert 1 <= sum(second > 0 for _, second in rounds) <= 8, "who is of little use seldom costs its passes"
    before = shares.fractions()
    assert before[0] > 0.9
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
    for _ in range(100):
        guesses, nodes, floor = guessed(rng), rng.randint(1, 30), rng.choice((0.0, 0.1, 0.3))
        grown = paths(position_tree(context(), guesses, nodes, floor, lambda _: None))
        every = [path for depth in range(1, len(guesses) + 1) for path in product(*guesses[:depth])]
        reached = {tuple(token for token, _ in path): prod(p for _, p in path) for path in every}
        best = sorted((p for p in reached.values() if p >= floor), reverse=True)[: nodes - 1]
        assert sorted((reached[path] for path in grown), reverse=True) == pytest.approx(best)
        assert len(set(grown)) == len(grown)


@pytest.mark.parametrize("rule", ["exact", "rejection"])
def test_where_guesses_are_drawn_their_ranks_alone_decide(rule: Any) -> None:
    rng = random.Random(2)
    for _ in range(100):
        guesses, nodes = guessed(rng), rng.randint(2, 30)
        other = [[(token + 100, rng.random()) for token, _ in rank_guesses] for rank_guesses in guesses]
        trees = [
            position_tree(context(0.8, rule), one, nodes, 0.0, lambda position: f"q{position}") for one in (guesses, other)
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
    cuts = 0
    for _ in range(100):
        guesses, nodes = guessed(rng), rng.randint(2, 30)
        whole = position_tree(context(0.8), guesses, nodes, 0.0, lambda _: None)
        position = rng.randrange(len(guesses))
        rank = rng.randrange(len(guesses[position]))
        replaced, p = guesses[position][rank]
        guesses[position][rank] = (EOS, p)
        cut = position_tree(context(0.8), guesses, nodes, 0.0, lambda _: None)
        expected = [
            tuple(EOS if depth == position and token == replaced else token for depth, token in enumerate(path))
            for path in paths(whole)
        ]
        assert paths(cut) == [path for path in expected if EOS not in path[:-1]]
        cuts += len(cut) < len(whole)
    assert cuts > 10


PROMPT = "Write a short story about a lighthouse keeper and a lost boat."
TOKENS = 64 if FULL else 30


@functools.cache
def pair(backend: str) -> tuple[Model, Model, OwnThread]:
    """Load the built-in model, its draft model, and that once more in another thread."""
    options = LoadOptions(device="cpu", threads=1, backend=backend)
    target, draft = load_model("builtin", options), load_model("builtin-draft", options)
    return target, draft, OwnThread(lambda: load_model("builtin-draft", options))


@pytest.fixture(params=["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def models(request: pytest.FixtureRequest) -> tuple[Model, Model, OwnThread]:
    return pair(str(request.param))


def answer(
    target: Model, draft: Model | None, method: str = "draft", prompt: str | Sequence[int] = PROMPT, **options: Any
) -> tuple[list[int], list[Step]]:
    generation, steps = answered(target, prompt, method, draft=draft, **{"max_tokens": TOKENS, **options})
    return generation.answer, steps


@pytest.fixture
def slow_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts that come late: whatever can be drafted on has been."""
    real = Ahead.judge

    def judge(self: Ahead, verified: Verified) -> None:
        if self._job is not None:
            self._job.exception()
        real(self, verified)

    monkeypatch.setattr(Ahead, "judge", judge)


def ahead(steps: Sequence[Step]) -> tuple[int, int]:
    """Tokens drafted on, and those that were thrown away."""
    return sum(step.ahead for step in steps), sum(step.wasted for step in steps)


@pytest.mark.parametrize(
    ("settings", "sampling", "rule"),
    [
        ({}, {}, "exact"),
        # Drafts whose lengths are not known beforehand.
        ({"schedule": "confidence", "cascade": False}, {"temperature": 0.8, "seed": 7}, "rejection"),
    ],
)
def test_the_tokens_do_not_change(
    models: tuple[Model, Model, OwnThread], slow_target: None, settings: dict[str, Any], sampling: dict[str, Any], rule: str
) -> None:
    target, draft, thread = models
    how: dict[str, Any] = {"sampling": Sampling(**sampling), "acceptance": Acceptance.parse(rule), "settings": settings}
    for prompt in (PROMPT, f"Repeat this text exactly: {TEXTS[0]}")[: 1 + FULL]:
        expected, _ = answer(target, draft, prompt=prompt, **how)
        tokens, steps = answer(target, thread, prompt=prompt, **how)
        assert tokens == expected
        assert rule != "exact" or expected == answer(target, None, "greedy", prompt, sampling=how["sampling"])[0]
        drafted, wasted = ahead(steps)
        assert drafted > 0
        assert wasted <= drafted
        how["settings"] = {**settings, "ahead": False}
        assert ahead(answer(target, thread, prompt=prompt, **how)[1]) == (0, 0)
        how["settings"] = settings


def test_one_draft_begins_where_the_one_before_drafted_on(slow_target: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_module, "LEAST", 0.0)  # a random model is never sure, not even of its own choice
    model = tiny_model("llama")
    conversation = Conversation(model, draft_model=OwnThread(lambda: model))
    settings = {"schedule": "constant", "tokens": 3, "cascade": False}
    generation = Generation(conversation, range(9, 30), "draft", settings=settings, max_tokens=41)
    session = generation.drafter._proposer.session  # type: ignore[attr-defined]
    for step in generation:
        assert step.wasted == 0
        assert len(step.tokens) == min(4, 41 - sum(generation.totals.runs[:-1]))
    assert generation.answer == answer(model, None, "greedy", range(9, 30), max_tokens=41)[0]
    assert session.nodes_evaluated <= 21 + 41  # none twice
    conversation.close()


def test_what_the_target_does_not_want_is_thrown_away(slow_target: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_module, "LEAST", 0.0)
    target, other = tiny_model("llama"), tiny_model("mistral")
    settings = {"schedule": "constant", "tokens": 2, "cascade": False}
    tokens, steps = answer(target, OwnThread(lambda: other), "draft", range(9, 30), settings=settings)
    assert tokens == answer(target, None, "greedy", range(9, 30))[0]
    refused = [step for step in steps[:-1] if step.accepted < step.drafted]
    assert refused
    for step in refused:
        assert step.ahead <= step.wasted
    drafted, wasted = ahead(steps)
    assert 0 < sum(step.wasted for step in refused) <= wasted <= drafted


def test_an_error_in_the_thread_is_one_sentence(
    models: tuple[Model, Model, OwnThread], slow_target: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _, thread = models
    ids = encode_prompt(target, PROMPT)
    expected, _ = answer(target, None, "greedy")
    conversation = Conversation(target, draft_model=thread)

    def fails(self: Ahead, most: int, length: int, nodes: int) -> None:
        raise UserError("There was not enough memory on cpu.")

    with monkeypatch.context() as patch:
        patch.setattr(Ahead, "_draft_ahead", fails)
        generation = Generation(conversation, ids, "draft", max_tokens=TOKENS)
        with pytest.raises(UserError, match=r"^There was not enough memory on cpu\.$"):
            list(generation)
        assert generation.answer == expected[: len(generation.answer)] != []
    second = Generation(conversation, ids, "draft", max_tokens=TOKENS)
    list(second)
    assert second.answer == expected
    conversation.close()
