"""The first layers of a GGUF model as a file of their own, and early exit with it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import UserError
from specchat.backends.llama import layers as gguf_layers
from specchat.backends.llama.layers import first_layers
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import builtin_path
from specchat.decoders import Conversation, Generation

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, tiny_folder
from ...zoo.gguf_files import write

pytestmark = needs_llama

IDS = [(31 * i + 7) % 2000 + 8 for i in range(40)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "layers"


@pytest.fixture
def tiny() -> Iterator[LlamaModel]:
    model = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    yield model
    model.close()


def read(file: Path) -> Any:
    """The file as the package `gguf` reads it."""
    gguf: Any = importlib.import_module("gguf")
    return gguf.GGUFReader(file)


def cut_network(folder: Path, layers: int) -> Any:
    """transformers' model with its first layers only."""
    from transformers import AutoModelForCausalLM

    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network.model.layers = network.model.layers[:layers]
    network.config.num_hidden_layers = layers
    return network.eval()


def test_the_file_holds_the_first_blocks_and_all_else_unchanged() -> None:
    whole = read(gguf_of(tiny_folder()))
    made = first_layers(gguf_of(tiny_folder()), 2, "tiny")
    cut = read(made)
    wanted = [tensor for tensor in whole.tensors if not tensor.name.startswith("blk.2.")]
    assert [tensor.name for tensor in cut.tensors] == [tensor.name for tensor in wanted]
    for one, other in zip(cut.tensors, wanted, strict=True):
        np.testing.assert_array_equal(one.data, other.data)
    counts = ("GGUF.tensor_count", "llama.block_count")
    assert [cut.fields[name].contents() for name in counts] == [len(wanted), 2]
    for name, field in whole.fields.items():
        if name not in counts:
            assert cut.fields[name].contents() == field.contents(), name


@pytest.mark.parametrize("layers", [1, 2])
def test_its_greedy_answers_are_those_of_a_transformers_model_cut_there(tiny: LlamaModel, layers: int) -> None:
    network = cut_network(tiny_folder(), layers)
    model = tiny.truncated(layers)
    assert (model.info.layers, model.info.name) == (layers, f"tiny, first {layers} layer{'s' * (layers > 1)}")
    with torch.inference_mode():
        ids = torch.tensor([IDS])
        found: Any = model.open_session()
        logits = found.evaluate(IDS, range(-1, len(IDS) - 1)).logits
        torch.testing.assert_close(logits, network(input_ids=ids).logits[0], atol=1e-3, rtol=1e-3)
        wanted = network.generate(ids, do_sample=False, max_new_tokens=64, eos_token_id=None, pad_token_id=0)[0, len(IDS) :]
    generation = Generation(Conversation(model), IDS, max_tokens=64)
    generation._eos = frozenset()
    list(generation)
    assert generation.answer == wanted.tolist()


def test_the_quantized_built_in_model_drafts_with_its_first_layers() -> None:
    model = load_llama(gguf_of(builtin_path(), "Q8_0"), "builtin", FLOAT32)
    prompt = "Repeat this text exactly: The cat sat on the mat and looked at the dog."
    early, _ = answered(model, prompt, "early-exit", max_tokens=48)
    assert early.answer == plain(model, prompt, max_tokens=48)
    assert early.totals.drafted >= early.totals.accepted > 5
    model.close()


def test_it_is_written_once_and_closed_with_the_model(tiny: LlamaModel, cache: Path) -> None:
    one = tiny.truncated(1)
    (file,) = cache.iterdir()
    written = file.stat().st_mtime_ns
    assert tiny.truncated(1) is one
    again = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    again.truncated(1)
    assert [path.stat().st_mtime_ns for path in cache.iterdir()] == [written]
    again.close()
    tiny.close()
    with pytest.raises(UserError, match="no longer loaded"):
        one.open_session()
    with pytest.raises(UserError, match="no longer loaded"):
        tiny.truncated(1)


def test_a_model_that_changed_is_cut_anew(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf_of(tiny_folder()).read_bytes())
    before = first_layers(file, 1, "m")
    other = first_layers(gguf_of(tiny_folder()), 1, "other")
    os.utime(file, (1, 1))
    after = first_layers(file, 1, "m")
    assert after != before
    assert set(cache.iterdir()) == {after, other}


def test_numbers_of_each_layer_are_cut_under_whatever_name(tmp_path: Path, cache: Path) -> None:
    # Apertus has some that do not begin with its architecture.
    model = load_llama(write("apertus", tmp_path / "apertus.gguf"), "Apertus", FLOAT32)
    session = model.truncated(2).open_session(8)
    session.prefill([5, 6])
    assert session.length == 2
    model.close()


def test_layers_that_cannot_run_alone_are_told(tiny: LlamaModel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As with architectures whose other tensors depend on the number of layers.
    monkeypatch.setattr(gguf_layers, "_block", lambda tensor: 0 if "attn_norm" in tensor.name else 9)
    with pytest.raises(UserError, match="cannot run its first layers alone") as caught:
        tiny.truncated(1)
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_layers_that_would_end_the_process_are_refused(tmp_path: Path, cache: Path) -> None:
    model = load_llama(write("llama4", tmp_path / "llama4.gguf"), "Scout", FLOAT32)
    with pytest.raises(UserError, match="cannot run fewer than 4 layers of Scout"):
        model.truncated(3)
    assert not cache.exists()
    model.close()


@pytest.mark.parametrize("architecture", ["lfm2", "deepseek4"] if FULL else ["lfm2"])
def test_a_hybrids_layers_without_attention_are_refused_instead_of_ending_the_process(
    architecture: str, tmp_path: Path, cache: Path
) -> None:
    model = load_llama(write(architecture, tmp_path / "hybrid.gguf"), "Hybrid", FLOAT32)
    for _ in range(2):  # tried once, known from then on
        with pytest.raises(UserError, match="cannot run the first 1 layer of Hybrid alone"):
            model.truncated(1)
        assert not list(cache.glob("*.gguf"))
    assert model.truncated(3).open_session(8).context == 8
    model.close()
