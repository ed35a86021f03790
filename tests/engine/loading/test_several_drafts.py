"""Several draft models of one load: all of them are loaded, and what does not fit is named."""

from __future__ import annotations

from specchat.engine.drafts import Drafts, conversation_of
from specchat.engine.messages import Load
from specchat.engine.wire import dump, parse

from ...fakes.models.tiny import tiny_folder, tiny_model


def test_all_are_loaded_in_their_order() -> None:
    names = [str(tiny_folder("qwen3")), str(tiny_folder("mistral"))]
    command = parse(dump(Load(1, "target", names, device="cpu")))
    assert command.drafts == names
    drafts = Drafts(command)
    assert drafts
    drafts.join(tiny_model("llama"))
    assert [model.info.name for model in drafts.models] == names
    conversation = conversation_of(tiny_model("llama"), drafts)
    conversation.drafter("tree")
    assert conversation.draft_models == tuple(drafts.models)
    conversation.close()
    drafts.close()
    assert drafts.get() == []
