"""What drafts by n-gram, suffix, recycling, Jacobi and lookahead share: the plain method's tokens, on toys, and limits."""

from __future__ import annotations

import pytest

from specchat.decoders.conversation import Conversation
from specchat.decoders.loop import Generation
from specchat.decoders.parts.drafting import Trie, drawn

from ...fakes.models.toy import ToyModel, drafting, run

FLOORS = {"ngram": 2.0, "suffix": 2.0, "recycle": 1.5, "jacobi": 1.05, "lookahead": 1.5}
"""Tokens per step on text that repeats itself."""


@pytest.mark.parametrize(("method", "floor"), FLOORS.items())
def test_repetitive_text_is_drafted(method: str, floor: float) -> None:
    rates = []
    for seed in range(8):
        model = ToyModel(seed, vocabulary=5)
        totals = run(Generation(Conversation(model), [0, 1, 2], method, max_tokens=150)).totals
        assert totals.accepted > 0
        rates.append(totals.tokens_per_step)
    assert sum(rates) / len(rates) > floor, rates


def test_a_trie_has_no_equal_siblings_and_keeps_its_budget() -> None:
    trie = Trie(9, 6)
    assert trie.add([1, 2, 3]) == [1, 2, 3]
    assert trie.add([1, 2, 4]) == [1, 2, 4]
    assert trie.add([1, 2], parent=3) == [5]
    assert trie.add([1, 2, 3, 1]) == [1, 2, 3, 5]
    assert (trie.tree.tokens, trie.tree.parents) == ([9, 1, 2, 3, 4, 1], [-1, 0, 1, 2, 2, 3])


def test_drawn_tokens_are_of_the_text_and_repeat_by_seed() -> None:
    text = [1, 2, 3, 99, 4]
    some = drawn(text, 50, 1, {99})
    assert some == drawn(text, 50, 1, {99}) != drawn(text, 50, 2, {99})
    assert set(some) == {1, 2, 3, 4}
    assert drawn(text, 50, 1, {99}) != drawn([*text, 4], 50, 1, {99}), "another place, other tokens"
    assert drafting(text).pending == 4
