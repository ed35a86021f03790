"""MTP layers: which models offer the method, and near ties of those that evaluate chains alone."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from specchat.backends import Sampling
from specchat.decoders import Conversation, Generation
from specchat.engine.drafts import Drafts, conversation_of, refusals
from specchat.engine.messages import Load

from ....fakes.drafters.heads import target
from ....fakes.drafters.mtp_files import mtp_folder, mtp_target
from .test_every_drafter import pair, prompts


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
    drafts = Drafts(Load(1, "target", device="cpu"))
    drafts.join(target())
    assert "needs an MTP layer in the model's own checkpoint" in refusals(target(), drafts)["mtp"]


@pytest.mark.parametrize("near_tie", [0.02, 1e9])
def test_near_ties_of_a_model_that_evaluates_chains_alone_are_decided_by_a_pass_of_their_own(
    near_tie: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = pair("mtp qwen3.5")
    model, head = both
    assert not model.info.capabilities.tree
    rng = random.Random(5)
    alone, talk = Conversation(model, context=256), Conversation(model, head=head, context=256)
    monkeypatch.setattr(
        model, "info", replace(model.info, capabilities=replace(model.info.capabilities, near_tie=near_tie, guard=True))
    )
    accepted = checked = 0
    for seed in range(3):
        prompt = [0, *(rng.randrange(8, 256) for _ in range(12))]
        options: dict[str, Any] = {"sampling": Sampling(temperature=0.8, seed=seed), "max_tokens": 24}
        plain = Generation(alone, prompt, **options)
        list(plain)
        generation = Generation(talk, prompt, "mtp", settings=both.chain, **options)
        steps = list(generation)
        assert generation.answer == plain.answer
        accepted += sum(step.accepted for step in steps)
        checked += generation.totals.checked
    assert checked
    assert accepted or near_tie > 1
    alone.close()
    talk.close()
