"""Jacobi iterations: the guesses, their refreshing, and that they end. Right guesses are put in its private field, as no prompt
makes them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders.acceptance import walk
from specchat.decoders.base import Verified
from specchat.decoders.methods.jacobi import Jacobi, JacobiParams

from ...cases import cases
from ...fakes.answers import plain
from ...fakes.models.toy import ToyModel, drafting


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


@cases(80)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 9), st.integers(1, 9), st.sampled_from(["text", "repeat"]))
def test_a_block_of_k_takes_at_most_k_passes(seed: int, memory: int, vocabulary: int, k: int, start: str) -> None:
    model = ToyModel(seed, memory=memory, vocabulary=vocabulary)
    drafter, tokens = jacobi(tokens=k, slide=False, start=start), [0, 1, 0, 1, 1]
    blocks: list[int] = []  # passes of each
    ends = 0
    for _ in range(40):
        length = len(tokens)
        block = step(drafter, model, tokens)
        if length > ends - 1:  # no guess of the last block is left: a new one, K places behind the pending token
            blocks.append(0)
            ends = length + k
        assert len(block) == ends - length, "the block ends where it ended"
        blocks[-1] += 1
    assert max(blocks) <= k
    assert tokens[5:] == plain(model, [0, 1, 0, 1, 1], len(tokens) - 5)


def test_the_next_guesses_are_the_choices() -> None:
    model, drafter, tokens = ToyModel(2, memory=3, vocabulary=50), jacobi(tokens=5), [1, 2, 3]
    block = step(drafter, model, tokens)
    assert len(tokens) == 4, "with 50 tokens no first guess is right"
    path = [1, 2, 3, *block]
    choices = [model.ranked(path[: i + 4])[0] for i in range(5)]
    assert drafter.draft(drafting(tokens)).tokens[: 1 + 5] == [tokens[-1], *choices]


def test_a_right_block_is_taken_whole() -> None:
    model, tokens = ToyModel(2, memory=3, vocabulary=50), [1, 2, 3]
    answer = plain(model, tokens, 12)
    drafter = jacobi(tokens=5)
    step(drafter, model, tokens)
    drafter._guesses = answer[1:6]
    step(drafter, model, tokens)
    assert tokens == [1, 2, 3, *answer[:7]], "K guesses and one"


def test_first_guesses() -> None:
    text = [4, 5, 6, 99, 7]
    assert jacobi(tokens=3, start="repeat").draft(drafting(text)).tokens == [7, 7, 7, 7]
    drawn = jacobi(tokens=30).draft(drafting(text, eos=[99]))
    assert drawn == jacobi(tokens=30).draft(drafting(text, eos=[99]))
    assert set(drawn.tokens) == {4, 5, 6, 7}
    assert drawn != jacobi(tokens=30, seed=1).draft(drafting(text, eos=[99]))
