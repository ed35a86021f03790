"""GGUF files that cannot be loaded: one sentence each, that says what to do. What is not installed or not free is patched
in."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specchat.backends import LoadOptions, UserError, load_model
from specchat.backends.files.gguf_file import Long, read_header
from specchat.backends.llama.attention_cost import SEED, SEQUENCES, SIZE, attention_cost, attention_seconds
from specchat.backends.llama.context import Context, Runtime, Weights
from specchat.backends.llama.options import CACHE_TYPES, FLASH, LEAST_CONTEXT, USUAL_CONTEXT, even_runtime, usual_context
from specchat.backends.loading import builtin_gguf
from specchat.plain_file import cache_folder

from ...fakes.models.llama_tiny import CONTEXT, FLOAT32, VOCAB, gguf_of, needs_llama, tiny_folder, tiny_llama

pytestmark = needs_llama


def refused(file: Path) -> str:
    """The one sentence that a file is refused with."""
    with pytest.raises(UserError) as caught:
        load_model(str(file), FLOAT32)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(file.name) in sentence
    return sentence


@pytest.fixture(scope="module")
def good() -> bytes:
    return gguf_of(tiny_folder()).read_bytes()


def test_header_tells_what_the_file_holds() -> None:
    header = read_header(gguf_of(tiny_folder()))
    assert header.architecture == "llama"
    assert header.number("context_length") == CONTEXT
    assert header.metadata["tokenizer.ggml.tokens"] == Long(VOCAB)
    assert header.per_layer("attention.head_count_kv", 3) == [2, 2, 2]
    assert header.weight_bytes == 4 * tiny_llama().info.parameters


def test_truncated_anywhere(tmp_path: Path, good: bytes) -> None:
    for share in (0.0001, 0.01, 0.1, 0.5, 0.9, 0.999999):
        file = tmp_path / "short.gguf"
        file.write_bytes(good[: int(len(good) * share)])
        assert "incomplete" in refused(file) or share < 0.0002
    file.write_bytes(b"")
    assert "not a GGUF file" in refused(file)


def test_damaged_headers_never_reach_llama(tmp_path: Path, good: bytes) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "damaged.gguf"
    for _ in range(200):
        data = bytearray(good)
        # The counts, keys and lengths at the beginning.
        for at in rng.integers(8, 600, 3):
            data[at] = rng.integers(256)
        file.write_bytes(data)
        with suppress(UserError):
            read_header(file)


def write(file: Path, architecture: str, fill: Callable[[Any], None] | None = None, tokenizer: bool = True) -> Path:
    """A GGUF file with hardly anything in it."""
    gguf: Any = importlib.import_module("gguf")
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_context_length(64)
    writer.add_block_count(1)
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list(["a", "b", "c"])
        writer.add_token_types([1, 1, 1])
        writer.add_token_merges(["a b"])
    if fill is not None:
        fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def one_tensor(writer: Any) -> None:
    writer.add_tensor("token_embd.weight", np.zeros((3, 32), np.float32))


MADE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "vocabulary": ({"architecture": "llama", "fill": None}, ("only a vocabulary",)),
    "new": ({"architecture": "brandnew"}, ("architecture 'brandnew'", "pip install llama-cpp-python --upgrade")),
    "half": ({"architecture": "llama"}, ("key not found",)),
    "mmproj": ({"architecture": "clip"}, ("vision projector",)),
    "bare": ({"architecture": "llama", "tokenizer": False}, ("no tokenizer",)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_no_whole_model_is_told_in_our_words(name: str, tmp_path: Path) -> None:
    options, said = MADE[name]
    sentence = refused(write(tmp_path / f"{name}.gguf", **{"fill": one_tensor, **options}))
    assert all(words in sentence for words in said)
    assert "llama_model_load" not in sentence


def test_parts(tmp_path: Path, good: bytes) -> None:
    for part in (1, 2):
        (tmp_path / f"big-0000{part}-of-00003.gguf").write_bytes(good)
    assert "big-00003-of-00003.gguf next to it" in refused(tmp_path / "big-00001-of-00003.gguf")
    assert "Give the first one" in refused(tmp_path / "big-00002-of-00003.gguf")


def test_no_file(tmp_path: Path) -> None:
    assert "There is no file" in refused(tmp_path / "nothing.gguf")
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    assert "is a folder" in refused(folder)


def test_runtime_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from specchat.backends.llama import library as llama_library

    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_cpp", None)
    monkeypatch.setattr(llama_library, "library", llama_library.library.__wrapped__)
    with pytest.raises(UserError) as caught:
        load_model(str(gguf_of(tiny_folder())))
    assert str(caught.value).endswith(f"{sys.executable} -m pip install llama-cpp-python")


def test_context_too_large_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    file = gguf_of(tiny_folder())
    # Keys and values of 3 layers, 2 heads of 16, float32: 768 bytes a token.
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=300_000))
    sentence = refused(file)
    assert "takes 0.0 GB" in sentence
    assert "--context 256" in sentence
    model = load_model(str(file), LoadOptions(device="cpu", dtype="float32", context=256))
    assert model.open_session().context == 256
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=100_000))
    with pytest.raises(UserError, match="Close other programs"):
        model.open_session()
    model.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (LoadOptions(device="cuda"), "CMAKE_ARGS"),
        (LoadOptions(device="cpu", gpu_layers=3), "Leave out --gpu-layers or --device"),
        (LoadOptions(dtype="int8"), "no --dtype int8"),
        (LoadOptions(kv_type="q8_0", flash_attention="off"), "needs flash attention"),
        (LoadOptions(context=CONTEXT + 1), "at most 512 tokens"),
    ],
)
def test_options_that_cannot_be(options: LoadOptions, told: str) -> None:
    with pytest.raises(UserError, match=told):
        load_model(str(gguf_of(tiny_folder())), options)


OPTIONS = LoadOptions(device="cpu", threads=1)


def test_a_context_that_nobody_asked_for_is_useful_and_fits() -> None:
    header = read_header(builtin_gguf())
    assert usual_context(header, Runtime(), 131_072) == USUAL_CONTEXT
    assert usual_context(header, Runtime(), 1_024) == 1_024
    prefix = header.architecture
    wide = {f"{prefix}.attention.key_length": 1 << 24, f"{prefix}.attention.value_length": 1 << 24}
    assert usual_context(replace(header, metadata={**header.metadata, **wide}), Runtime(), 131_072) == LEAST_CONTEXT


@pytest.mark.parametrize(
    "asked", [{"flash_attention": "off"}, {"kv_type": "q8_0"}, {"dtype": "float32"}, {"dtype": "bfloat16"}], ids=str
)
def test_what_was_asked_for_is_not_changed_for_the_sake_of_bits(asked: dict[str, Any]) -> None:
    assert even_runtime(Runtime(), replace(OPTIONS, **asked)) is None
    found = even_runtime(Runtime(), OPTIONS)
    assert found is not None
    assert (found.flash_attention, found.type_k, found.type_v) == (FLASH["on"], CACHE_TYPES["bf16"], CACHE_TYPES["f16"])


def test_attention_is_timed_behind_copies_of_a_text() -> None:
    """As many cells as the longest text has, in every setting, with a window and without."""
    weights = Weights(builtin_gguf(), Runtime(), lambda _: True)
    for runtime in (Runtime(flash_attention=FLASH["on"], type_k=30), Runtime(flash_attention=FLASH["off"])):
        for window in (0, 512):
            run = Context(weights, runtime, SIZE, SEQUENCES, rows=8)
            taken = attention_seconds(run, list(range(SEED + 8)), window, lambda: None)
            assert len(taken) == 4
            assert min(taken) > 0
    assert attention_cost([2.0, 3.0], [1.0, 3.0]) == 1.5
    assert attention_cost([], [1.0]) == 1.0


def test_a_second_load_reads_what_the_first_one_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no pass; another setting, another file, or a damaged record prove again."""
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "model.gguf"
    shutil.copy(builtin_gguf(), file)

    def passes(**options: Any) -> int:
        reports: list[int] = []
        model = load_model(
            str(file), replace(OPTIONS, **options), progress=lambda stage, done, _: reports.append(stage == "check")
        )
        model.close()
        return sum(reports)

    first = passes()
    assert first > 20
    assert passes() == 1  # the last one, which says that the check is done
    assert passes(exact="on") > 20
    kept = sorted((cache_folder() / "loads").iterdir())
    assert len(kept) == 2
    assert {"capabilities", "seconds", "runtime", "measured"} == set(json.loads(kept[0].read_text()))
    for record in kept:
        record.write_text('{"capabilities": {"tree": 3, "colour": "red"}, "measured": 1e12}')
    assert passes() > 20
    shutil.copy(builtin_gguf(), file)
    assert passes() > 20
