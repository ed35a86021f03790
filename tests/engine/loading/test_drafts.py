"""The draft model of a load: which one, when it is loaded, and with what. What ships is patched."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, UserError, loading
from specchat.backends.loading import builtin_gguf, builtin_path, find_model
from specchat.backends.options import BUILTIN, BUILTIN_DRAFT, BUILTIN_EAGLE
from specchat.decoders import Generation
from specchat.decoders.parts.ahead import OwnThread
from specchat.engine import drafts as module
from specchat.engine.drafts import Drafters, load_options, open_conversation, refusals
from specchat.engine.messages import Load
from specchat.engine.wire import dump, parse

from ...fakes.drafters.head_files import write_head
from ...fakes.drafters.heads import target
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.tiny import CONTEXT, tiny_folder, tiny_model


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if a draft model came with the built-in target."""

    def path(name: str = "builtin") -> Path:
        return tiny_folder("llama") if name == BUILTIN_DRAFT else tmp_path

    monkeypatch.setattr(loading, "builtin_path", path)
    monkeypatch.setattr(module, "builtin_path", path)


def test_the_draft_model_has_options_of_its_own() -> None:
    """They are private: what most of them do shows on a GPU alone."""
    target = str(tiny_folder("llama"))
    asked: dict[str, Any] = {"device": "cuda", "dtype": "float16", "threads": 3, "kv_type": "q8_0", "gpu_layers": 0}
    asked |= {"context": 7, "revision": "v1"}
    command = Load(1, target, target, draft_device="cpu", draft_dtype="bfloat16", draft_threads=2, **asked)
    assert Drafters(command)._options == LoadOptions(device="cpu", dtype="bfloat16", threads=2)
    assert load_options(command) == LoadOptions(**asked)


def test_own_threads_are_nobody_elses() -> None:
    before = torch.get_num_threads()
    drafts = Drafters(Load(1, "target", str(tiny_folder("llama")), draft_threads=before + 2, device="cpu"))
    drafts.join(tiny_model("mistral"))
    (model,) = drafts.get()
    assert isinstance(model, OwnThread)
    assert model.worker.run(torch.get_num_threads) == before + 2
    assert torch.get_num_threads() == before
    plain, own = tiny_model("llama").open_session(64), model.open_session(64)
    for session in (plain, own):
        session.prefill(range(9, 20))
        session.evaluate([5, 6, 7], [-1, 0, 0])
        session.commit([0, 2])
        session.rewind(12)
    assert own.tokens == plain.tokens
    chosen = [session.evaluate([8], [-1]).top(1)[0][0][0] for session in (plain, own)]
    assert chosen[0] == chosen[1]
    assert own.nodes_evaluated == plain.nodes_evaluated == 15
    drafts.close()


def test_a_shorter_context_is_told_at_load() -> None:
    drafts = Drafters(Load(1, "target", str(tiny_folder("llama")), device="cpu"))
    target = copy(tiny_model("mistral"))
    target.info = replace(target.info, context=4 * CONTEXT)
    drafts.join(target)
    (note,) = drafts.notes
    assert f"reads at most {CONTEXT} tokens" in note
    drafts.close()


def test_what_the_draft_model_cannot_have_is_told() -> None:
    drafts = Drafters(Load(1, "target", str(tiny_folder("llama")), device="cpu", draft_device="cuda:7"))
    said = "no CUDA device here.* Use --draft-device cpu"
    with pytest.raises(UserError, match=rf"^The draft model .* cannot be used: .*{said}"):
        drafts.join(tiny_model("mistral"))


def test_the_built_in_draft_model_is_loaded_when_it_is_first_needed(shipped: None) -> None:
    drafts = Drafters(Load(1, "builtin", device="cpu", context=100))
    assert drafts
    drafts.join(tiny_model("mistral"))
    assert not drafts.models
    (model,) = drafts.get()
    assert [model] == drafts.get() == drafts.models
    assert model.info.name == "builtin-draft"
    assert model.info.context == min(CONTEXT, tiny_model("mistral").info.context)
    drafts.close()
    assert drafts.get() == []


def test_only_the_built_in_target_brings_one(shipped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not Drafters(Load(1, str(tmp_path)))
    monkeypatch.setattr(module, "builtin_path", lambda name: tmp_path / "missing")
    drafts = Drafters(Load(1, "builtin"))
    assert not drafts
    assert drafts.get() == []


def test_all_are_loaded_in_their_order() -> None:
    names = [str(tiny_folder("qwen3")), str(tiny_folder("mistral"))]
    command = parse(dump(Load(1, "target", names, device="cpu")))
    assert command.drafts == names
    drafts = Drafters(command)
    assert drafts
    drafts.join(tiny_model("llama"))
    assert [model.info.name for model in drafts.models] == names
    conversation = open_conversation(tiny_model("llama"), drafts)
    conversation.drafter("tree")
    assert conversation.draft_models == tuple(drafts.models)
    conversation.close()
    drafts.close()
    assert drafts.get() == []


def test_it_is_loaded_beside_its_target_and_is_no_draft_model(tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", taps=(1, 3, 5), drafted=100)
    drafts = Drafters(Load(1, "target", str(head), device="cpu"))
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
    conversation = open_conversation(target(), drafts)
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
    drafts = Drafters(Load(1, model, BUILTIN_EAGLE, device="cpu", threads=1, **given))
    target = find_model(model, drafts.target_options)()
    assert target.info.backend == runs
    drafts.join(target)
    head = drafts.named_head
    assert head is not None
    assert head.info.path.endswith(".gguf") == (runs == "llama.cpp")
    conversation = open_conversation(target, drafts)
    prompt = target.encode_chat([{"role": "user", "content": "What is a token?"}])
    generation = Generation(conversation, prompt, "eagle", max_tokens=24)
    assert any(step.accepted for step in generation)
    conversation.close()
    drafts.close()
    target.close()
