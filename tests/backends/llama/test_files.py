"""GGUF files that cannot be loaded: one sentence each, that says what to do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specchat.backends import LoadOptions, UserError, load_model
from specchat.backends.files.gguf_file import Long, read_header

from ...fakes.models.llama_tiny import CONTEXT, FLOAT32, VOCAB, gguf_of, needs_llama, tiny_folder, tiny_llama

pytestmark = needs_llama


def refused(file: Path, options: LoadOptions = FLOAT32) -> str:
    """The one sentence that a file is refused with."""
    with pytest.raises(UserError) as caught:
        load_model(str(file), options)
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


def test_vocabulary_only(tmp_path: Path) -> None:
    assert "only a vocabulary" in refused(write(tmp_path / "vocab.gguf", "llama"))


def test_unknown_architecture(tmp_path: Path) -> None:
    sentence = refused(write(tmp_path / "new.gguf", "brandnew", one_tensor))
    assert "architecture 'brandnew'" in sentence
    assert "pip install llama-cpp-python --upgrade" in sentence


def test_missing_parts_in_llamas_words(tmp_path: Path) -> None:
    sentence = refused(write(tmp_path / "half.gguf", "llama", one_tensor))
    assert "key not found" in sentence
    assert "llama_model_load" not in sentence


def test_not_a_language_model(tmp_path: Path) -> None:
    assert "vision projector" in refused(write(tmp_path / "mmproj.gguf", "clip", one_tensor))
    assert "no tokenizer" in refused(write(tmp_path / "bare.gguf", "llama", one_tensor, tokenizer=False))


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
