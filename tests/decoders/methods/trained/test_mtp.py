"""MTP: the model's own tokens, drafted by the layer in its own checkpoint, in chains and trees."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

from specchat.backends import Sampling, UserError
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.decoders import Conversation, Generation
from specchat.decoders.acceptance import Acceptance
from specchat.engine.drafts import Drafts, conversation_of, refusals
from specchat.engine.messages import Load

from ....cases import FULL
from ....fakes.models.heads import random_head, target
from ....fakes.models.mtp_files import FAMILIES, HYBRIDS, Family, mtp_folder, mtp_target
from .test_eagle import PENALIZED, SAMPLED, prompts, run

TREE: dict[str, Any] = {"nodes": 12, "depth": 3, "width": 3, "grow": 2, "floor": 0, "cascade": False}
CHAIN: dict[str, Any] = {"width": 1, "depth": 4, "floor": 0, "cascade": False}


KINDS: list[tuple[Family, int]] = [*((family, 1) for family in FAMILIES), ("glm4-moe", 3)]
"""Families, and how many MTP layers there are."""


@functools.cache
def head_of(family: Family, right: bool = False, layers: int = 1) -> Head:
    head = load_mtp(mtp_target(family, right, layers))
    assert head is not None
    return head


SAMPLINGS = (Sampling(), SAMPLED, PENALIZED)


@pytest.mark.parametrize(
    ("family", "layers", "sampling"),
    [
        (*kind, sampling)
        for kind in KINDS
        for sampling in (SAMPLINGS if FULL or kind == ("glm4-moe", 1) else SAMPLINGS[len(kind[0]) % 2 :][:1])
    ],
)
def test_it_gives_the_models_own_tokens(family: Family, layers: int, sampling: Sampling) -> None:
    model, head = mtp_target(family, layers=layers), head_of(family, layers=layers)
    assert model.info.capabilities.tree == (family not in HYBRIDS)
    for prompt in prompts(8 if FULL else 1):
        plain, _ = run(model, None, prompt, "greedy", sampling=sampling)
        for settings in (TREE, CHAIN, {}, {"merge": "lookup,recycle", "nodes": 16}):
            generation, steps = run(model, head, prompt, "mtp", settings=settings, sampling=sampling)
            assert generation.answer == plain.answer
            assert all(step.drafted for step in steps[1:-2])


@pytest.mark.parametrize(("family", "layers"), KINDS)
def test_a_layer_that_is_right_is_accepted_to_the_depth_of_its_draft(family: Family, layers: int) -> None:
    model, head = mtp_target(family, True, layers), head_of(family, True, layers)
    for sampling in (Sampling(), SAMPLED):
        for settings, depth in ((CHAIN, 4), (TREE, 3)):
            generation, steps = run(model, head, [0, 2, 70, 71], "mtp", settings=settings, sampling=sampling)
            assert generation.answer == run(model, None, [0, 2, 70, 71], "greedy", sampling=sampling)[0].answer
            # A near tie is decided in a pass of its own, which ends the run of a chain.
            assert {len(step.tokens) for step in steps[1:-2] if not step.checked} == {depth + 1}


@pytest.mark.parametrize(("family", "layers"), KINDS)
def test_a_switch_in_the_middle_of_an_answer_and_later_turns(family: Family, layers: int) -> None:
    rng, model = random.Random(8), mtp_target(family, layers=layers)
    for sampling in (Sampling(), SAMPLED):
        conversation, prompt = Conversation(model, head=head_of(family, layers=layers)), prompts(1)[0]
        for _ in range(6 if FULL else 2):
            generation = Generation(conversation, prompt, "mtp", max_tokens=30, sampling=sampling)
            for _ in generation:
                if rng.random() < 0.4:
                    generation.switch(rng.choice(("mtp", "greedy", "lookup")))
            assert generation.answer == run(model, None, prompt, "greedy", max_tokens=30, sampling=sampling)[0].answer
            prompt = [*generation.tokens[: rng.randrange(5, len(generation.tokens))], *prompts(1, 4)[0]]
        conversation.close()


def test_under_rejection_its_distributions_travel_along() -> None:
    options: dict[str, Any] = {"sampling": Sampling(temperature=1.0, top_k=4, seed=5), "acceptance": Acceptance("rejection")}
    _, steps = run(mtp_target("glm4-moe"), head_of("glm4-moe"), prompts(1)[0], "mtp", settings=TREE, **options)
    assert any(step.tree.probs for step in steps)
    for step in steps:
        for parent, draws in (step.tree.probs or {}).items():
            assert abs(float(draws.q.sum()) - 1) < 1e-4
            assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)


def test_a_model_with_one_offers_the_method_by_itself() -> None:
    model = mtp_target("deepseek-v3")
    drafts = Drafts(Load(1, str(mtp_folder("deepseek-v3")), device="cpu"))
    drafts.join(model)
    found = refusals(model, drafts)
    assert "mtp" not in found
    assert found["eagle"] == "it needs an EAGLE head trained for this model. Load one with --draft-model."
    assert found["draft"] == "it needs a draft model. Load one with --draft-model."
    conversation = conversation_of(model, drafts)
    generation = Generation(conversation, prompts(1)[0], "mtp", max_tokens=8)
    assert any(step.drafted for step in generation)
    conversation.close()
    drafts.close()


def test_other_models_say_what_is_missing() -> None:
    wanted = "needs an MTP layer in the model's own checkpoint, and no other trained drafter as --draft-model"
    for head in (None, random_head()):
        with pytest.raises(UserError, match=wanted):
            run(target(), head, [1, 2, 3], "mtp")
    drafts = Drafts(Load(1, "target", device="cpu"))
    drafts.join(target())
    assert wanted in refusals(target(), drafts)["mtp"]
