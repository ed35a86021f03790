"""Several draft models of one load: all of them are loaded, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.backends import UserError
from specchat.engine.drafts import Drafts, conversation_of, refusals
from specchat.engine.messages import Load, dump, parse

from ...fakes.models.heads import target, target_folder, write_head
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


def test_a_name_that_leads_nowhere_costs_no_load(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"The draft model {tmp_path}/none\.gguf cannot be used: There is no file"):
        Drafts(Load(1, "target", [str(tiny_folder("qwen3")), f"{tmp_path}/none.gguf"], device="cpu"))


def test_a_trained_drafter_may_be_among_them_but_not_two(tmp_path: Path) -> None:
    head, other = (str(write_head(tmp_path / name, "speculators")) for name in ("head", "other"))
    model = str(target_folder())
    drafts = Drafts(Load(1, "target", [head, model], device="cpu"))
    drafts.join(target())
    assert drafts.head is not None
    assert [draft.info.name for draft in drafts.models] == [model]
    assert not {"eagle", "draft", "tree"} & set(refusals(target(), drafts))
    drafts.close()
    with pytest.raises(UserError, match=rf"{head} and {other} are both trained drafters, and a model runs with one at a time"):
        Drafts(Load(1, "target", [head, other], device="cpu"))
