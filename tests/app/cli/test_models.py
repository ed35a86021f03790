"""`specchat models`: what is printed, as rows and as JSON, its exit codes, fetching from the shell."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specchat.app.cli.exit_codes import CANCELLED
from specchat.app.cli.main import app
from specchat.app.models.memory import FreeMemory
from specchat.app.terminal.output import Notes
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.errors import UserError

from ...fakes.drafters.head_files import write_head
from ...fakes.engines import wait_until
from ...fakes.models.hub_server import Hub, serving
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.model_folders import make_home

WEIGHTS = bytes(range(256)) * 2000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setattr("specchat.app.models.memory.room", lambda *_: FreeMemory(8_000_000_000, "in memory"))
    return make_home(tmp_path / "home", monkeypatch)


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(home / "hub", monkeypatch) as running:
        running.repositories["sea/Buoy"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        running.repositories["sea/Buoy-GGUF"] = {"Buoy-Q8_0.gguf": WEIGHTS, "Buoy-Q4_K_M.gguf": WEIGHTS[:300_000]}
        yield running


def run(*words: str, code: int = 0) -> str:
    told = CliRunner().invoke(app, ["models", *words])
    if told.exception is not None and not isinstance(told.exception, SystemExit):
        raise told.exception
    assert told.exit_code == code
    return told.stdout


def table(*words: str, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code))


def test_models_are_listed_with_what_fits(home: Path) -> None:
    lines = run().splitlines()
    assert lines[0] == "Built-in"
    (gull,) = [line for line in lines if "harbour/Gull" in line]
    assert gull.split()[-5:] == ["Q4_K_M", "1.0", "MB", "✓", "fits"]
    assert max(map(len, lines)) <= 120


def test_json_tells_every_model(home: Path) -> None:
    found = {each["model"]: each for each in table()["models"]}
    tiny = found["lantern/Lighthouse-Tiny"]
    assert (tiny["parameters"], tiny["quantization"], tiny["runtime"]) == (1_492_224, "F16", "transformers")
    assert tiny["memory"]["verdict"] == "fits"
    assert found["ollama:pilot:3b"]["place"] == "Ollama"
    (damaged,) = [each for each in found.values() if "damaged" in each["path"]]
    assert "incomplete" in damaged["problem"]


def test_draft_models_with_every_reason(home: Path) -> None:
    text = run("--drafts-for", "lantern/Lighthouse-Instruct")
    able, unable = text.split("Cannot draft for it")
    assert "lantern/Lighthouse-Tiny: same vocabulary" in able
    assert "pilot:3b: Its vocabulary is different (2,048 tokens against 2): token 0 is " in unable
    assert "for the target, “c” for it." in unable
    assert "On the Hub, search for “Lighthouse-Instruct eagle3” (EAGLE-3, method eagle), " in unable
    found = table("--drafts-for", "lantern/Lighthouse-Instruct")
    assert found["look_for"][0] == {"title": "EAGLE-3", "method": "eagle", "search": "Lighthouse-Instruct eagle3"}
    told = {each["model"]: each for each in found["models"]}
    assert told["builtin-draft"]["able"]
    assert "vocabulary" in told["ollama:pilot:3b"]["reason"]


def test_trained_drafters_stand_among_them(home: Path) -> None:
    head = write_head(home / "here" / "head")
    told = {each["model"]: each for each in table()["models"]}
    assert (told[str(head)]["drafter"], told["builtin"]["drafter"]) == ("EAGLE-3", "")
    unable = run("--drafts-for", "lantern/Lighthouse-Instruct").split("Cannot draft for it")[1]
    assert "head: head drafts from a vocabulary of 256 tokens, and lantern/Lighthouse-Instruct has 2,048." in unable
    with pytest.raises(UserError, match=r"is a trained drafter itself \(EAGLE-3\)"):
        run("--drafts-for", str(head))


@needs_llama
@pytest.mark.parametrize("file", [builtin_path(), builtin_gguf()], ids=["folder", "gguf"])
def test_a_target_may_be_any_path_and_the_built_in_head_drafts_for_it_on_its_runtime(home: Path, file: Path) -> None:
    path = os.path.relpath(file)
    assert ".." in path, "not where models are looked for"
    told = {each["model"]: each for each in table("--drafts-for", path)["models"]}
    assert told["builtin-eagle"]["able"], told["builtin-eagle"]["reason"]
    assert told["builtin-draft"]["able"]


def test_an_unknown_target_is_a_sentence(home: Path) -> None:
    with pytest.raises(UserError, match="There is no model nobody"):
        run("--drafts-for", "nobody")


def test_a_repository_on_the_hub(hub: Hub) -> None:
    lines = run("sea/Buoy-GGUF").splitlines()
    assert lines[0] == "sea/Buoy-GGUF · on the Hub"
    assert [line.split()[0] for line in lines[1:]] == ["Q4_K_M", "Q8_0"]
    told = table("sea/Buoy-GGUF:q8_0")
    assert [(offer["spec"], offer["size"], offer["here"]) for offer in told["offers"]] == [
        ("sea/Buoy-GGUF:Q8_0", 512_000, False)
    ]
    assert table("sea/Buoy-GGUF:Q2_K", code=1)["offers"] == []


def test_fetching_is_interrupted_and_begins_again(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Notes, text: str) -> None:
        wait_until(hub.stalled.is_set)
        raise KeyboardInterrupt

    hub.stall_after = 131_072
    with monkeypatch.context() as patch:
        patch.setattr(Notes, "progress", interrupt)
        run("sea/Buoy-GGUF:Q8_0", "--fetch", code=CANCELLED)
    hub.stall_after, hub.asked = None, []
    assert (
        run("sea/Buoy-GGUF:Q8_0", "--fetch") == "sea/Buoy-GGUF:Q8_0 is ready (512 kB). Chat with it: specchat --model "
        "sea/Buoy-GGUF:Q8_0\n"
    )
    assert hub.bodies(".gguf") == [""]
    assert (Path(table("sea/Buoy", "--fetch")["path"]) / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gull", "--fetch"], "takes a name on the Hub"),
        (["sea/Buoy-GGUF", "--fetch"], "choose from sea/Buoy-GGUF:Q4_K_M, sea/Buoy-GGUF:Q8_0"),
        (["sea/Nothing"], "There is no model sea/Nothing"),
    ],
)
def test_what_cannot_be_is_a_sentence(hub: Hub, words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        run(*words)
