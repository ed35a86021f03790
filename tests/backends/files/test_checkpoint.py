"""Model files that are broken, made to do harm, or changed by chance: each is one sentence, and no pickle is ever opened."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from transformers.utils.import_utils import is_kernels_available

from specchat.backends import LoadOptions, UserError, load_model
from specchat.backends.chat_template import Template
from specchat.backends.files.checkpoint import check_folder, shown
from specchat.backends.files.gguf_file import read_header, read_layout
from specchat.backends.files.model_card import read_card
from specchat.backends.files.ollama import PARAMETERS, parameters
from specchat.backends.files.sampling import GGUF, OLLAMA, read_recommended, recommended
from specchat.backends.loading import builtin_gguf

from ...cases import FULL
from ...fakes.models.gguf_changes import changed, tokens
from ...fakes.models.llama_tiny import gguf_of
from ...fakes.models.llama_tiny import tiny_folder as llama_folder
from ...fakes.models.thinkers import FAMILIES, NAMES
from ...fakes.models.tiny import tiny_folder

WEIGHTS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"


def raw(header: Any, data: bytes = b"\0" * 8) -> bytes:
    """A safetensors file with this header, whatever it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(**changes: Any) -> bytes:
    """A file of one tensor with something changed; None leaves it out."""
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    return raw({"a": {key: value for key, value in entry.items() if value is not None}})


Breaks = Callable[[Path], Any]


def holding(name: str, text: str) -> Breaks:
    return lambda folder: (folder / name).write_text(text)


def weights(data: bytes) -> Breaks:
    return lambda folder: (folder / WEIGHTS).write_bytes(data)


def config(**values: Any) -> Breaks:
    return lambda folder: (folder / CONFIG).write_text(json.dumps({"model_type": "llama"} | values))


def index(weight_map: Any) -> Breaks:
    return lambda folder: (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def without(pattern: str) -> Breaks:
    return lambda folder: list(map(os.unlink, folder.glob(pattern)))


def replaced(name: str, make: Callable[[Path], Any]) -> Breaks:
    def breaks(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return breaks


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**13)


DAMAGED = "is damaged or incomplete"

HOSTILE: dict[str, tuple[Breaks, str]] = {
    "nothing there": (shutil.rmtree, "There is no folder"), "no config": (without(CONFIG), "no config.json"),
    "no weights": (without(WEIGHTS), "no weights"), "no offsets": (weights(tensor(data_offsets=None)), DAMAGED),
    "offsets of text": (weights(tensor(data_offsets=["0", "8"])), DAMAGED),
    "a tensor of null": (weights(raw({"a": None})), DAMAGED), "header of a list": (weights(raw([1])), DAMAGED),
    "header nested deep": (weights(raw(b"[" * 100_000)), DAMAGED),
    "header of a terabyte": (weights((10**12).to_bytes(8, "little") + b"{}"), DAMAGED),
    "cut in the header": (weights(b"\x10\0\0"), DAMAGED), "cut in the weights": (weights(tensor()[:-1]), DAMAGED),
    "weights are a pipe": (replaced(WEIGHTS, os.mkfifo), "not a regular file"),
    "index of a list": (index([WEIGHTS]), "does not list the weight files"),
    "shards missing": (index({"a": "1.safetensors", "b": WEIGHTS}), "is missing 1 of 2 weight files, such as 1"),
    "index nested deep": (holding(INDEX, '{"weight_map":' * 100_000), "not valid JSON"),
    "index names a pickle": (lambda f: ((f / "w.bin").write_bytes(pickle.dumps({})), index({"a": "w.bin"})(f)), DAMAGED),
    "pickles only": (lambda f: (f / WEIGHTS).rename(f / "pytorch_model.bin"), "only pickled weights.*weights_only"),
    "a pickle called safetensors": (weights(pickle.dumps({"a": 1})), DAMAGED),
    "config not JSON": (holding(CONFIG, "{"), "not valid JSON"),
    "config of a list": (holding(CONFIG, "[]"), "not a JSON object"),
    "config is a pipe": (replaced(CONFIG, os.mkfifo), "not a regular file"),
    "config without end": (replaced(CONFIG, sparse), "larger than"),
}  # fmt: skip


def minimal(folder: Path) -> Path:
    folder.mkdir()
    config(num_hidden_layers=1, vocab_size=2)(folder)
    weights(tensor())(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_folder_is_one_sentence(case: str, tmp_path: Path) -> None:
    breaks, sentence = HOSTILE[case]
    folder = minimal(tmp_path / "model")
    with shown(folder, check_folder(folder)) as view:
        assert sorted(file.name for file in view.iterdir()) == [CONFIG, WEIGHTS, "tokenizer.json"]
    breaks(folder)
    with pytest.raises(UserError, match=sentence) as caught, shown(folder, check_folder(folder)):
        pass
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert isinstance(read_card(folder).problem, str)


class Trap:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder("llama"), tmp_path / "model"))


def load(folder: Path) -> Any:
    return load_model(str(folder), LoadOptions(device="cpu"))


def test_weights_are_safetensors_whatever_they_are_called(folder: Path) -> None:
    parameters = load(folder).info.parameters
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    index({"model.norm.weight": "pytorch_model.bin"})(folder)
    assert load(folder).info.parameters == parameters


def test_no_pickle_is_opened(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trap = pickle.dumps(Trap(trace))
    pickle.loads(trap)
    assert trace.exists()
    trace.unlink()
    # A safetensors file that is a zip archive too, as torch.load takes them: archives are read from their end.
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("archive/data.pkl", trap)
        archive.writestr("archive/version", "3")
    both = save({"a": torch.frombuffer(bytearray(packed.getvalue()), dtype=torch.uint8)})
    (folder / "polyglot.bin").write_bytes(both)
    assert zipfile.is_zipfile(folder / "polyglot.bin")
    (folder / ".metadata").write_bytes(trap)
    (folder / "__0_0.distcp").write_bytes(trap)
    for name in ("pytorch_model.bin", "adapter_model.bin", "training_args.bin"):
        (folder / name).write_bytes(trap)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "x", "peft_type": "LORA"}))
    edited = json.loads((folder / CONFIG).read_text()) | {"transformers_weights": "adapter_model.bin"}
    (folder / CONFIG).write_text(json.dumps(edited))
    with pytest.raises(UserError, match="Cannot load"):
        load(folder)
    del edited["transformers_weights"]
    (folder / CONFIG).write_text(json.dumps(edited))
    load(folder)
    (folder / "shard.bin").write_bytes((folder / WEIGHTS).read_bytes())
    index({"a": "polyglot.bin", "model.norm.weight": "shard.bin"})(folder)
    load(folder)
    (folder / "shard.bin").write_bytes(trap)
    with pytest.raises(UserError, match=DAMAGED):
        load(folder)
    assert not trace.exists()


def edited(**values: Any) -> Breaks:
    return lambda folder: (folder / CONFIG).write_text(json.dumps(json.loads((folder / CONFIG).read_text()) | values))


def lacking(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


BROKEN: dict[str, tuple[Breaks, str]] = {
    "no tokenizer": (without("*token*"), "no tokenizer"),
    "tokenizer not JSON": (holding("tokenizer.json", "{"), "tokenizer in .* cannot be read"),
    "tokenizer settings of a list": (holding("tokenizer_config.json", "[1]"), "tokenizer in .* cannot be read"),
    "tensor missing": (lacking, "missing 1 tensor.*layers.1.mlp.up_proj"),
    "own code": (edited(model_type="mine", auto_map={"AutoModel": "m.M"}), "own Python code"),
    "unknown type": (edited(model_type="mine"), "`mine`.*Update transformers"),
    "no type": (holding(CONFIG, "{}"), "Should have a .model_type"),
    "translator": (edited(model_type="t5", architectures=["T5ForConditionalGeneration"]), "not a causal language model"),
    "no head": (edited(architectures=["LlamaModel"]), "not a causal language model"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_model_is_one_sentence(case: str, folder: Path) -> None:
    breaks, sentence = BROKEN[case]
    breaks(folder)
    with pytest.raises(UserError, match=sentence) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert "specchat-" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("field", ["_attn_implementation", "attn_implementation"])
def test_no_field_makes_transformers_fetch_native_code(field: str, folder: Path) -> None:
    edited(**{field: "owner/kernel"})(folder)
    assert load(folder).info.capabilities.tree
    assert not is_kernels_available()  # installed or not


USUAL = {"temperature": 0.6, "top_k": 20, "top_p": 0.95}
GENERATION: list[tuple[Any, dict[str, float]]] = [
    ({"do_sample": True, **USUAL, "min_p": 0}, USUAL),
    ({"do_sample": True, "top_p": 0.9}, {"temperature": 1.0, "top_p": 0.9}),
    ({"temperature": 0.6, "top_p": 0.9}, {}),  # transformers decodes it greedily too
    ({"do_sample": True, "temperature": "warm", "top_k": -1, "top_p": 7, "repetition_penalty": True}, {}),
    (["no", "table"], {}),
]
"""generation_config.json, and the sampling that it recommends."""


def test_sampling_that_a_file_recommends(tmp_path: Path) -> None:
    assert read_recommended(tmp_path) == {}
    for config, expected in GENERATION:
        (tmp_path / "generation_config.json").write_text(json.dumps(config))
        assert read_recommended(tmp_path) == expected
    metadata = {
        "general.sampling.temp": 0.6000000238418579,
        "general.sampling.top_k": 20,
        "general.sampling.penalty_repeat": 1.0,
    }
    assert recommended(metadata, GGUF) == {"temperature": 0.6, "top_k": 20}


def test_parameters_of_ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "qwen3" / "4b"
    manifest.parent.mkdir(parents=True)
    assert parameters("ollama:qwen3:4b") == {}
    digest = "0" * 64
    manifest.write_text(json.dumps({"layers": [{"mediaType": PARAMETERS, "digest": f"sha256:{digest}"}]}))
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / f"sha256-{digest}").write_text(
        json.dumps({"temperature": 0.6, "repeat_penalty": 1.1, "stop": ["<|im_end|>"]})
    )
    assert recommended(parameters("ollama:qwen3:4b"), OLLAMA) == {"temperature": 0.6, "repetition_penalty": 1.1}


TOKENS = tokens(builtin_gguf())


def test_a_file_that_is_changed_in_nothing_is_good(tmp_path: Path) -> None:
    file = changed(builtin_gguf(), tmp_path / "model.gguf", {"tokenizer.ggml.tokens": TOKENS})
    assert read_header(file).metadata == read_header(builtin_gguf()).metadata
    assert file.read_bytes() == builtin_gguf().read_bytes()


OTHER_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda file: None, "There is no file"), "empty": (lambda file: file.touch(), r"begins with b''"),
    "a page": (lambda file: file.write_bytes(b"<!DOCTYPE html>"), "is not a GGUF file of version 2 or 3"),
    "big-endian": (lambda file: file.write_bytes(b"GGUF\0\0\0\x03"), "is not a GGUF file of version 2 or 3"),
    "a pipe": (os.mkfifo, "not a regular file"),
    "cut": (lambda file: file.write_bytes(builtin_gguf().read_bytes()[:-1]), "is damaged or incomplete"),
    "adapter": (lambda file: changed(builtin_gguf(), file, {"general.type": "adapter"}), "no language model .*type adapter"),
    "no tokenizer": (lambda file: changed(builtin_gguf(), file, {"tokenizer.ggml.model": None}), "no language model with"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_FILES)
def test_what_is_no_gguf_model_is_a_sentence(case: str, tmp_path: Path) -> None:
    write, sentence = OTHER_FILES[case]
    write(tmp_path / "model.gguf")
    with pytest.raises(UserError, match=sentence) as caught:
        read_header(tmp_path / "model.gguf")
    assert read_card(tmp_path / "model.gguf").problem == str(caught.value)


TRIED = 30 if FULL else 10


def mutated(data: bytes, end: int, rng: Random) -> bytes:
    """Bytes below `end` changed, in one to four places."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(end)
        match rng.randrange(4):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at : at + 8] = rng.choice([0, 1, 255, 2**31, 2**63 - 1, 2**64 - 1]).to_bytes(8, "little")
            case 2:
                del out[at : at + rng.randint(1, 16)]
            case _:
                out[at:at] = out[at : at + rng.randint(1, 16)]
    return bytes(out)


def test_files_that_chance_has_changed_never_end_the_list(tmp_path: Path) -> None:
    rng, source = Random(1), gguf_of(llama_folder())
    (layout,) = read_layout(source)
    data, end = source.read_bytes(), min(tensor.begin for tensor in layout.tensors)
    # Half of them among the figures at the beginning, where there is more to break than in words.
    figures, file = data.find(b"tokenizer.ggml.tokens"), tmp_path / "model.gguf"
    for seed in range(20 * TRIED):
        file.write_bytes(mutated(data, figures if seed % 2 else end, rng))
        with suppress(UserError):
            read_header(file)
        read_card(file)
    folder = minimal(tmp_path / "folder")
    for name in (WEIGHTS, CONFIG):
        whole = (folder / name).read_bytes()
        for _ in range(5 * TRIED):
            (folder / name).write_bytes(mutated(whole, len(whole) // 2, rng))
            with suppress(UserError):
                check_folder(folder)
            read_card(folder)
        (folder / name).write_bytes(whole)


def test_a_changed_template_is_a_text_or_a_sentence() -> None:
    rng = Random(1)
    for name in [*FAMILIES] * (TRIED // 10):
        source = FAMILIES[name].template.encode()
        template = Template(mutated(source, len(source), rng).decode("utf-8", "replace"), NAMES)
        sentence = "."
        try:
            template.render([{"role": "user", "content": "hi"}])
        except UserError as error:
            sentence = str(error)
        assert re.fullmatch(r".*\.", sentence), name
