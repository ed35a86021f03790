"""Medusa: the target's own tokens with any heads; heads that are right are believed."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.backends import Sampling, UserError
from specchat.decoders.acceptance import Acceptance

from ....cases import FULL
from ....fakes.models.heads import cyclic_target, random_head, random_medusa, right_medusa, target
from .test_eagle import PENALIZED, SAMPLED, prompts, run

TREE: dict[str, Any] = {"nodes": 16, "width": 3, "floor": 0}
CHAIN: dict[str, Any] = {"width": 1, "floor": 0}


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED, PENALIZED])
@pytest.mark.parametrize("settings", [TREE, CHAIN, {}])
def test_any_heads_give_the_targets_own_tokens(settings: dict[str, Any], sampling: Sampling) -> None:
    for prompt in prompts(8 if FULL else 2):
        plain, _ = run(target(), None, prompt, "greedy", sampling=sampling)
        generation, steps = run(target(), random_medusa(), prompt, "medusa", settings=settings, sampling=sampling)
        assert generation.answer == plain.answer
        if settings:
            assert all(step.drafted for step in steps[:-1])


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_right_heads_are_accepted_to_the_last(sampling: Sampling) -> None:
    prompt = [0, 2, 70, 71, 72]
    plain, _ = run(cyclic_target(), None, prompt, "greedy", sampling=sampling)
    for settings in (CHAIN, TREE):
        generation, steps = run(cyclic_target(), right_medusa(), prompt, "medusa", settings=settings, sampling=sampling)
        assert generation.answer == plain.answer == list(range(73, 113))
        assert {len(step.tokens) for step in steps[:-1]} == {4}


def test_a_chain_is_a_chain_and_a_tree_branches() -> None:
    for settings, branches in ((CHAIN, False), (TREE, True)):
        _, steps = run(target(), random_medusa(), prompts(1)[0], "medusa", settings=settings)
        parents = [list(step.tree.parents) for step in steps]
        assert any(len(set(p)) < len(p) for p in parents) is branches
        assert max(len(p) for p in parents) == (16 if branches else 4)


def test_under_rejection_the_heads_distributions_travel_along() -> None:
    sampling, prompt = Sampling(temperature=1.0, top_k=4, seed=5), prompts(1)[0]
    options: dict[str, Any] = {"settings": TREE, "sampling": sampling, "acceptance": Acceptance("rejection")}
    _, steps = run(target(), random_medusa(), prompt, "medusa", **options)
    assert any(step.tree.probs for step in steps)
    for step in steps:
        for parent, draws in (step.tree.probs or {}).items():
            assert abs(float(draws.q.sum()) - 1) < 1e-4
            assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)


def test_without_heads_of_its_kind_it_says_what_to_load() -> None:
    with pytest.raises(UserError, match=r"needs Medusa heads trained for this model\. Load one with --draft-model"):
        run(target(), None, [1, 2, 3], "medusa")
    with pytest.raises(UserError, match=r"needs Medusa heads trained for this model, and random-eagle3 \(EAGLE-3\) is loaded"):
        run(target(), random_head(), [1, 2, 3], "medusa")
    with pytest.raises(UserError, match=r"needs an EAGLE head .*, and random-medusa \(Medusa\) is loaded"):
        run(target(), random_medusa(), [1, 2, 3], "eagle")
