"""What drafts from the text: growing is the same as beginning afresh, another text is noticed, and memory is bounded."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders.base import Drafter
from specchat.decoders.methods.fusion import Fusion
from specchat.decoders.methods.lookup import Lookup, LookupParams

from ...cases import cases
from ...fakes.models.toy import drafting

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
    tokens = [rng.randrange(32_000) for _ in range(8000)]
    tokens = {"twice": tokens[:4000] * 2, "random": tokens, "one token": [7] * 8000}[text]
    tracemalloc.start()
    drafter = make()
    drafter.draft(drafting(tokens))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used / len(tokens) <= 1024
