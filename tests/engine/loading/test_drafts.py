"""Loading: when draft models are loaded and with which options; downloads and their cancellation; broken files."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
from specchat.engine import drafts as drafts_module
from specchat.engine.client import EngineClient
from specchat.engine.drafts import Drafters, open_conversation, refusals
from specchat.engine.failures import STUCK
from specchat.engine.messages import Event, Failed, Finished, Generate, Load, Loaded, Loading, Ready, Unloaded
from specchat.engine.options import ModelSelection
from specchat.engine.wire import dump, parse

from ...fakes.drafters.head_files import write_head
from ...fakes.drafters.heads import target
from ...fakes.engines import BareEngine, answer, steps_of
from ...fakes.models.gguf_changes import changed
from ...fakes.models.hub_server import Hub, serving, unfinished
from ...fakes.models.llama_tiny import gguf_of, needs_llama
from ...fakes.models.llama_tiny import tiny_folder as llama_folder
from ...fakes.models.model_folders import write_ollama
from ...fakes.models.tiny import CONTEXT, tiny_folder, tiny_model


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A draft model that comes with the built-in target."""

    def path(name: str = "builtin") -> Path:
        return tiny_folder("llama") if name == BUILTIN_DRAFT else tmp_path

    monkeypatch.setattr(loading, "builtin_path", path)
    monkeypatch.setattr(drafts_module, "builtin_path", path)


def test_the_draft_model_has_options_of_its_own() -> None:
    """Compares the private `_options`, as most of them have an effect only on a GPU."""
    target = str(tiny_folder("llama"))
    options: dict[str, Any] = {"device": "cuda", "dtype": "float16", "threads": 3, "kv_type": "q8_0", "gpu_layers": 0}
    options |= {"context": 7, "revision": "v1"}
    own: dict[str, Any] = {"draft_device": "cpu", "draft_dtype": "bfloat16", "draft_threads": 2}
    selection = ModelSelection(target, draft_model=(target,), **own, **options)
    assert Drafters(selection)._options == LoadOptions(device="cpu", dtype="bfloat16", threads=2)
    assert selection.target_options() == LoadOptions(**options)


def test_the_draft_models_threads_do_not_change_the_targets() -> None:
    before = torch.get_num_threads()
    drafts = Drafters(
        ModelSelection("target", draft_model=(str(tiny_folder("llama")),), draft_threads=before + 2, device="cpu")
    )
    drafts.join(tiny_model("mistral"))
    (model,) = drafts.get()
    assert isinstance(model, OwnThread)
    assert model.worker.run(torch.get_num_threads) == before + 2
    assert torch.get_num_threads() == before
    plain, own_session = tiny_model("llama").open_session(64), model.open_session(64)
    for session in (plain, own_session):
        session.prefill(range(9, 20))
        session.evaluate([5, 6, 7], [-1, 0, 0])
        session.commit([0, 2])
        session.rewind(12)
    assert own_session.tokens == plain.tokens
    chosen = [session.evaluate([8], [-1]).top(1)[0][0][0] for session in (plain, own_session)]
    assert chosen[0] == chosen[1]
    assert own_session.nodes_evaluated == plain.nodes_evaluated == 15
    drafts.close()


def test_a_draft_model_with_a_shorter_context_gives_a_note() -> None:
    drafts = Drafters(ModelSelection("target", draft_model=(str(tiny_folder("llama")),), device="cpu"))
    target = copy(tiny_model("mistral"))
    target.info = replace(target.info, context=4 * CONTEXT)
    drafts.join(target)
    (note,) = drafts.notes
    assert f"reads at most {CONTEXT} tokens" in note
    drafts.close()


def test_a_missing_device_is_an_error_of_the_draft_model() -> None:
    drafts = Drafters(ModelSelection("target", draft_model=(str(tiny_folder("llama")),), device="cpu", draft_device="cuda:7"))
    sentence = "finds no cuda:7 here. Use --draft-device cpu"
    with pytest.raises(UserError, match=rf"^The draft model .* cannot be used: .*{sentence}"):
        drafts.join(tiny_model("mistral"))


def test_the_built_in_draft_model_is_loaded_when_it_is_first_needed(shipped: None) -> None:
    drafts = Drafters(ModelSelection("builtin", device="cpu", context=100))
    assert drafts
    drafts.join(tiny_model("mistral"))
    assert not drafts.models
    (model,) = drafts.get()
    assert [model] == drafts.get() == drafts.models
    assert model.info.name == "builtin-draft"
    assert model.info.context == min(CONTEXT, tiny_model("mistral").info.context)
    drafts.close()
    assert drafts.get() == []


def test_only_the_builtin_brings_a_draft_model(shipped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not Drafters(ModelSelection(str(tmp_path)))
    monkeypatch.setattr(drafts_module, "builtin_path", lambda name: tmp_path / "missing")
    drafts = Drafters(ModelSelection("builtin"))
    assert not drafts
    assert drafts.get() == []


def test_several_draft_models_are_loaded_in_the_order_given() -> None:
    names = (str(tiny_folder("qwen3")), str(tiny_folder("mistral")))
    command = parse(dump(Load(1, ModelSelection("target", draft_model=names, device="cpu"))))
    assert command.selection.draft_model == names
    drafts = Drafters(command.selection)
    assert drafts
    drafts.join(tiny_model("llama"))
    assert [model.info.name for model in drafts.models] == [*names]
    conversation = open_conversation(tiny_model("llama"), drafts)
    conversation.drafter("tree")
    assert conversation.draft_models == tuple(drafts.models)
    conversation.close()
    drafts.close()
    assert drafts.get() == []


def test_a_head_is_loaded_beside_its_target_and_is_no_draft_model(tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", taps=(1, 3, 5), drafted=100)
    drafts = Drafters(ModelSelection("target", draft_model=(str(head),), device="cpu"))
    drafts.join(target())
    assert not drafts
    assert drafts.head is not None
    assert drafts.head.info.title == "EAGLE-3"
    reasons = refusals(target(), drafts)
    assert set(reasons) == {"draft", "tree", "medusa", "dflash", "mtp", "pard"}
    assert all("trained for this model. Load one" in reasons.pop(other) for other in ("medusa", "dflash"))
    assert "needs an MTP layer" in reasons.pop("mtp")
    assert all("needs a draft model" in reason for reason in reasons.values())
    assert "needs an EAGLE head" in refusals(target(), None)["eagle"]
    conversation = open_conversation(target(), drafts)
    assert conversation.head is drafts.head
    assert not conversation.draft_models
    conversation.close()
    drafts.close()
    assert drafts.head is None


@needs_llama
@pytest.mark.parametrize(("model", "options", "runtime"), [
    (BUILTIN, {"backend": "transformers"}, "transformers"), (BUILTIN, {"backend": "llama.cpp"}, "llama.cpp"),
    (BUILTIN, {}, "transformers"), (BUILTIN, {"dtype": "float32"}, "transformers"), (str(builtin_path()), {}, "transformers"),
    (str(builtin_gguf()), {"draft_dtype": "float32"}, "llama.cpp"),
])  # fmt: skip
def test_the_built_in_head_is_loaded_for_the_targets_runtime(model: str, options: dict[str, Any], runtime: str) -> None:
    drafts = Drafters(ModelSelection(model, draft_model=(BUILTIN_EAGLE,), device="cpu", threads=1, **options))
    target = find_model(model, drafts.target_options)()
    assert target.info.backend == runtime
    drafts.join(target)
    head = drafts.named_head
    assert head is not None
    assert head.info.path.endswith(".gguf") == (runtime == "llama.cpp")
    conversation = open_conversation(target, drafts)
    prompt = target.encode_chat([{"role": "user", "content": "What is a token?"}])
    generation = Generation(conversation, prompt, "eagle", max_tokens=24)
    assert any(step.accepted for step in generation)
    conversation.close()
    drafts.close()
    target.close()


EXACT = {"device": "cpu", "threads": 1, "kv_type": "f32", "flash_attention": "off", "context": 300}


def answer_tokens(engine: BareEngine, id: int, method: str) -> list[int]:
    engine.send(Generate(id, prompt="one two three one two", raw=True, method=method, max_tokens=24))
    events = engine.until(id, Finished, Failed)
    assert isinstance(events[-1], Finished), events[-1]
    return [token for step in steps_of(events, id) for token in step.tokens]


def write_damaged(file: Path, change: Callable[[bytes], bytes]) -> str:
    file.write_bytes(change(gguf_of(llama_folder()).read_bytes()))
    return str(file)


@needs_llama
def test_drafts_and_broken_files(engine: BareEngine, tmp_path: Path) -> None:
    model = str(gguf_of(llama_folder()))
    engine.send(Load(1, ModelSelection(model, draft_model=(model,), **EXACT)))  # type: ignore[arg-type]
    events = engine.until(1, Loaded, Failed)
    loaded = events[-1]
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.model.backend, loaded.model.context) == ("llama.cpp", 300)
    assert [(info.name, info.context) for info in loaded.drafts] == [(model, 300)]
    assert set(loaded.unavailable) == {"early-exit", "eagle", "medusa", "dflash", "mtp", "pard"}
    stages = list(dict.fromkeys(event.stage for event in events if isinstance(event, Loading)))
    assert stages == ["import", "weights", "check", "draft weights", "draft check"]
    plain = answer_tokens(engine, 2, "greedy")
    assert len(plain) > 3
    for id, method in enumerate(("draft", "tree"), 3):
        assert answer_tokens(engine, id, method) == plain
    broken = {
        write_damaged(tmp_path / "magic.gguf", lambda data: b"PK" + data[2:]): "not a GGUF file",
        write_damaged(tmp_path / "short.gguf", lambda data: data[: len(data) // 2]): "incomplete",
        write_damaged(tmp_path / "new.gguf", lambda data: data.replace(b"llama", b"llamb")): "'llamb', which this version",
        str(tmp_path / "none.gguf"): "There is no file",
    }
    for id, (file, sentence) in enumerate(broken.items(), 10):
        engine.send(Load(id, ModelSelection(file)))
        *before, failed = engine.until(id, Failed, Loaded)
        assert isinstance(failed, Failed), failed
        assert failed.cause == "user"
        assert sentence in failed.sentence
        assert "\n" not in failed.sentence
        if Unloaded() in before:  # llama.cpp itself refused it, after the old model had been unloaded
            assert "Load one again" in failed.sentence
            engine.send(Load(20, ModelSelection(model, **EXACT)))  # type: ignore[arg-type]
            engine.until(20, Loaded)
    assert answer_tokens(engine, 30, "greedy") == plain


CHAT = [{"role": "user", "content": "Hello"}]

ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
)


def load(client: EngineClient, model: str) -> Event:
    return answer(client, client.load(ModelSelection(model, device="cpu", threads=1, exact="off")))[-1]


def ask(client: EngineClient, **options: Any) -> Event:
    return answer(client, client.generate(max_tokens=4, **({"messages": CHAT} | options)))[-1]


@needs_llama
def test_a_bad_model_file_costs_one_answer_or_load(client: EngineClient, tmp_path: Path) -> None:
    def made(**values: Any) -> str:
        return str(changed(builtin_gguf(), tmp_path / "model.gguf", {key.replace("__", "."): values[key] for key in values}))

    # A template that never finishes: the engine does not take the first Cancel.
    id = client.load(ModelSelection(made(tokenizer__chat_template=ENDLESS), device="cpu", threads=1))
    stage = ""
    while (event := client.wait(None if stage != "check" else 1.0)) is not None:
        assert isinstance(event, Ready | Loading)
        stage = event.stage if isinstance(event, Loading) else stage
    client.cancel(id)
    client.cancel(id)
    assert client.wait(3.5) is None, "it may only be busy"
    client.cancel(id)
    failed = client.wait()
    assert isinstance(failed, Failed)
    assert (failed.cause, failed.sentence) == ("died", STUCK)
    # This crashes the engine: llama.cpp takes at most 512 layers.
    failed = load(client, deep := made(llama__block_count=513))
    assert isinstance(failed, Failed)
    assert failed.cause == "died"
    assert f"while it loaded {deep}" in failed.sentence
    assert isinstance(load(client, str(builtin_gguf())), Loaded)
    assert isinstance(ask(client), Finished)


DEADLINE_SECONDS = 300


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "cache", monkeypatch) as running:
        running.repositories["sea/Buoy"] = {file.name: file.read_bytes() for file in builtin_path().iterdir()}
        yield running


@pytest.fixture
def hub_client(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineClient]:
    environment = {
        "HF_ENDPOINT": hub.address,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "300",  # nothing but a cancel ends a wait for the server
        "OLLAMA_MODELS": str(tmp_path / "ollama"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with EngineClient(log=tmp_path / "log") as made:
        yield made


@needs_llama
def test_a_download_is_cancelled_at_once_and_begins_again(hub_client: EngineClient, hub: Hub, tmp_path: Path) -> None:
    hub.stall_after = 2_000_000
    id = hub_client.load(ModelSelection("sea/Buoy", device="cpu", threads=1))
    deadline = time.monotonic() + DEADLINE_SECONDS
    # Not the reported progress: it comes only a few times a second, and all bytes may come between two reports.
    while sum(unfinished(tmp_path)) < 1_500_000:
        assert time.monotonic() < deadline
        hub_client.wait(0.05)
    hub_client.cancel(id)
    (failed,) = [event for event in answer(hub_client, id) if isinstance(event, Failed)]
    assert failed.cause == "cancelled"
    assert sum(unfinished(tmp_path)) == 0
    hub.stall_after = None
    hub.asked = []
    events = answer(hub_client, hub_client.load(ModelSelection("sea/Buoy", device="cpu", threads=1)))
    assert isinstance(events[-1], Loaded), events[-1]
    assert events[-1].model.name == "sea/Buoy"
    assert hub.bodies() == [""]
    downloaded = [event for event in events if isinstance(event, Loading) and event.stage == "download"]
    assert downloaded[-1].done == downloaded[-1].total
    # By its name in Ollama, in the same engine.
    write_ollama(tmp_path / "ollama", "lighthouse", "q8", builtin_gguf())
    loaded = answer(hub_client, hub_client.load(ModelSelection("ollama:lighthouse:q8", device="cpu", threads=1)))[-1]
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.model.name, loaded.model.backend) == ("ollama:lighthouse:q8", "llama.cpp")
    refused = answer(hub_client, hub_client.load(ModelSelection("ollama:nothing", device="cpu")))[-1]
    assert isinstance(refused, Failed)
    assert "Download it with `ollama pull nothing`." in refused.sentence


@needs_llama
def test_a_gguf_model_needs_no_transformers(tmp_path: Path) -> None:
    """Importing it would take longer than the load."""
    code = """
import sys
from specchat.engine.lanes import Lanes
from specchat.engine.messages import Load, Loaded
from specchat.engine.models import ModelTable
from specchat.engine.options import ModelSelection
from specchat.engine.past import PastAnswers
events = []
models = ModelTable(events.append, Lanes(events.append), PastAnswers(events.append), lambda id: False)
models.load(Load(1, ModelSelection(sys.argv[1], device="cpu", threads=1)))
assert isinstance(events[-1], Loaded), events[-1]
print([name for name in ("transformers", "accelerate") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(builtin_gguf())], check=True, capture_output=True, text=True, timeout=DEADLINE_SECONDS
    )
    assert done.stdout == "[]\n"
