"""The list of models in a real terminal: a model is found on a Hub, fetched, loaded with its draft model, and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.backends.loading import builtin_path

from ..cases import FULL
from ..fakes.models.hub_server import Hub, serving
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT

DOWN, ESCAPE, ENTER = "\x1b[B", "\x1b", "\r"
ALT_M, CTRL_D = "\x1bm", "\x04"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "hub", monkeypatch) as running:
        running.repositories["sea/Buoy"] = {file.name: file.read_bytes() for file in builtin_path().iterdir()}
        yield running


@pytest.fixture
def env(tmp_path: Path, hub: Hub) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "XDG_STATE_HOME": str(tmp_path / "s"),
        "HF_ENDPOINT": hub.address,
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_HUB_DISABLE_XET": "1",
    }


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="it loads four models")
def test_from_a_name_on_the_hub_to_an_answer(env: dict[str, str], hub: Hub) -> None:
    with Terminal([SPECCHAT], env=env) as terminal:
        terminal.wait("ready")
        terminal.send(ALT_M)
        terminal.wait("builtin-draft")
        terminal.send("sea/Buoy")
        terminal.wait("Look up sea/Buoy on the Hub")
        terminal.send(ENTER)
        terminal.wait("safetensors · 6 files")
        terminal.send(ENTER)
        terminal.wait("sea/Buoy is downloaded")
        terminal.send(ESCAPE)
        terminal.wait("Hugging Face cache")
        terminal.send(CTRL_D)
        terminal.wait("Draft models for sea/Buoy")
        terminal.wait("same vocabulary")
        terminal.send(DOWN)
        terminal.wait("Can draft for sea/Buoy")
        terminal.send(ENTER)
        terminal.wait("sea/Buoy  ·  cpu", 90)
        terminal.send("/method draft\r")
        terminal.wait("◆ draft")
        terminal.send("What is prompt lookup?\r")
        terminal.wait("first token after")
        assert len(hub.bodies()) == 1, "it was fetched once, by the list"
