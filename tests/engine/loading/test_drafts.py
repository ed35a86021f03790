"""The draft model of a load: which one, when it is loaded, and with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.backends import loading
from specchat.backends.options import BUILTIN_DRAFT, LoadOptions
from specchat.engine import drafts as module
from specchat.engine.drafts import Drafts, options_of
from specchat.engine.messages import Load

from ...fakes.models.tiny import CONTEXT, tiny_folder, tiny_model


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if a draft model came with the built-in target."""

    def path(name: str = "builtin") -> Path:
        return tiny_folder("llama") if name == BUILTIN_DRAFT else tmp_path

    monkeypatch.setattr(loading, "builtin_path", path)
    monkeypatch.setattr(module, "builtin_path", path)


def test_the_target_gets_what_was_asked_for() -> None:
    command = Load(1, "m.gguf", device="cpu", context=9, gpu_layers=3, kv_type="q8_0", rpc="here:1", revision="v1")
    assert options_of(command) == LoadOptions("cpu", context=9, gpu_layers=3, kv_type="q8_0", rpc="here:1", revision="v1")


def test_the_built_in_draft_model_is_loaded_when_it_is_first_needed(shipped: None) -> None:
    drafts = Drafts(Load(1, "builtin", device="cpu", context=100))
    assert drafts
    drafts.join(tiny_model("mistral"))
    assert drafts.model is None
    model = drafts.get()
    assert model is not None
    assert model is drafts.get() is drafts.model
    assert model.info.name == "builtin-draft"
    assert model.info.context == min(CONTEXT, tiny_model("mistral").info.context)
    drafts.close()
    assert drafts.get() is None


def test_only_the_built_in_target_brings_one(shipped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not Drafts(Load(1, str(tmp_path)))
    monkeypatch.setattr(module, "builtin_path", lambda name: tmp_path / "missing")
    drafts = Drafts(Load(1, "builtin"))
    assert not drafts
    assert drafts.get() is None


def test_what_was_asked_for_is_loaded_after_the_target_on_this_machine() -> None:
    stages = []
    command = Load(
        1, "target", str(tiny_folder("llama")), device="cpu", context=7, gpu_layers=20, rpc="there:50052", revision="v1"
    )
    drafts = Drafts(command, lambda stage, done, total: stages.append(stage))
    assert drafts.model is None
    assert drafts._options == LoadOptions("cpu")
    drafts.join(tiny_model("llama"))
    assert drafts.model is not None
    assert set(stages) == {"weights", "check"}
    drafts.close()
