"""A trained drafter as the draft model of a load: what it is told to be, what it refuses, and answers drafted with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.backends.loading import builtin_gguf, builtin_path, find_model
from specchat.backends.options import BUILTIN, BUILTIN_EAGLE
from specchat.decoders import Generation
from specchat.engine.drafts import Drafts, conversation_of, refusals
from specchat.engine.messages import Load

from ...fakes.drafters.head_files import write_head
from ...fakes.drafters.heads import target
from ...fakes.models.llama_tiny import needs_llama


def test_it_is_loaded_beside_its_target_and_is_no_draft_model(tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", taps=(1, 3, 5), drafted=100)
    drafts = Drafts(Load(1, "target", str(head), device="cpu"))
    drafts.join(target())
    assert not drafts
    assert drafts.head is not None
    assert drafts.head.info.title == "EAGLE-3"
    found = refusals(target(), drafts)
    assert set(found) == {"draft", "tree", "medusa", "dflash", "mtp", "pard"}
    assert all(f"{head} (EAGLE-3) is loaded" in found.pop(other) for other in ("medusa", "dflash"))
    assert "needs an MTP layer" in found.pop("mtp")
    assert all(f"{head} is a trained drafter (EAGLE-3). Use the method eagle." in reason for reason in found.values())
    assert "needs an EAGLE head" in refusals(target(), None)["eagle"]
    conversation = conversation_of(target(), drafts)
    assert conversation.head is drafts.head
    assert not conversation.draft_models
    conversation.close()
    drafts.close()
    assert drafts.head is None


@needs_llama
@pytest.mark.parametrize(
    ("model", "given", "runs"),
    [
        (BUILTIN, {"backend": "transformers"}, "transformers"),
        (BUILTIN, {"backend": "llama.cpp"}, "llama.cpp"),
        (BUILTIN, {}, "transformers"),
        (BUILTIN, {"dtype": "float32"}, "transformers"),
        (str(builtin_path()), {}, "transformers"),
        (str(builtin_gguf()), {"draft_dtype": "float32"}, "llama.cpp"),
    ],
)
def test_of_the_built_in_head_the_one_for_the_targets_runtime_is_loaded(model: str, given: dict[str, Any], runs: str) -> None:
    drafts = Drafts(Load(1, model, BUILTIN_EAGLE, device="cpu", threads=1, **given))
    target = find_model(model, drafts.target_options)()
    assert target.info.backend == runs
    drafts.join(target)
    head = drafts.asked
    assert head is not None
    assert head.info.path.endswith(".gguf") == (runs == "llama.cpp")
    conversation = conversation_of(target, drafts)
    prompt = target.encode_chat([{"role": "user", "content": "What is a token?"}])
    generation = Generation(conversation, prompt, "eagle", max_tokens=24)
    assert any(step.accepted for step in generation)
    conversation.close()
    drafts.close()
    target.close()
