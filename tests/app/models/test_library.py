"""Models on the disk: found in every known place, told from their headers, judged against the memory and as draft models."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from specchat.app.models.hub import Download, Downloads, Offer
from specchat.app.models.library import FoundModel, Library, in_order
from specchat.app.models.memory import FreeMemory, judge
from specchat.app.models.pairing import pair
from specchat.app.models.places import ModelSpot
from specchat.app.models.rows import all_rows, draft_rows, drawn
from specchat.app.models.search import FoundServer, ask, server_rows
from specchat.backends.files.hub import fetch
from specchat.backends.files.hub_files import INCOMPLETE as PART
from specchat.backends.files.model_card import Needs, quantization_in, read_card
from specchat.backends.files.ollama import locate_ollama
from specchat.backends.files.vocabulary import read_vocabulary
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.backends.options import LoadOptions
from specchat.errors import UserError

from ...cases import cases
from ...fakes.engines import wait_until
from ...fakes.model_servers import serving
from ...fakes.models.hub_server import Hub
from ...fakes.models.hub_server import serving as serving_hub
from ...fakes.models.model_folders import COMMIT, make_home, write_folder, write_gguf, write_ollama


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_home(tmp_path / "home", monkeypatch)


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
    recent = [str(file), str(home / "gone.gguf"), "owner/name"]
    models = look(recent=recent, named=[str(home / "mine"), "~/mine", "~/elsewhere"])
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
    for config, problem in (
        ({"architectures": ["BertModel"]}, "not a causal language model"),
        ({"is_encoder_decoder": True}, "not a causal language model"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "quantized for MLX"),
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


def found_at(path: Path, spec: str = "") -> FoundModel:
    return FoundModel(ModelSpot("This folder", spec or str(path), path, path.name), read_card(path))


def test_a_model_of_the_same_vocabulary_can_draft_across_runtimes(home: Path) -> None:
    library = Library()
    target = found_at(builtin_path())
    assert pair(library, target, found_at(builtin_gguf("builtin-draft"))).able
    assert pair(library, found_at(builtin_gguf()), found_at(builtin_path("builtin-draft"))).able


def test_another_vocabulary_is_named_with_the_first_token_that_differs(home: Path) -> None:
    small = write_gguf(home / "small.gguf", tokens=[f"t{i}" for i in range(300)])
    other = pair(Library(), found_at(builtin_path()), found_at(small))
    assert not other.able
    assert other.reason == "Its vocabulary is different (2,048 tokens against 300), from token 0 on."


def test_larger_ones_the_target_itself_and_damaged_ones_have_their_reasons(home: Path) -> None:
    library, target = Library(), found_at(builtin_gguf("builtin-draft"))
    assert "not much smaller than the target" in pair(library, target, found_at(builtin_gguf())).reason
    assert pair(library, target, target).reason == "This is the target itself."
    assert "This file" in pair(library, target, found_at(home / "here" / "damaged-Q8_0.gguf")).reason


def test_an_unknown_vocabulary_is_a_doubt_not_a_refusal(home: Path) -> None:
    folder = write_folder(home / "mine", shrink=True)
    (folder / "tokenizer.json").rename(folder / "spiece.model")
    pairing = pair(Library(), found_at(builtin_path()), found_at(folder))
    assert pairing.able
    assert "Only loading them will show" in pairing.reason


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


WEIGHTS = bytes(range(256)) * 2000
THERE = 196_608


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving_hub(tmp_path / "hub", monkeypatch) as running:
        running.repositories["me/tiny"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        yield running


def test_the_rate_is_that_of_this_attempt() -> None:
    download = Download("me/tiny", total=2000, done=1000, state="running", first=(monotonic() - 10, 500))
    assert download.rate == pytest.approx(50, rel=0.2)
    assert Download("me/tiny", state="running").rate == 0


def test_a_download_that_is_cancelled_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    downloads = Downloads()
    hub.stall_after = THERE
    downloads.start(Offer("me/tiny", "safetensors", "", (), len(WEIGHTS) + 2, weights=len(WEIGHTS), cached=0))
    wait_until(lambda: hub.stalled.is_set() and any(file.stat().st_size for file in tmp_path.rglob(f"*{PART}")))
    downloads.cancel(downloads.all["me/tiny"])
    assert not downloads.all
    wait_until(lambda: not [*tmp_path.rglob(f"*{PART}")])
    assert not downloads.news
