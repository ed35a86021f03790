"""DFlash: the target's own tokens with any drafter, in chains and trees; a drafter that is right is believed."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest
import torch

from specchat.backends import Sampling, UserError
from specchat.decoders import Conversation, Generation
from specchat.decoders.acceptance import Acceptance

from ....cases import FULL
from ....fakes.models.heads import cyclic_target, random_dflash, random_head, right_dflash, target
from .test_eagle import PENALIZED, SAMPLED, prompts, run

TREE: dict[str, Any] = {"nodes": 16, "width": 3, "floor": 0}
CHAIN: dict[str, Any] = {"width": 1, "floor": 0}


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED, PENALIZED])
@pytest.mark.parametrize("settings", [TREE, CHAIN, {}, {**TREE, "merge": "lookup,recycle", "nodes": 20}])
def test_any_drafter_gives_the_targets_own_tokens(settings: dict[str, Any], sampling: Sampling) -> None:
    for prompt in prompts(8 if FULL else 2):
        plain, _ = run(target(), None, prompt, "greedy", sampling=sampling)
        generation, steps = run(target(), random_dflash(), prompt, "dflash", settings=settings, sampling=sampling)
        assert generation.answer == plain.answer
        if settings:
            assert all(step.drafted for step in steps[:-1])


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_a_right_drafter_is_accepted_to_the_end_of_its_block(sampling: Sampling) -> None:
    prompt = [0, 2, 70, 71, 72]
    plain, _ = run(cyclic_target(), None, prompt, "greedy", sampling=sampling)
    for settings, length in ((CHAIN, 4), (TREE, 4), ({**CHAIN, "depth": 2}, 3)):
        generation, steps = run(cyclic_target(), right_dflash(), prompt, "dflash", settings=settings, sampling=sampling)
        assert generation.answer == plain.answer == list(range(73, 113))
        assert {len(step.tokens) for step in steps[:-2]} == {length}


def test_a_chain_is_a_chain_and_a_tree_branches() -> None:
    for settings, branches in ((CHAIN, False), (TREE, True)):
        _, steps = run(target(), random_dflash(), prompts(1)[0], "dflash", settings=settings)
        parents = [list(step.tree.parents) for step in steps]
        assert any(len(set(p)) < len(p) for p in parents) is branches
        assert max(len(p) for p in parents) == (16 if branches else 6)


def test_it_catches_up_after_other_methods_and_in_later_turns() -> None:
    """Switched at random, over several turns that share a beginning: the tokens are greedy's, and the drafts are those of a
    conversation that begins there, so what is remembered comes from true states only."""
    rng = random.Random(8)
    for sampling in (Sampling(), SAMPLED):
        conversation = Conversation(target(), head=random_dflash())
        prompt = prompts(1)[0]
        for _ in range(6 if FULL else 3):
            generation = Generation(conversation, prompt, "dflash", max_tokens=30, sampling=sampling)
            for _ in generation:
                if rng.random() < 0.4:
                    generation.switch(rng.choice(("dflash", "greedy", "lookup", "recycle")))
            plain, _ = run(target(), None, prompt, "greedy", max_tokens=30, sampling=sampling)
            assert generation.answer == plain.answer
            prompt = [*generation.tokens[: rng.randrange(5, len(generation.tokens))], *prompts(1, 4)[0]]
        again = Generation(conversation, prompt, "dflash", settings=TREE, max_tokens=20, sampling=sampling)
        answer, trees = [list[int](), list[Any]()]
        for step in again:
            trees.append((list(answer), step.tree))
            answer += step.tokens
        for begun, tree in trees:
            options: dict[str, Any] = {"settings": TREE, "max_tokens": 20 - len(begun), "sampling": sampling}
            fresh = Generation(Conversation(target(), head=random_dflash()), [*prompt, *begun], "dflash", **options)
            found = next(fresh).tree
            assert (list(found.tokens), list(found.parents)) == (list(tree.tokens), list(tree.parents))
        conversation.close()


def test_at_the_end_of_the_context_it_still_gives_the_targets_tokens() -> None:
    for length in (238, 246, 253, 254):
        prompt = prompts(1, length - 2)[0]
        plain, _ = run(target(), None, prompt, "greedy", max_tokens=None)
        generation, _ = run(target(), random_dflash(), prompt, "dflash", settings={"nodes": 64, "width": 8}, max_tokens=None)
        assert (generation.answer, generation.finish_reason) == (plain.answer, plain.finish_reason)


def test_a_prompt_of_one_token_has_nothing_to_read_yet() -> None:
    generation, steps = run(target(), random_dflash(), [7], "dflash", settings=TREE)
    assert not steps[0].drafted
    assert any(step.drafted for step in steps)
    assert generation.answer == run(target(), None, [7], "greedy")[0].answer


def test_memory_does_not_grow_over_answers() -> None:
    conversation, prompt = Conversation(target(), head=random_dflash()), prompts(1)[0]

    def held() -> int:
        gc.collect()
        tensors = [found for found in gc.get_objects() if issubclass(type(found), torch.Tensor)]
        return sum(t.untyped_storage().nbytes() for t in {t.untyped_storage().data_ptr(): t for t in tensors}.values())

    sizes = []
    for _ in range(4):
        for _ in range(250 if FULL else 5):
            list(Generation(conversation, prompt, "dflash", max_tokens=20))
        sizes.append(held())
    assert sizes[-1] <= sizes[1]


def test_under_rejection_the_drafters_distributions_travel_along() -> None:
    sampling, prompt = Sampling(temperature=1.0, top_k=4, seed=5), prompts(1)[0]
    options: dict[str, Any] = {"sampling": sampling, "acceptance": Acceptance("rejection")}
    for settings in (TREE, {**TREE, "merge": "recycle"}):
        _, steps = run(target(), random_dflash(), prompt, "dflash", settings=settings, **options)
        assert any(step.tree.probs for step in steps)
        for step in steps:
            for parent, draws in (step.tree.probs or {}).items():
                assert abs(float(draws.q.sum()) - 1) < 1e-4
                assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)


def test_without_a_drafter_of_its_kind_it_says_what_to_load() -> None:
    with pytest.raises(UserError, match=r"needs a DFlash drafter trained for this model\. Load one with --draft-model"):
        run(target(), None, [1, 2, 3], "dflash")
    with pytest.raises(UserError, match=r"needs a DFlash drafter .*, and random-eagle3 \(EAGLE-3\) is loaded"):
        run(target(), random_head(), [1, 2, 3], "dflash")
    with pytest.raises(UserError, match=r"dflash\.merge takes"):
        run(target(), random_dflash(), [1, 2, 3], "dflash", settings={"merge": "beam"})
