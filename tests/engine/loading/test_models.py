"""The engine loads what the list of models names: downloads with progress, cancelled at once, and gone on with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.engine.client import EngineClient
from specchat.engine.messages import Failed, Loaded, Loading

from ...fakes.engines import answer
from ...fakes.models.hub_server import Hub, serving
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.model_folders import write_ollama

SECONDS = 300


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "cache", monkeypatch) as running:
        running.repositories["sea/Buoy"] = {file.name: file.read_bytes() for file in builtin_path().iterdir()}
        yield running


@pytest.fixture
def client(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineClient]:
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


def written(folder: Path) -> int:
    """Bytes of what is being downloaded; a file gets its own name once it is whole, so it may go meanwhile."""
    size = 0
    for file in folder.rglob("*.incomplete"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def test_a_download_is_cancelled_at_once_and_begins_again(client: EngineClient, hub: Hub, tmp_path: Path) -> None:
    hub.stall_after = 2_000_000
    id = client.load("sea/Buoy", device="cpu", threads=1)
    deadline = time.monotonic() + SECONDS
    # Not what is told: that is told a few times a second only, and all may come within one of them.
    while written(tmp_path) < 1_500_000:
        assert time.monotonic() < deadline
        client.wait(0.05)
    client.cancel(id)
    (failed,) = [event for event in answer(client, id) if isinstance(event, Failed)]
    assert failed.cause == "cancelled"
    assert written(tmp_path) == 0
    hub.stall_after, hub.asked = None, []
    events = answer(client, client.load("sea/Buoy", device="cpu", threads=1))
    assert isinstance(events[-1], Loaded), events[-1]
    assert events[-1].info["name"] == "sea/Buoy"
    assert hub.bodies() == [""]
    downloaded = [event for event in events if isinstance(event, Loading) and event.stage == "download"]
    assert downloaded[-1].done == downloaded[-1].total


@needs_llama
def test_a_model_of_ollamas_is_loaded_by_its_name(client: EngineClient, tmp_path: Path) -> None:
    write_ollama(tmp_path / "ollama", "lighthouse", "q8", builtin_gguf())
    loaded = answer(client, client.load("ollama:lighthouse:q8", device="cpu", threads=1))[-1]
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.info["name"], loaded.info["backend"]) == ("ollama:lighthouse:q8", "llama.cpp")
    failed = answer(client, client.load("ollama:nothing", device="cpu"))[-1]
    assert isinstance(failed, Failed)
    assert "Download it with `ollama pull nothing`." in failed.sentence
