"""EAGLE: the target's own tokens with any head, in chains and trees; a head that is right is believed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import Sampling, UserError
from specchat.backends.heads.base import Head
from specchat.backends.hf.model import TransformersModel
from specchat.decoders import Conversation, Generation
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.loop import Step

from ....cases import FULL
from ....fakes.models.heads import cyclic_target, random_head, right_head, target

TREE: dict[str, Any] = {"nodes": 16, "depth": 4, "width": 3, "grow": 3, "floor": 0, "cascade": False}
CHAIN: dict[str, Any] = {"width": 1, "depth": 5, "floor": 0, "cascade": False}
SAMPLED = Sampling(temperature=0.8, seed=11)
PENALIZED = Sampling(temperature=1.2, top_p=0.9, repetition_penalty=1.2, seed=2)


def prompts(count: int, length: int = 12) -> list[list[int]]:
    rng = random.Random(3)
    return [[0, 2, *(rng.randrange(4, 256) for _ in range(length))] for _ in range(count)]


def run(
    model: TransformersModel, head: Head | None, prompt: Sequence[int], method: str = "eagle", **options: Any
) -> tuple[Generation, list[Step]]:
    """An answer and its steps."""
    conversation = Conversation(model, head=head)
    generation = Generation(conversation, prompt, method, **{"max_tokens": 40, **options})
    steps = list(generation)
    conversation.close()
    return generation, steps


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED, PENALIZED])
@pytest.mark.parametrize("settings", [TREE, CHAIN, {}, {"merge": "lookup,recycle", "nodes": 20}])
def test_any_head_gives_the_targets_own_tokens(settings: dict[str, Any], sampling: Sampling) -> None:
    for style in ("eagle1", "eagle3", "speculators"):
        for prompt in prompts(8 if FULL else 2):
            plain, _ = run(target(), None, prompt, "greedy", sampling=sampling)
            generation, steps = run(target(), random_head(style), prompt, settings=settings, sampling=sampling)
            assert generation.answer == plain.answer
            assert all(step.drafted for step in steps[1:-2]), "there is room for a draft but in the first pass and at the end"
            assert sum(step.draft_seconds for step in steps) > 0


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_a_right_head_is_accepted_to_the_depth_of_its_draft(sampling: Sampling) -> None:
    prompt = [0, 2, 70, 71, 72]
    plain, _ = run(cyclic_target(), None, prompt, "greedy", sampling=sampling)
    for settings, depth in ((CHAIN, 5), (TREE, 4)):
        generation, steps = run(cyclic_target(), right_head(), prompt, settings=settings, sampling=sampling)
        assert generation.answer == plain.answer == list(range(73, 113))
        assert len(steps[0].tokens) == 1, "the prompt's own pass brings the first token"
        assert {len(step.tokens) for step in steps[1:-2]} == {depth + 1}


def test_a_chain_is_a_chain_and_a_tree_branches() -> None:
    for settings, branches in ((CHAIN, False), (TREE, True)):
        _, steps = run(target(), random_head(), prompts(1)[0], settings=settings)
        parents = [list(step.tree.parents) for step in steps]
        assert any(len(set(p)) < len(p) for p in parents) is branches
        assert max(len(p) for p in parents) <= (16 if branches else 6)


def test_a_target_without_trees_gets_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    from specchat.decoders import loop

    made = loop.Generation._context

    def linear(self: Generation) -> Any:
        context = made(self)
        context.branching = False
        return context

    monkeypatch.setattr(loop.Generation, "_context", linear)
    generation, steps = run(target(), random_head(), prompts(1)[0], settings={**TREE, "merge": "recycle"})
    assert all(list(step.tree.parents) == list(range(-1, len(step.tree) - 1)) for step in steps)
    assert max(step.drafted for step in steps) == 4
    assert generation.answer == run(target(), None, prompts(1)[0], "greedy")[0].answer


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_prompt_lookup_drafts_in_the_heads_place_where_the_text_repeats_itself(sampling: Sampling) -> None:
    prompt = [0, 2, *range(40, 120), 7, *range(40, 48)]
    answers = []
    for cascade in (True, False):
        settings = {"depth": 2, "cascade": cascade}
        generation, steps = run(cyclic_target(), right_head(), prompt, settings=settings, sampling=sampling)
        answers.append(generation.answer)
        assert (max(step.accepted for step in steps) > 2) is cascade
        assert (generation.totals.tokens_per_step > 4) is cascade
    assert answers[0] == answers[1] == list(range(48, 88))


def test_it_catches_up_after_other_methods_and_in_later_turns() -> None:
    """Switched at random, over several turns that share a beginning: the tokens are greedy's, and a head that is right stays
    right, which it would not without the states of what others wrote."""
    rng = random.Random(8)
    for sampling in (Sampling(), SAMPLED):
        conversation = Conversation(target(), head=random_head())
        prompt = prompts(1)[0]
        for _ in range(6 if FULL else 3):
            generation = Generation(conversation, prompt, "eagle", max_tokens=30, sampling=sampling)
            for _ in generation:
                if rng.random() < 0.4:
                    generation.switch(rng.choice(("eagle", "greedy", "lookup", "recycle")))
            plain, _ = run(target(), None, prompt, "greedy", max_tokens=30, sampling=sampling)
            assert generation.answer == plain.answer
            prompt = [*generation.tokens[: rng.randrange(5, len(generation.tokens))], *prompts(1, 4)[0]]
        conversation.close()
    conversation = Conversation(cyclic_target(), head=right_head())
    generation = Generation(conversation, [0, 2, 30], "greedy", max_tokens=60)
    for index, step in enumerate(generation):
        if index >= 10 and step.method == "eagle" and index != len(generation.totals.runs) - 1:
            assert len(step.tokens) > 1
        generation.switch("eagle" if index // 5 % 2 else "greedy")
    assert generation.answer == list(range(31, 91))


def test_the_drafts_of_a_conversation_are_those_of_a_fresh_one() -> None:
    """What the head remembers comes from true states only, whatever was drafted, accepted and rejected before."""
    prompt = prompts(1)[0]
    conversation = Conversation(target(), head=random_head())
    for _ in range(2):
        again = Generation(conversation, prompt, "eagle", settings=TREE, max_tokens=24)
        done = 0
        for step in again:
            tokens, fresh = [*prompt, *again.answer[:done]], Conversation(target(), head=random_head())
            if done:  # before that comes the prompt's own pass
                fresh.session.prefill(tokens[:-1])
                tree = next(Generation(fresh, tokens, "eagle", settings=TREE, max_tokens=24 - done)).tree
                assert (step.tree.tokens, step.tree.parents) == (tree.tokens, tree.parents)
                assert step.drafted or done == 23
            done += len(step.tokens)
        list(Generation(conversation, prompts(2)[1], "eagle", settings=CHAIN, max_tokens=24))


def test_at_the_end_of_the_context_it_still_gives_the_targets_tokens() -> None:
    broad = {"nodes": 64, "depth": 8, "width": 8, "grow": 8}
    for length in (238, 246, 253):
        prompt = prompts(1, length - 2)[0]
        plain, _ = run(target(), None, prompt, "greedy", max_tokens=None)
        generation, _ = run(target(), random_head(), prompt, settings=broad, max_tokens=None)
        assert generation.answer == plain.answer
        assert generation.finish_reason == plain.finish_reason


def test_a_prompt_of_one_token_has_nothing_to_read_yet() -> None:
    generation, steps = run(target(), random_head(), [7])
    assert not steps[0].drafted
    assert any(step.drafted for step in steps)
    assert generation.answer == run(target(), None, [7], "greedy")[0].answer


def test_memory_does_not_grow_over_answers() -> None:
    import gc

    import torch

    conversation, prompt = Conversation(target(), head=random_head()), prompts(1)[0]

    def held() -> int:
        gc.collect()
        tensors = [found for found in gc.get_objects() if issubclass(type(found), torch.Tensor)]
        return sum(t.untyped_storage().nbytes() for t in {t.untyped_storage().data_ptr(): t for t in tensors}.values())

    sizes = []
    for _ in range(4):
        for _ in range(50 if FULL else 5):
            list(Generation(conversation, prompt, "eagle", max_tokens=20))
        sizes.append(held())
    assert sizes[-1] <= sizes[1]


def test_without_a_head_it_says_what_to_load() -> None:
    with pytest.raises(UserError, match=r"needs an EAGLE head trained for this model\. Load one with --draft-model"):
        run(target(), None, [1, 2, 3])
    with pytest.raises(UserError, match=r"needs a draft model, and random-eagle3 is a trained drafter \(EAGLE-3\)"):
        run(target(), random_head(), [1, 2, 3], "draft")
    with pytest.raises(UserError, match=r"eagle\.merge takes"):
        run(target(), random_head(), [1, 2, 3], settings={"merge": "beam"})


def test_rejection_draws_from_the_heads_distribution() -> None:
    sampling, prompt = Sampling(temperature=1.0, top_k=4, seed=5), prompts(1)[0]
    _, steps = run(target(), random_head(), prompt, settings=TREE, sampling=sampling, acceptance=Acceptance("rejection"))
    for step in steps:
        for parent, draws in (step.tree.probs or {}).items():
            assert abs(float(draws.q.sum()) - 1) < 1e-4
            assert (draws.q > 0).sum() == 4
            assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)
    assert any(step.tree.probs for step in steps)


def test_an_offered_head_is_loaded_by_the_method_that_needs_it_in_the_middle_of_an_answer() -> None:
    prompt = [0, 2, 70, 71, 72]
    plain, _ = run(cyclic_target(), None, prompt, "greedy")
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
    assert generation.answer == plain.answer
    assert [len(step.tokens) for step in steps[6:9]] == [1, 6, 6], "the text is read again before the first draft"
    again = Generation(conversation, prompt, "eagle", settings=CHAIN, max_tokens=40)
    assert again.reused == len(prompt) - 1
    assert len(next(again).tokens) == 6
    conversation.close()


def test_a_head_may_be_loaded_while_a_search_has_texts_open() -> None:
    conversation, prompt = Conversation(cyclic_target(), head=right_head), [0, 2, 70, 71, 72]
    generation = Generation(conversation, prompt, "beam", settings={"beams": 3, "length_penalty": -4.0}, max_tokens=40)
    next(step for step in generation if step.tentative)
    generation.switch("eagle", CHAIN)
    settled = next(generation)
    assert (settled.method, settled.nodes) == ("beam", 0)
    done = len(generation.answer)
    begun = list(generation.tokens)
    assert len(list(generation)) < 40 - done
    assert generation.answer[done:] == run(cyclic_target(), None, begun, "greedy", max_tokens=40 - done)[0].answer
