"""Models on the disk and on the Hub: found, described by their headers, judged against memory and as drafters."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from specchat.app.cli.exit_codes import CANCELLED
from specchat.app.cli.main import app
from specchat.app.models.hub import Download, Downloads, Offer
from specchat.app.models.library import FoundModel, Library, in_order
from specchat.app.models.memory import FreeMemory, judge
from specchat.app.models.pairing import Pairing, look_for, pair
from specchat.app.models.places import ModelSpot, remember
from specchat.app.models.rows import all_rows, draft_rows, drafts_alone, drawn
from specchat.app.models.search import FoundServer, ask, of_model, of_target_alone, server_rows
from specchat.app.terminal.output import Notes
from specchat.backends.files.hub import fetch
from specchat.backends.files.model_card import Needs, quantization_in, read_card
from specchat.backends.files.ollama import locate_ollama
from specchat.backends.files.vocabulary import read_vocabulary
from specchat.backends.heads.mtp.format import OwnLayers
from specchat.backends.llama.trial import FILE
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.backends.options import LoadOptions
from specchat.errors import UserError

from ...cases import cases
from ...fakes.drafters import gguf_heads
from ...fakes.drafters.dflash_files import write_dflash
from ...fakes.drafters.head_files import write_head
from ...fakes.drafters.heads import target_folder
from ...fakes.drafters.mtp_files import mtp_folder, write_mtp
from ...fakes.engines import wait_until
from ...fakes.model_servers import serving
from ...fakes.models.gemma import gemma_file, gemma_folder, write_assistant
from ...fakes.models.gguf_changes import changed
from ...fakes.models.hub_server import Hub, unfinished
from ...fakes.models.hub_server import serving as serving_hub
from ...fakes.models.llama_tiny import gguf_of, needs_llama
from ...fakes.models.model_folders import COMMIT, make_home, write_folder, write_gguf, write_ollama
from ...fakes.models.tiny import tiny_folder

WEIGHTS = bytes(range(256)) * 2000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setattr("specchat.app.models.memory.room", lambda *_: FreeMemory(8_000_000_000, "in memory"))
    return make_home(tmp_path / "home", monkeypatch)


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving_hub(home / "hub", monkeypatch) as running:
        running.repositories["sea/Buoy"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        running.repositories["sea/Buoy-GGUF"] = {"Buoy-Q8_0.gguf": WEIGHTS, "Buoy-Q4_K_M.gguf": WEIGHTS[:300_000]}
        yield running


def found_at(path: Path, spec: str = "") -> FoundModel:
    return FoundModel(ModelSpot("This folder", spec or str(path), path, path.name), read_card(path))


def look(**how: Any) -> list[FoundModel]:
    return in_order(list(Library().look(**how)))


def named(models: Sequence[FoundModel], title: str) -> FoundModel:
    (one,) = [model for model in models if model.spot.title == title]
    return one


def test_every_place_is_looked_into(home: Path) -> None:
    models = {(model.spot.place, model.spot.title, model.spot.spec) for model in look() if model.spot.place != "Built-in"}
    gull = home / ".lmstudio" / "models" / "harbour" / "Gull-GGUF" / "Gull-Q4_K_M.gguf"
    assert models == {
        ("This folder", "damaged-Q8_0", str(home / "here" / "damaged-Q8_0.gguf")),
        ("Hugging Face cache", "lantern/Lighthouse-Instruct", "lantern/Lighthouse-Instruct"),
        ("Hugging Face cache", "lantern/Lighthouse-Tiny", "lantern/Lighthouse-Tiny"),
        ("Hugging Face cache", "lantern/Lighthouse-GGUF:Q4_0", "lantern/Lighthouse-GGUF:Q4_0"),
        ("LM Studio", "harbour/Gull-GGUF/Gull-Q4_K_M", str(gull)),
        ("Ollama", "pilot:3b", "ollama:pilot:3b"),
    }


def test_the_built_in_model_comes_for_both_runtimes(home: Path) -> None:
    models = [model for model in look() if model.spot.spec == "builtin"]
    assert [model.spot.backend for model in models] == ["llama.cpp", "transformers"]
    assert {model.card.parameters for model in models} == {6_754_560}


@pytest.mark.parametrize(
    ("main", "title"), [("gone", "GGUF:Q4_0"), ("unfinished", "Instruct")], ids=["leads nowhere", "not fetched whole"]
)
def test_a_commit_in_the_cache_loads_by_name_as_it_is_listed(
    home: Path, monkeypatch: pytest.MonkeyPatch, main: str, title: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = home / "hub" / f"models--lantern--Lighthouse-{title.partition(':')[0]}"
    (folder / "refs" / "main").write_text(main)
    if main == "unfinished":
        (folder / "snapshots" / main).mkdir()
        (folder / "snapshots" / main / "config.json").write_text("{}")
    spot = named(look(), f"lantern/Lighthouse-{title}").spot
    assert fetch(spot.spec) == spot.path
    assert spot.revision == COMMIT


def test_folders_of_the_settings_and_recent_models_each_once(home: Path) -> None:
    folder = write_folder(home / "mine" / "one")
    file = write_gguf(home / "elsewhere" / "two.gguf")
    for name in ("owner/name", str(home / "gone.gguf"), str(file)):
        remember(name)
    models = look(named=[str(home / "mine"), "~/mine", "~/elsewhere"])
    places = ("Recently used", "Your folders")
    listed = [(model.spot.place, model.spot.spec) for model in models if model.spot.place in places]
    assert listed == [("Recently used", str(file)), ("Your folders", str(folder))]


def test_only_the_first_part_is_a_model_and_projectors_are_none(home: Path) -> None:
    for name in ("big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "mmproj-big.gguf"):
        write_gguf(home / "here" / name)
    assert [model.spot.title for model in look() if "big" in model.spot.title] == ["big-00001-of-00002"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_place_that_may_not_be_read_says_so(home: Path) -> None:
    (home / "ollama" / "manifests").chmod(0)
    try:
        (locked,) = [model for model in look() if model.spot.place == "Ollama"]
    finally:
        (home / "ollama" / "manifests").chmod(0o755)
    assert "You do not have permission to read" in locked.problem


def test_rows_are_found_one_by_one_and_looking_can_be_stopped(home: Path) -> None:
    looking = Library().look(stopped=lambda: False)
    assert next(looking).spot.place == "Built-in"
    assert list(Library().look(stopped=lambda: True)) == []


def test_models_are_looked_into_again_only_when_they_have_changed(home: Path) -> None:
    library = Library()
    before = named(list(library.look()), "damaged-Q8_0")
    assert named(list(library.look()), "damaged-Q8_0").card is before.card
    write_gguf(home / "here" / "damaged-Q8_0.gguf")
    assert before.problem
    assert not named(list(library.look()), "damaged-Q8_0").problem


def test_a_name_of_ollamas_is_its_file(home: Path) -> None:
    file = locate_ollama("ollama:pilot:3b")
    assert file.read_bytes()[:4] == b"GGUF"
    write_ollama(home / "ollama", "mine", "latest", file, namespace="me")
    assert locate_ollama("ollama:me/mine") == file
    assert "me/mine:latest" not in {model.spot.title for model in look()}, "one file is listed once"


def test_what_ollama_has_not_is_a_sentence(home: Path) -> None:
    for spec in ("ollama:none", "ollama:", "ollama:../../x:y", "ollama:a/b/c/d:e", "ollama:pilot:../3b"):
        with pytest.raises(UserError, match=r"Ollama does not have|is not an Ollama model name"):
            locate_ollama(spec)


def test_a_gguf_file_tells_all_from_its_header(home: Path) -> None:
    card = read_card(home / ".lmstudio" / "models" / "harbour" / "Gull-GGUF" / "Gull-Q4_K_M.gguf")
    assert (card.architecture, card.parameters, card.quantization, card.context) == ("gemma3", 4096 * 64, "Q4_K_M", 4096)
    # 2 layers × 2 heads × 16 numbers, keys and values.
    assert (card.size, card.cache_numbers, card.problem) == (4096 * 64 * 4, 2 * 2 * 2 * 16, "")


def test_folders_that_cannot_be_loaded_say_why(home: Path) -> None:
    mlx = {"group_size": 64, "bits": 4}
    for config, problem in (
        ({"architectures": ["BertModel"]}, "not a causal language model"),
        ({"is_encoder_decoder": True}, "not a causal language model"),
        ({"quantization": mlx}, "quantized for MLX"),
        ({"quantization": mlx, "quantization_config": mlx}, "quantized for MLX"),
        ({"quantization_config": None}, ""),
    ):
        assert problem in read_card(write_folder(home / "mine", shrink=True, **config)).problem


def test_a_folder_without_its_tokenizer_says_so(home: Path) -> None:
    folder = write_folder(home / "mine")
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer" in read_card(folder).problem


def test_a_damaged_file_is_a_row_with_a_reason(home: Path) -> None:
    damaged = named(look(), "damaged-Q8_0")
    assert damaged.problem.startswith("This file ")
    assert str(home) not in damaged.problem


def test_quantizations_in_names() -> None:
    kinds = {
        "Qwen3-8B-Q4_K_M.gguf": "Q4_K_M",
        "x.IQ2_XXS.gguf": "IQ2_XXS",
        "llama-bf16.gguf": "BF16",
        "a-UD-Q8_0-00001-of-00003.gguf": "Q8_0",
        "gpt-oss-MXFP4.gguf": "MXFP4",
        "plain.gguf": "",
        "Q4you.gguf": "",
    }
    assert {name: quantization_in(name) for name in kinds} == kinds


NEEDS = Needs("llama.cpp", 4_000_000_000, 4_000_000_000, 32_768, 65_536)


@pytest.mark.parametrize(
    ("free", "verdict"), [(5_273_741_824, "fits"), (5_273_741_823, "short"), (4_100_000_000, "too large"), (10, "too large")]
)
def test_what_fits(free: int, verdict: str) -> None:
    # 4.2 GB with what a pass needs, and 8,192 tokens × 65,536 numbers × 2 bytes.
    fit = judge(NEEDS, FreeMemory(free, "in memory"), LoadOptions())
    assert fit.verdict == verdict
    assert "4.0 GB of weights" in fit.sentence
    assert "1.1 GB of KV cache for 8,192 tokens" in fit.sentence


def test_a_shorter_conversation_that_fits_is_named_and_does_fit() -> None:
    fit = judge(NEEDS, FreeMemory(4_900_000_000, "in memory"), LoadOptions())
    (tokens,) = re.findall(r"--context (\d+)", fit.sentence)
    assert judge(NEEDS, FreeMemory(4_900_000_000, "in memory"), LoadOptions(context=int(tokens))).verdict == "fits"


def test_transformers_holds_32_bits_on_the_cpu_unless_told_otherwise() -> None:
    needs = Needs("transformers", 2_000_000_000, 4_000_000_000, 4096, 1000)
    assert judge(needs, FreeMemory(3_000_000_000, "in memory"), LoadOptions()).verdict == "too large"
    assert judge(needs, FreeMemory(3_000_000_000, "in memory"), LoadOptions(dtype="bfloat16")).verdict == "fits"
    assert judge(needs, FreeMemory(3_000_000_000, "on the GPU", gpu=True), LoadOptions()).verdict == "fits"


def test_who_can_draft_and_why_others_cannot(home: Path) -> None:
    library = Library()
    target, gguf = found_at(builtin_path()), found_at(builtin_gguf())
    draft = found_at(builtin_gguf("builtin-draft"))
    assert pair(library, target, draft).able, "across runtimes"
    assert pair(library, gguf, found_at(builtin_path("builtin-draft"))).able
    other = found_at(write_gguf(home / "small.gguf", tokens=[f"t{i}" for i in range(300)]))
    unlike = Pairing(False, "Its vocabulary is different (2,048 tokens against 300), from token 0 on.")
    assert pair(library, target, other) == unlike
    assert "not much smaller than the target" in pair(library, draft, gguf).reason
    assert pair(library, draft, draft).reason == "This is the target itself."
    assert "This file" in pair(library, draft, found_at(home / "here" / "damaged-Q8_0.gguf")).reason
    folder = write_folder(home / "mine", shrink=True)
    (folder / "tokenizer.json").rename(folder / "spiece.model")
    doubt = pair(library, target, found_at(folder))
    assert doubt.able
    assert "Only loading them will show" in doubt.reason


@pytest.mark.parametrize("vocabulary", [{"Ġthe": 0, "x": 1}, [["▁the", 0.0], ["x", 0.0]]], ids=["by name", "pieces"])
def test_the_names_of_tokens_are_read_by_id(tmp_path: Path, vocabulary: Any) -> None:
    tokenizer = {"model": {"vocab": vocabulary}, "added_tokens": [{"id": 3, "content": "<|end|>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read_vocabulary(tmp_path)[1:] == ["x", "<2>", "<|end|>"]


def test_rows_fit_whatever_the_width(home: Path) -> None:
    from specchat.app.text.cells import width

    models = look()
    target = models[0]
    rows = [
        *all_rows(models, FreeMemory(8_000_000_000, "in memory"), LoadOptions(), {}),
        *draft_rows(target, models, {model.key: pair(Library(), target, model) for model in models}, {}),
    ]
    for cells in (20, 40, 56, 60, 84, 120, 290):
        for row in rows:
            assert width("".join(text for text, _ in drawn(row, cells))) <= cells


@cases(5000, 30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=64), st.integers(0, 900), st.booleans())
def test_damage_anywhere_in_a_header_never_ends_the_list(tmp_path: Path, noise: bytes, at: int, cut: bool) -> None:
    file = tmp_path / "x.gguf"
    data = bytearray(write_gguf(file, tokens=[f"t{i}" for i in range(40)]).read_bytes()[: 1200 if cut else None])
    data[at : at + len(noise)] = noise
    file.write_bytes(data)
    library, model = Library(), found_at(file)
    row = all_rows([model], FreeMemory(8_000_000_000, "in memory"), LoadOptions(), {})[1]
    assert row.title
    target = found_at(builtin_path("builtin-draft"))
    assert isinstance(pair(library, target, model).reason, str)


@cases(5000, 30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from("architectures model_type num_hidden_layers head_dim text_config quantization_config tensor whole".split()),
)
def test_any_configuration_is_a_row(tmp_path: Path, value: Any, key: str) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(value if key == "whole" else config | {key: value}))
    header = json.dumps({"a": value if key == "tensor" else {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": value}, "added_tokens": value}))
    model = found_at(tmp_path)
    row = all_rows([model], FreeMemory(8_000_000_000, "in memory"), LoadOptions(), {})[1]
    assert drawn(row, 100)
    assert isinstance(pair(Library(), model, found_at(builtin_path("builtin-draft"))).reason, str)


def test_what_servers_serve() -> None:
    with serving() as other, serving("vLLM") as fake:
        servers = {"work": {"url": fake.url}, "other": {"url": other.url}, "gone": {"url": "http://127.0.0.1:9"}}
        work, many, unreachable = ask(servers)
    assert work == FoundServer("work", "vLLM · speculation K=10", ("builtin",))
    assert many.models == ("big", "small")
    assert unreachable.problem.startswith("Nothing answers at 127.0.0.1:9")
    rows = server_rows([work, many, unreachable], "", "other#small")
    assert [(row.key, row.title, row.mark[0], row.faint) for row in rows[1:]] == [
        (("server", "work"), "work · builtin", "", False),
        (("server", "other#big"), "other · big", "", False),
        (("server", "other#small"), "other · small", "●", False),
        (("server", "gone"), "gone", "", True),
    ]
    assert rows[1].note == "vLLM · speculation K=10"
    assert [row.title for row in server_rows([work, many, unreachable], "vllm", "")] == ["Servers", "work · builtin"]
    assert server_rows([], "", "") == []


def test_devices_are_looked_at_where_a_build_can_use_them(tmp_path: Path) -> None:
    """A process that has imported neither runtime; the devices themselves are a GPU's, so a private function is asked."""
    (tmp_path / "llama_cpp" / "lib").mkdir(parents=True)
    (tmp_path / "llama_cpp" / "__init__.py").touch()
    (tmp_path / "llama_cpp" / "lib" / "libggml-vulkan.so").touch()
    code = "import sys; from specchat.app.models.memory import _built_for_gpus as b; print(b(), 'torch' in sys.modules)"
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).split() == ["True", "False"]


THERE = 196_608


def test_the_rate_is_that_of_this_attempt() -> None:
    download = Download("me/tiny", total=2000, done=1000, state="running", first=(monotonic() - 10, 500))
    assert download.rate == pytest.approx(50, rel=0.2)
    assert Download("me/tiny", state="running").rate == 0


def test_a_download_that_is_cancelled_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    downloads = Downloads()
    hub.stall_after = THERE
    downloads.start(Offer("sea/Buoy", "safetensors", "", (), len(WEIGHTS) + 2, weights=len(WEIGHTS), cached=0))
    wait_until(lambda: hub.stalled.is_set() and any(unfinished(tmp_path)))
    downloads.cancel(downloads.all["sea/Buoy"])
    assert not downloads.all
    wait_until(lambda: not unfinished(tmp_path))
    assert not downloads.news


# Trained drafters

MADE_FOR = "It fits, but was made for owner/verifier."


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
    names = {"Qwen/Qwen3-8B": "Qwen3-8B", "x/Qwen3.5-9B-Q4_K_M.gguf": "Qwen3.5-9B", "a/oss-20b-GGUF": "oss-20b"}
    for title, name in names.items():
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
    models = {model["model"]: model for model in table("lighthouse-tiny")["models"]}
    tiny = models.pop("lantern/Lighthouse-Tiny")
    assert (tiny["parameters"], tiny["quantization"], tiny["runtime"]) == (1_492_224, "F16", "transformers")
    assert (tiny["memory"]["verdict"], models) == ("fits", {})


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
