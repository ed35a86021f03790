"""MTP layers: which models offer the method, and near ties of those that evaluate chains alone."""

from __future__ import annotations

from specchat.decoders import Generation
from specchat.engine.drafts import Drafts, conversation_of, refusals
from specchat.engine.messages import Load

from ....fakes.drafters.heads import target
from ....fakes.drafters.mtp_files import mtp_folder, mtp_target
from .test_every_drafter import prompts


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
