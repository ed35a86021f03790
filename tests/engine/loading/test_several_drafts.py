"""Several draft models of one load: all of them are loaded, and what does not fit is named."""

from __future__ import annotations

import pytest

from specchat.backends import UserError
from specchat.engine.drafts import Drafts, conversation_of
from specchat.engine.messages import Load, dump, parse

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


def test_one_with_other_tokens_is_named() -> None:
    stranger = "builtin-draft"
    drafts = Drafts(Load(1, "target", [str(tiny_folder("qwen3")), stranger], device="cpu", backend="transformers"))
    with pytest.raises(UserError) as caught:
        drafts.join(tiny_model("llama"))
    assert str(caught.value).startswith(
        f"The draft model {stranger} cannot be used with others: its tokenizer differs from the"
    )
    assert drafts.models == []
    alone = Drafts(Load(1, "target", stranger, device="cpu", backend="transformers"))
    alone.join(tiny_model("llama"))  # alone it can draft by way of text
    assert len(alone.models) == 1
    alone.close()
