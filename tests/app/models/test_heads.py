"""Trained drafters in the list of models: told by their files, judged as drafters for each model, with the reason why not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from specchat.app.cli.exit_codes import CANCELLED
from specchat.app.cli.main import app
from specchat.app.models.library import FoundModel, Library
from specchat.app.models.memory import FreeMemory
from specchat.app.models.pairing import Pairing, look_for, pair
from specchat.app.models.places import ModelSpot
from specchat.app.models.rows import all_rows, draft_rows, drafts_alone, drawn
from specchat.app.models.search import of_model, of_target_alone
from specchat.app.terminal.output import Notes
from specchat.backends.files.model_card import read_card
from specchat.backends.heads.mtp.format import OwnLayers
from specchat.backends.llama.trial import FILE
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.backends.options import LoadOptions
from specchat.errors import UserError

from ...fakes.drafters import gguf_heads
from ...fakes.drafters.dflash_files import write_dflash
from ...fakes.drafters.head_files import write_head
from ...fakes.drafters.heads import target_folder
from ...fakes.drafters.mtp_files import mtp_folder, write_mtp
from ...fakes.engines import wait_until
from ...fakes.models.gemma import gemma_file, gemma_folder, write_assistant
from ...fakes.models.gguf_changes import changed
from ...fakes.models.hub_server import Hub, serving
from ...fakes.models.llama_tiny import gguf_of, needs_llama
from ...fakes.models.model_folders import make_home
from ...fakes.models.tiny import tiny_folder

MADE_FOR = "It fits, but was made for owner/verifier."


def found_at(path: Path, spec: str = "") -> FoundModel:
    return FoundModel(ModelSpot("This folder", spec or str(path), path, path.name), read_card(path))


def judged(head: Path, target: Path | None = None) -> Pairing:
    return pair(Library(), found_at(target or target_folder()), found_at(head))


def test_its_card_says_what_it_is(tmp_path: Path) -> None:
    model = found_at(write_head(tmp_path / "head", drafted=100, dtype=torch.bfloat16))
    assert model.card.head is not None
    assert (model.card.architecture, model.card.quantization, model.card.problem) == ("EAGLE-3", "BF16", "")
    assert "trained drafter (EAGLE-3)" in model.problem
    assert read_card(tiny_folder("llama")).head is None


def test_it_drafts_for_what_it_fits(tmp_path: Path) -> None:
    assert judged(write_head(tmp_path / "one", drafted=100)) == Pairing(True)
    assert judged(write_head(tmp_path / "two", "eagle1")) == Pairing(True)
    assert judged(write_head(tmp_path / "three", "speculators")) == Pairing(True, MADE_FOR)
    assert judged(write_dflash(tmp_path / "four")) == Pairing(True)
    assert judged(write_dflash(tmp_path / "five", "speculators", drafted=100)) == Pairing(True, MADE_FOR)
    assert "reads layers that heads-target does not have" in judged(write_dflash(tmp_path / "six", taps=(1, 9))).reason


def test_gguf_targets_and_the_built_in_model(tmp_path: Path) -> None:
    head = found_at(write_head(tmp_path / "head"))
    wide: dict[str, Any] = {"width": 256, "vocabulary": 2048}
    for own_head in (True, False):
        assert judged(write_head(tmp_path / str(own_head), own_head=own_head, **wide), builtin_gguf()) == Pairing(True)
    # Judged by its layers and vocabulary, whichever of the two the row is of.
    targets = [
        FoundModel(ModelSpot("Built-in", "builtin", path, "builtin"), read_card(path))
        for path in (builtin_gguf(), builtin_path())
    ]
    one, other = (pair(Library(), target, head) for target in targets)
    assert one == other
    assert "vocabulary of 256 tokens, and builtin has 2,048" in one.reason


def test_an_assistant_drafts_for_gemma_4_alone(tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant")
    assistant = found_at(folder)
    assert (assistant.card.architecture, assistant.card.problem) == ("Gemma 4 assistant", "")
    assert judged(folder, gemma_folder()) == Pairing(True)
    assert judged(folder).reason == "It is a Gemma 4 assistant, and the target is no Gemma 4."
    reason = "It reads the target's keys and values, which llama.cpp gives to an assistant in GGUF only."
    assert judged(folder, builtin_gguf()).reason == reason
    if builtin_gguf() is not None:
        file = gemma_file(folder, tmp_path / "assistant.gguf")
        assert judged(file, gemma_file(gemma_folder(), tmp_path / "gemma.gguf")) == Pairing(True)
        assert judged(file, builtin_gguf()).reason == "It is a Gemma 4 assistant, and the target is no Gemma 4."


def test_what_to_look_for_on_the_hub() -> None:
    target = found_at(target_folder())
    for title, name in (
        ("Qwen/Qwen3-8B", "Qwen3-8B"),
        ("x/Qwen3.5-9B-Q4_K_M.gguf", "Qwen3.5-9B"),
        ("a/oss-20b-GGUF", "oss-20b"),
    ):
        sentence = look_for(replace(target, spot=replace(target.spot, title=title)))
        assert f"search for “{name}” with eagle3" in sentence
    assert (look_for(target), "$quiet", 3) in of_target_alone(target)


def test_models_that_bring_their_drafters_need_none_from_the_hub() -> None:
    builtin = FoundModel(ModelSpot("Built-in", "builtin", builtin_path(), "builtin"), read_card(builtin_path()))
    assert look_for(builtin) == look_for(found_at(mtp_folder("glm4-moe"))) == ""


def test_a_pard_model_is_marked(tmp_path: Path) -> None:
    folder = tmp_path / "parallel"
    shutil.copytree(tiny_folder("llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": 5}))
    target, drafter, other = found_at(tiny_folder("llama")), found_at(folder), found_at(tiny_folder("qwen3"))
    assert (drafter.card.pard, target.card.pard) == (True, False)
    pairings: dict[object, Pairing] = {model.key: Pairing(True) for model in (drafter, other)}
    notes = {row.title: row.note for row in draft_rows(target, [drafter, other], pairings, {})}
    assert (notes["parallel"], notes["qwen3"]) == ("same vocabulary · PARD", "same vocabulary")
    assert "PARD draft model" in of_model(drafter, None, LoadOptions())[0][0]
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": "5"}))
    assert not found_at(folder).card.pard


@needs_llama
def test_a_gguf_drafter_is_listed_with_whom_it_drafts_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = gguf_heads.eagle_file(tmp_path / "head", "Q8_0")
    head, target = found_at(file), found_at(gguf_of(gguf_heads.target_folder()))
    card = head.card
    assert card.head is not None
    assert (card.backend, card.architecture, card.quantization, card.problem) == ("llama.cpp", "EAGLE-3", "Q8_0", "")
    assert "trained drafter (EAGLE-3)" in head.problem
    rows = all_rows([head], None, LoadOptions(), {})
    text = "".join(text for text, _ in drawn(rows[1], 100))
    assert text.split()[:2] == ["head-Q8_0.gguf", "EAGLE-3"]
    assert text.split()[-2:] == ["◇", "drafter"]
    library = Library()
    assert pair(library, target, head) == Pairing(True)
    on_torch = pair(library, found_at(gguf_heads.target_folder()), head).reason
    assert on_torch == "It is a trained drafter (EAGLE-3) in GGUF, which drafts for models on llama.cpp only."
    builtin = FoundModel(ModelSpot("Built-in", "builtin", builtin_path(), "builtin"), read_card(builtin_path()))
    assert "hidden states 64 numbers wide, and those of builtin have 256" in pair(library, builtin, head).reason
    narrow: dict[str, Any] = {"width": 64, "vocabulary": 2048}
    reason = pair(library, target, found_at(write_head(tmp_path / "borrowing", own_head=False, **narrow))).reason
    assert reason == "It uses the target's LM head, which llama.cpp does not hand out to drafters in safetensors."
    assert pair(library, target, found_at(write_head(tmp_path / "own", **narrow))) == Pairing(True)
    other = changed(gguf_of(gguf_heads.target_folder()), tmp_path / "other.gguf", {"general.architecture": "qwen2"})
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    assert pair(library, found_at(other), head).able, "nobody has tried"
    (tmp_path / FILE).write_text(json.dumps({"last qwen2": ["0.3.36", False]}))
    assert pair(library, found_at(other), head).reason.startswith("llama.cpp does not hand out the hidden states of qwen2")
    damaged = changed(file, tmp_path / "damaged.gguf", {"eagle3.target_layers": [1, 2]})
    assert "have one layer and read 3 of the target's" in pair(library, target, found_at(damaged)).reason


def test_a_model_with_mtp_layers_says_that_it_drafts_for_itself(tmp_path: Path) -> None:
    one, three = found_at(mtp_folder("glm4-moe")), found_at(mtp_folder("mimo", layers=3))
    assert (one.card.mtp, three.card.mtp, found_at(target_folder()).card.mtp) == (OwnLayers(1), OwnLayers(3), None)
    assert "drafts for itself (MTP)" in of_model(one, None, LoadOptions())[0][0]
    rows = draft_rows(one, [], {}, {})
    assert rows[1].note == "Its own MTP layer drafts (method mtp)."
    assert all_rows([one], None, LoadOptions(), {})[1].title == f"{one.spot.title} · MTP"
    eight = write_mtp(tmp_path / "eight", "glm4-moe", changes={"eh_proj.weight": torch.ones(3).to(torch.float8_e4m3fn)})
    model, why = found_at(eight), "They are quantized (F8_E4M3)."
    assert model.card.mtp is not None
    assert model.card.mtp.problem == why
    assert not drafts_alone(model.card)
    assert draft_rows(model, [], {}, {})[1].note == f"Its own MTP layers cannot draft: {why}"
    assert f"Its own MTP layers cannot draft: {why}" in [text for text, _, _ in of_model(model, None, LoadOptions())]


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
    result = CliRunner().invoke(app, ["models", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.stdout


def table(*words: str, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code))


def test_models_are_listed_with_what_fits(home: Path) -> None:
    lines = run().splitlines()
    assert lines[0] == "Built-in"
    (gull,) = [line for line in lines if "harbour/Gull" in line]
    assert gull.split()[-5:] == ["Q4_K_M", "1.0", "MB", "✓", "fits"]
    assert max(map(len, lines)) <= 120


def test_json_tells_every_model(home: Path) -> None:
    models = {model["model"]: model for model in table()["models"]}
    tiny = models["lantern/Lighthouse-Tiny"]
    assert (tiny["parameters"], tiny["quantization"], tiny["runtime"]) == (1_492_224, "F16", "transformers")
    assert tiny["memory"]["verdict"] == "fits"
    assert models["ollama:pilot:3b"]["place"] == "Ollama"
    (damaged,) = [model for model in models.values() if "damaged" in model["path"]]
    assert "incomplete" in damaged["problem"]


def test_draft_models_with_every_reason(home: Path) -> None:
    text = run("--drafts-for", "lantern/Lighthouse-Instruct")
    able, unable = text.split("Cannot draft for it")
    assert "lantern/Lighthouse-Tiny: same vocabulary" in able
    assert "pilot:3b: Its vocabulary is different (2,048 tokens against 2), from token 0 on." in unable
    assert "On the Hub, search for “Lighthouse-Instruct” with eagle3" in unable
    body = table("--drafts-for", "lantern/Lighthouse-Instruct")
    assert body["look_for"].startswith("On the Hub, search for")
    models = {model["model"]: model for model in body["models"]}
    assert models["builtin-draft"]["able"]
    assert "vocabulary" in models["ollama:pilot:3b"]["reason"]


def test_trained_drafters_stand_among_them(home: Path) -> None:
    head = write_head(home / "here" / "head")
    models = {model["model"]: model for model in table()["models"]}
    assert (models[str(head)]["drafter"], models["builtin"]["drafter"]) == ("EAGLE-3", "")
    unable = run("--drafts-for", "lantern/Lighthouse-Instruct").split("Cannot draft for it")[1]
    assert "it drafts from a vocabulary of 256 tokens, and lantern/Lighthouse-Instruct has 2,048." in unable
    with pytest.raises(UserError, match=r"is a trained drafter itself \(EAGLE-3\)"):
        run("--drafts-for", str(head))


@needs_llama
@pytest.mark.parametrize("file", [builtin_path(), builtin_gguf()], ids=["folder", "gguf"])
def test_a_target_may_be_any_path_and_the_built_in_head_drafts_for_it_on_its_runtime(home: Path, file: Path) -> None:
    path = os.path.relpath(file)
    assert ".." in path, "not where models are looked for"
    models = {model["model"]: model for model in table("--drafts-for", path)["models"]}
    assert models["builtin-eagle"]["able"], models["builtin-eagle"]["reason"]
    assert models["builtin-draft"]["able"]


def test_a_repository_on_the_hub(hub: Hub) -> None:
    (offer,) = table("sea/Buoy-GGUF:q8_0")["offers"]
    assert (offer["spec"], offer["size"], offer["here"]) == ("sea/Buoy-GGUF:Q8_0", 512_000, False)


def test_fetching_is_interrupted_and_begins_again(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Notes, text: str) -> None:
        wait_until(hub.stalled.is_set)
        raise KeyboardInterrupt

    hub.stall_after = 131_072
    with monkeypatch.context() as patch:
        patch.setattr(Notes, "progress", interrupt)
        run("sea/Buoy-GGUF:Q8_0", "--fetch", code=CANCELLED)
    hub.stall_after = None
    hub.asked = []
    ready = "sea/Buoy-GGUF:Q8_0 is ready (512 kB). Chat with it: specchat --model sea/Buoy-GGUF:Q8_0\n"
    assert run("sea/Buoy-GGUF:Q8_0", "--fetch") == ready
    assert hub.bodies(".gguf") == [""]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gull", "--fetch"], "takes a name on the Hub"),
        (["sea/Buoy-GGUF", "--fetch"], "choose from sea/Buoy-GGUF:Q4_K_M, sea/Buoy-GGUF:Q8_0"),
    ],
)
def test_what_cannot_be_is_a_sentence(hub: Hub, words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        run(*words)
