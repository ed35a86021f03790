"""The engine loads what the list of models names: options and a draft model arrive, downloads go on and are
cancelled, files that are broken or made to do harm are one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Generate, Load, Loaded, Loading, Unloaded

from ...fakes.engines import BareEngine, answer, steps_of
from ...fakes.models.gguf_changes import changed, tokens
from ...fakes.models.hub_server import Hub, serving
from ...fakes.models.llama_tiny import gguf_of, needs_llama, tiny_folder
from ...fakes.models.model_folders import write_ollama

EXACT = {"device": "cpu", "threads": 1, "kv_type": "f32", "flash_attention": "off", "context": 300}


def written(engine: BareEngine, id: int, method: str) -> list[int]:
    engine.send(Generate(id, prompt="one two three one two", raw=True, method=method, max_tokens=24))
    events = engine.until(id, Finished, Failed)
    assert isinstance(events[-1], Finished), events[-1]
    return [token for step in steps_of(events, id) for token in step.tokens]


def damaged(file: Path, change: Callable[[bytes], bytes]) -> str:
    file.write_bytes(change(gguf_of(tiny_folder()).read_bytes()))
    return str(file)


@needs_llama
def test_drafts_and_broken_files(engine: BareEngine, tmp_path: Path) -> None:
    model = str(gguf_of(tiny_folder()))
    engine.send(Load(1, model, draft_model=model, **EXACT))  # type: ignore[arg-type]
    events = engine.until(1, Loaded, Failed)
    loaded = events[-1]
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.info["backend"], loaded.info["context"]) == ("llama.cpp", 300)
    assert [(info["name"], info["context"]) for info in loaded.drafts] == [(model, 300)]
    assert set(loaded.unavailable) == {"early-exit", "eagle", "medusa", "dflash", "mtp", "pard"}
    stages = list(dict.fromkeys(event.stage for event in events if isinstance(event, Loading)))
    assert stages == ["import", "weights", "check", "draft weights", "draft check"]
    plain = written(engine, 2, "greedy")
    assert len(plain) > 3
    for id, method in enumerate(("draft", "tree"), 3):
        assert written(engine, id, method) == plain
    broken = {
        damaged(tmp_path / "magic.gguf", lambda data: b"PK" + data[2:]): "not a GGUF file",
        damaged(tmp_path / "short.gguf", lambda data: data[: len(data) // 2]): "incomplete",
        damaged(tmp_path / "new.gguf", lambda data: data.replace(b"llama", b"llamb")): "'llamb', which this version",
        str(tmp_path / "none.gguf"): "There is no file",
    }
    for id, (file, said) in enumerate(broken.items(), 10):
        engine.send(Load(id, file))
        *before, failed = engine.until(id, Failed, Loaded)
        assert isinstance(failed, Failed), failed
        assert failed.cause == "user"
        assert said in failed.sentence
        assert "\n" not in failed.sentence
        if Unloaded() in before:  # llama.cpp itself refused it, when the room had been made
            assert "Load one again" in failed.sentence
            engine.send(Load(20, model, **EXACT))  # type: ignore[arg-type]
            engine.until(20, Loaded)
    assert written(engine, 30, "greedy") == plain


@needs_llama
def test_a_file_that_ends_the_engine_is_named_and_the_next_one_loads(tmp_path: Path) -> None:
    deep = changed(builtin_gguf(), tmp_path / "deep.gguf", {"llama.block_count": 513})  # llama.cpp takes 512
    with EngineClient(log=tmp_path / "engine.log") as client:
        failed = list(client.stream(client.load(str(deep))))[-1]
        assert isinstance(failed, Failed)
        assert failed.cause == "died"
        assert f"while it loaded {deep}" in failed.sentence
        assert isinstance(list(client.stream(client.load(str(builtin_gguf()))))[-1], Loaded)


CHAT = [{"role": "user", "content": "Hello"}]

ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
)


def load(client: EngineClient, model: str) -> Event:
    return answer(client, client.load(model, device="cpu", threads=1))[-1]


def ask(client: EngineClient, **options: Any) -> Event:
    return answer(client, client.generate(max_tokens=4, **({"messages": CHAT} | options)))[-1]


@needs_llama
def test_each_costs_one_answer_or_load(client: EngineClient, tmp_path: Path) -> None:
    def made(**values: Any) -> str:
        return str(changed(builtin_gguf(), tmp_path / "model.gguf", {key.replace("__", "."): values[key] for key in values}))

    # An endless template ends with the answer.
    loaded = load(client, made(tokenizer__chat_template=ENDLESS))
    assert isinstance(loaded, Loaded), loaded
    id = client.generate(messages=CHAT)
    client.cancel(id)
    failed: Event = answer(client, id)[-1]
    assert isinstance(failed, Failed)
    assert (failed.cause, failed.sentence) == ("cancelled", "Cancelled.")
    assert isinstance(ask(client, messages=None, prompt="Once", raw=True), Finished)
    # What ends the process: with this kind of vocabulary it looks for a token of each byte that is written.
    names = [b"token %d" % index for index, _ in enumerate(tokens(builtin_gguf()))]
    failed = load(client, made(tokenizer__ggml__model="llama", tokenizer__ggml__tokens=names))
    if isinstance(failed, Loaded):
        failed = ask(client, messages=None, prompt="Once", raw=True)
    assert isinstance(failed, Failed)
    assert failed.cause == "died"
    assert "The engine stopped" in failed.sentence
    assert isinstance(load(client, str(builtin_gguf())), Loaded)
    assert isinstance(ask(client), Finished)


SECONDS = 300


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


def incomplete_bytes(folder: Path) -> int:
    """Bytes of what is being downloaded; a file gets its own name once it is whole, so it may go meanwhile."""
    size = 0
    for file in folder.rglob("*.incomplete"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def test_a_download_is_cancelled_at_once_and_begins_again(hub_client: EngineClient, hub: Hub, tmp_path: Path) -> None:
    hub.stall_after = 2_000_000
    id = hub_client.load("sea/Buoy", device="cpu", threads=1)
    deadline = time.monotonic() + SECONDS
    # Not what is told: that is told a few times a second only, and all may come within one of them.
    while incomplete_bytes(tmp_path) < 1_500_000:
        assert time.monotonic() < deadline
        hub_client.wait(0.05)
    hub_client.cancel(id)
    (failed,) = [event for event in answer(hub_client, id) if isinstance(event, Failed)]
    assert failed.cause == "cancelled"
    assert incomplete_bytes(tmp_path) == 0
    hub.stall_after, hub.asked = None, []
    events = answer(hub_client, hub_client.load("sea/Buoy", device="cpu", threads=1))
    assert isinstance(events[-1], Loaded), events[-1]
    assert events[-1].info["name"] == "sea/Buoy"
    assert hub.bodies() == [""]
    downloaded = [event for event in events if isinstance(event, Loading) and event.stage == "download"]
    assert downloaded[-1].done == downloaded[-1].total


@needs_llama
def test_a_model_of_ollamas_is_loaded_by_its_name(hub_client: EngineClient, tmp_path: Path) -> None:
    write_ollama(tmp_path / "ollama", "lighthouse", "q8", builtin_gguf())
    loaded = answer(hub_client, hub_client.load("ollama:lighthouse:q8", device="cpu", threads=1))[-1]
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.info["name"], loaded.info["backend"]) == ("ollama:lighthouse:q8", "llama.cpp")
    failed = answer(hub_client, hub_client.load("ollama:nothing", device="cpu"))[-1]
    assert isinstance(failed, Failed)
    assert "Download it with `ollama pull nothing`." in failed.sentence
