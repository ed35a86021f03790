"""Prompt lookup that drafts for a draft model: the same chains, in fewer passes of the draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import Model, Sampling, Session
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.base import Context
from specchat.decoders.parts.cascade import Copies, Worth, grow_chain
from specchat.decoders.parts.ppm import ContextModel
from specchat.decoders.parts.proposers import DraftModel, FirstLayers, Proposer

from ...cases import FULL, cases
from ...fakes.prompts import TEXTS

COPY = f"Repeat this text exactly: {TEXTS[0]}"
STORY = "Tell me a story about a dog."


def context_of(model: Model, session: Session, tokens: Sequence[int], sampling: Sampling, acceptance: Acceptance) -> Context:
    eos = frozenset(model.info.eos_ids)
    return Context(tokens, session, sampling, 60, eos, model=model, acceptance=acceptance)


def chains(model: Model, make: Any, prompt: str, copies: Copies | None, **more: Any) -> tuple[list[list[int]], int]:
    """Chains of 12 at eight places of an answer, and the draft's passes."""
    sampling = more.get("sampling", Sampling())
    conversation = Conversation(model)
    tokens = encode_prompt(model, prompt)
    answer = Generation(conversation, tokens, max_tokens=60, sampling=sampling)
    list(answer)
    text = answer.tokens
    proposer: Proposer = make()
    out, passes = [], 0
    for end in range(len(tokens) + 1, len(text), max(1, (len(text) - len(tokens)) // 8)):
        conversation.session.rewind(0)
        conversation.session.prefill(text[: end - 1])
        context = context_of(model, conversation.session, text[:end], sampling, more.get("acceptance", Acceptance()))
        tree = grow_chain(proposer, context, 12, copies=copies)
        assert tree.parents == list(range(-1, len(tree) - 1))
        out.append(tree.tokens)
        passes += len(proposer.seconds)
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
    return out, passes


SAMPLED = Sampling(temperature=0.8, seed=3)
WAYS: list[dict[str, Any]] = [
    {},
    {"sampling": SAMPLED},
    {"sampling": SAMPLED, "acceptance": Acceptance("rejection")},
    {"sampling": Sampling(temperature=0.8, seed=3, repetition_penalty=1.3)},
]


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("layers", [0, 4], ids=["draft", "first layers"])
@pytest.mark.parametrize("way", range(len(WAYS)) if FULL else (0, 2))
def test_a_copy_is_drafted_in_fewer_passes(builtin_model: Model, draft_model: Model, layers: int, way: int) -> None:
    def make() -> Proposer:
        return FirstLayers(layers) if layers else DraftModel(draft_model, 2048)

    alone, passes = chains(builtin_model, make, COPY, None, **WAYS[way])
    helped, fewer = chains(builtin_model, make, COPY, Copies(ContextModel(), Worth()), **WAYS[way])
    assert helped == alone, "another's guesses change nothing about a draft's own choices"
    assert passes == sum(len(chain) - 1 for chain in alone)
    assert fewer < passes / (1.5 if way else 2)


def test_what_followed_is_foreseen_up_to_the_end_of_an_answer() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50, 51, 1, 2, 3]
    copies = Copies(ContextModel(), Worth())
    copies.follow(text)
    line, chances = copies.after((), 20, frozenset())
    assert len(line) > 3
    assert line == text[3 : 3 + len(line)]
    assert chances == sorted(chances, reverse=True)
    assert 1 >= chances[0] >= chances[-1] > 0
    assert copies.after((), 2, frozenset())[0] == [4, 5]
    assert copies.after((), 20, frozenset([5]))[0] == [4, 5], "nothing follows an EOS token"
    assert copies.after([4, 5], 3, frozenset())[0] == [6, 7, 8], "behind drafted tokens as well"
    assert copies.after([4, 5], 3, frozenset([5])) == ([], [])
    assert copies.after([], 0, frozenset()) == ([], [])


@cases(200)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.lists(st.integers(0, 3), max_size=6), st.integers(0, 12))
def test_a_line_always_stood_behind_the_last_tokens(text: list[int], drafted: list[int], most: int) -> None:
    copies = Copies(ContextModel(), Worth())
    copies.follow(text)
    line, chances = copies.after(drafted, most, frozenset([3]))
    assert len(line) == len(chances) <= most
    last = [*text, *drafted][-1]
    places = [i for i in range(len(text)) if text[i] == last and text[i + 1 : i + 1 + len(line)] == line]
    assert not line or places
    assert 3 not in line[:-1]
