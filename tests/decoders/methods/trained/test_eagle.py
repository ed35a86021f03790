"""EAGLE heads: chains where the target has no trees, prompt lookup in their place, and a head that is loaded in mid-answer."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.backends import Sampling
from specchat.backends.heads.base import Head
from specchat.decoders import Conversation, Generation

from ....fakes.drafters.heads import cyclic_target, right_head
from .test_every_drafter import DEEP, SAMPLED, Pair, pair, prompts

CHAIN: dict[str, Any] = {"width": 1, "depth": 5, "floor": 0, "cascade": False}


def test_a_target_without_trees_gets_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    from specchat.decoders import loop

    made = loop.Generation._context

    def linear(self: Generation) -> Any:
        context = made(self)
        context.branching = False
        return context

    monkeypatch.setattr(loop.Generation, "_context", linear)
    both = pair("eagle eagle3")
    generation, steps = both.run(prompts(1)[0], settings={**DEEP, "merge": "recycle"})
    assert all(list(step.tree.parents) == list(range(-1, len(step.tree) - 1)) for step in steps)
    assert max(step.drafted for step in steps) == 3
    assert generation.answer == both.run(prompts(1)[0], "greedy")[0].answer


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_prompt_lookup_drafts_in_the_heads_place_where_the_text_repeats_itself(sampling: Sampling) -> None:
    prompt = [0, 2, *range(40, 120), 7, *range(40, 48)]
    answers = []
    for cascade in (True, False):
        settings = {"depth": 2, "cascade": cascade}
        both = Pair(cyclic_target(), right_head())
        generation, steps = both.run(prompt, settings=settings, sampling=sampling, max_tokens=40)
        answers.append(generation.answer)
        assert (max(step.accepted for step in steps) > 2) is cascade
        assert (generation.totals.tokens_per_step > 4) is cascade
    assert answers[0] == answers[1] == list(range(48, 88))


def test_an_offered_head_is_loaded_by_the_method_that_needs_it_in_the_middle_of_an_answer() -> None:
    prompt = [0, 2, 70, 71, 72]
    loads = []

    def load() -> Head:
        loads.append(len(generation.tokens))
        return right_head()

    conversation = Conversation(cyclic_target(), head=load)
    generation = Generation(conversation, prompt, "greedy", max_tokens=40)
    steps = [next(generation) for _ in range(6)]
    assert not loads
    generation.switch("eagle", CHAIN)
    steps += list(generation)
    assert loads == [len(prompt) + 6]
    assert generation.answer == list(range(73, 113))
    assert [len(step.tokens) for step in steps[6:9]] == [1, 6, 6], "the text is read again before the first draft"
    again = Generation(conversation, prompt, "eagle", settings=CHAIN, max_tokens=40)
    assert again.reused == len(prompt) - 1
    assert len(next(again).tokens) == 6
    conversation.close()
