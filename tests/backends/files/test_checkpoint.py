"""Model files that are broken, made to do harm, or changed by chance: each is one sentence, and no pickle is ever opened."""

from __future__ import annotations

import io
import json
import math
import multiprocessing
import os
import pickle
import re
import resource
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
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
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.engine.failures import LAST_WORDS

from ...cases import FULL
from ...fakes.models.gguf_changes import changed, tokens
from ...fakes.models.llama_tiny import gguf_of, needs_llama
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


def replaced(name: str, make: Callable[[Path], Any]) -> Breaks:
    def breaks(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return breaks


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**13)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


LISTS = b"[" + b"[]," * 1_500_001 + b"[]]"
"""4.5 MB that become 100."""

DAMAGED, FILES = "is damaged", "does not list the weight files"

HOSTILE: dict[str, tuple[Breaks, str]] = {
    "no offsets": (weights(tensor(data_offsets=None)), DAMAGED),
    "offsets of text": (weights(tensor(data_offsets=["0", "8"])), DAMAGED),
    "one offset": (weights(tensor(data_offsets=[8])), DAMAGED), "a tensor of null": (weights(raw({"a": None})), DAMAGED),
    "header of null": (weights(raw(None)), DAMAGED), "header of a list": (weights(raw([1])), DAMAGED),
    "header nested deep": (weights(raw(b"[" * 100_000)), DAMAGED),
    "header of a terabyte": (weights((10**12).to_bytes(8, "little") + b"{}"), DAMAGED),
    "weights are a pipe": (replaced(WEIGHTS, os.mkfifo), "not a regular file"),
    "weights are a folder": (replaced(WEIGHTS, Path.mkdir), "Is a directory"),
    "weights lead to themselves": (replaced(WEIGHTS, loop), "Too many levels"),
    "weights are a device": (replaced(WEIGHTS, lambda path: path.symlink_to("/dev/zero")), "not a regular file"),
    "weights of nothing": (replaced(WEIGHTS, sparse), DAMAGED), "index of a list": (index([WEIGHTS]), FILES),
    "index of numbers": (index({"a": 1}), FILES), "index of lists": (index({"a": [WEIGHTS]}), FILES),
    "index of null": (index(None), FILES), "index leads out": (index({"a": "../other/model.safetensors"}), FILES),
    "index leads nowhere": (index({"a": ".."}), FILES),
    "index nested deep": (holding(INDEX, '{"weight_map":' * 100_000), "not valid JSON"),
    "index is a pipe": (replaced(INDEX, os.mkfifo), "not a regular file"),
    "index names a pickle": (lambda f: ((f / "w.bin").write_bytes(pickle.dumps({})), index({"a": "w.bin"})(f)), DAMAGED),
    "a pickle called safetensors": (weights(pickle.dumps({"a": 1})), DAMAGED),
    "config nested deep": (holding(CONFIG, '{"a":' * 100_000), "not valid JSON"),
    "an index of empty lists": (lambda f: (f / INDEX).write_bytes(LISTS), "holds more than 3 million values"),
    "a header of empty lists": (weights(raw(LISTS)), "holds more than"),
    "a config of empty lists": (lambda f: (f / CONFIG).write_bytes(LISTS), "holds more than"),
    "tokenizer settings of empty lists": (lambda f: (f / "tokenizer_config.json").write_bytes(LISTS), "holds more than"),
    "config of a list": (holding(CONFIG, "[]"), "not a JSON object"),
    "config is a pipe": (replaced(CONFIG, os.mkfifo), "not a regular file"),
    "config is a folder": (replaced(CONFIG, Path.mkdir), "Is a directory"),
    "config leads to itself": (replaced(CONFIG, loop), "has no config.json"),
    "config without end": (replaced(CONFIG, sparse), "larger than"),
    "tokenizer is a pipe": (replaced("tokenizer.json", os.mkfifo), "not a regular file"),
    "tokenizer without end": (replaced("tokenizer.json", sparse), "larger than"),
    "template is a pipe": (replaced("chat_template.jinja", os.mkfifo), "not a regular file"),
    "generation is a pipe": (replaced("generation_config.json", os.mkfifo), "not a regular file"),
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


def tokenizer(**changes: Any) -> str:
    return json.dumps(json.loads((builtin_path("builtin") / "tokenizer.json").read_text()) | changes)


DOUBLING = {"type": "Replace", "pattern": {"String": "zqx"}, "content": "zqxzqx"}
GROWING = {"type": "Sequence", "normalizers": [DOUBLING] * 36}
ENDLESS = {"type": "Split", "pattern": {"Regex": "(x+x+)+z"}, "behavior": "Isolated", "invert": False}


def edited(**values: Any) -> Breaks:
    return lambda folder: (folder / CONFIG).write_text(json.dumps(json.loads((folder / CONFIG).read_text()) | values))


def without(pattern: str) -> Breaks:
    return lambda folder: list(map(os.unlink, folder.glob(pattern)))


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02.")


def lacking(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def shards_missing(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    index({"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"})(folder)


BROKEN: dict[str, tuple[Breaks, str]] = {
    "nothing there": (shutil.rmtree, "There is no folder"), "empty folder": (without("*"), "is empty"),
    "no config": (without(CONFIG), "no config.json"), "config not JSON": (holding(CONFIG, "{"), "not valid JSON"),
    "no weights": (without(WEIGHTS), "no weights"),
    "truncated": (lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-100]), "incomplete"),
    "cut in the header": (weights(b"\x10\0\0"), "incomplete"),
    "pickles only": (pickled, "only pickled weights.*weights_only"), "no tokenizer": (without("*token*"), "no tokenizer"),
    "tokenizer not JSON": (holding("tokenizer.json", "{"), "cannot be read"),
    "tensor missing": (lacking, "missing 1 tensor.*layers.1.mlp.up_proj"),
    "shard missing": (shards_missing, "is missing 2 of 2 weight files"),
    "own code": (edited(model_type="mine", auto_map={"AutoModel": "m.M"}), "own Python code"),
    "unknown type": (edited(model_type="mine"), "'mine'.*Update transformers"),
    "no type": (holding(CONFIG, "{}"), "without a model_type"),
    "encoder": (edited(model_type="bert", architectures=["BertForMaskedLM"]), "not a causal language model"),
    "translator": (edited(model_type="t5", architectures=["T5ForConditionalGeneration"]), "not a causal language model"),
    "no head": (edited(architectures=["LlamaModel"]), "not a causal language model"),
    "tokenizer nested deep": (holding("tokenizer.json", "[" * 100_000), "tokenizer.json cannot be read"),
    "tokenizer of null": (holding("tokenizer.json", "null"), "tokenizer.json cannot be read"),
    "tokenizer that writes 70 GB": (holding("tokenizer.json", tokenizer(normalizer=GROWING)), "json .* too much memory"),
    "tokenizer that panics": (holding("tokenizer.json", tokenizer(pre_tokenizer=ENDLESS)), "tokenizer.json .*retry-limit"),
    "tokenizer settings nested deep": (holding("tokenizer_config.json", '{"a":' * 100_000), "tokenizer in"),
    "tokenizer settings of a list": (holding("tokenizer_config.json", "[1]"), "tokenizer in"),
    "generation nested deep": (holding("generation_config.json", '{"a":' * 100_000), "Cannot load"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_model_is_one_sentence(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks, sentence = BROKEN[case]
    if "that" in case:  # limits are constants, and made small
        monkeypatch.setattr("specchat.backends.files.checkpoint.TRIAL_SECONDS", 1.0)
        monkeypatch.setattr("specchat.backends.files.checkpoint.TRIAL_MEMORY", 200_000_000)
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

ODD_FILES: dict[str, tuple[dict[str, Any], str]] = {
    "alignment of 0": ({"general.alignment": 0}, "an alignment of 0"),
    "alignment of 2^31": ({"general.alignment": 1 << 31}, "incomplete"),
    "experts without end": ({"llama.expert_count": math.inf}, "is damaged .llama.expert_count is inf"),
    "a context of no number": ({"llama.context_length": math.nan}, "is damaged .llama.context_length is nan"),
    "numbers without end": ({"llama.rope.scaling": [1.0, -math.inf]}, "is damaged .llama.rope.scaling is"),
    "a norm of halves": ({"output_norm.weight": np.ones(256, np.float16)}, "is damaged .output_norm.weight is not in float32"),
    "a kind of several": ({"general.type": [b"adapter"], "tokenizer.ggml.model": None}, "contains no tokenizer"),
}


@pytest.mark.parametrize("case", ODD_FILES)
def test_what_cannot_be_read_is_a_sentence(case: str, tmp_path: Path) -> None:
    values, sentence = ODD_FILES[case]
    tensors = {name: values.pop(name) for name in [*values] if isinstance(values[name], np.ndarray)}
    file = changed(builtin_gguf(), tmp_path / "model.gguf", values, tensors)
    with pytest.raises(UserError, match=sentence) as caught:
        read_header(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@needs_llama
def test_a_name_that_is_no_utf8_loads(tmp_path: Path) -> None:
    file = shutil.copy(builtin_gguf(), tmp_path / os.fsdecode(b"m\xff.gguf"))
    assert load(Path(file)).info.path == str(file)


def test_a_file_that_is_changed_in_nothing_is_good(tmp_path: Path) -> None:
    file = changed(builtin_gguf(), tmp_path / "model.gguf", {"tokenizer.ggml.tokens": TOKENS})
    assert read_header(file).metadata == read_header(builtin_gguf()).metadata
    assert file.read_bytes() == builtin_gguf().read_bytes()


def test_pipes_and_devices_are_sentences(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    (tmp_path / "zero.gguf").symlink_to("/dev/zero")
    for name, sentence in (("pipe", "not a regular file"), ("loop", "There is no file"), ("zero", "not a regular file")):
        file = tmp_path / f"{name}.gguf"
        with pytest.raises(UserError, match=sentence):
            read_header(file)
        assert read_card(file).problem


@pytest.mark.parametrize("data", [b"", b"<!DOCTYPE html>", b"\xff\xfe\x00b\x00"])
def test_what_is_no_gguf_file_is_told_in_plain_words(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(UserError, match=re.escape(f"is not a GGUF file (it begins with {data[:4]!r}). Download it again")):
        read_header(tmp_path / "model.gguf")


HEADERS, FOLDERS, TRIED = (300, 120, 30) if FULL else (12, 8, 10)
MOST_BYTES = 1.5e9
MOST_SECONDS = 30
"""Seconds of processor time after which the system ends a load that goes on and on."""

ODD_VALUES: tuple[Any, ...] = (
    -1, 0, 1, 3, 2**31, 2**63, 1e308, "", "x" * 1000, None, True, [], {}, [[[]]], [0] * 1000, {"a": "b"},
)  # fmt: skip


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


def reworded(value: Any, rng: Random) -> Any:
    """JSON with one of its values changed, or left out."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(ODD_VALUES)
    at = rng.choice([*value]) if isinstance(value, dict) else rng.randrange(len(value))
    out: Any = value.copy()
    if rng.random() < 0.2:
        del out[at]
    else:
        out[at] = reworded(value[at], rng)
    return out


def _load(pipe: Connection, path: str, log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    sentence = ""
    try:
        load_model(path, LoadOptions(device="cpu", threads=1, context=64))
    except UserError as error:
        sentence = str(error)
    except BaseException as error:
        sentence = f"no sentence: {type(error).__name__}: {error}"
    pipe.send((sentence, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


def check_load(path: Path, log: Path) -> None:
    """Load in a new process: it loads, or there is one sentence. It takes no more than 1.5 GB, and where it ends the
    process the cause is in the log."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["specchat.backends.hf.model", "specchat.backends.llama.model", __name__])
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_load, args=(theirs, str(path), str(log)))
    process.start()
    theirs.close()
    try:
        sentence, most = ours.recv()
    except EOFError:
        process.join()
        words = log.read_text(errors="replace")
        assert process.exitcode == -6, (process.exitcode, words[-1000:])
        assert LAST_WORDS.search(words), words[-1000:]
        return
    process.join()
    assert not sentence.startswith("no sentence"), sentence
    assert "\n" not in sentence
    assert not sentence or sentence.endswith("."), sentence
    assert most < MOST_BYTES, sentence


@needs_llama
@pytest.mark.parametrize("seed", range(HEADERS))
def test_a_gguf_file_with_a_changed_header(seed: int, tmp_path: Path) -> None:
    rng, source = Random(seed), gguf_of(llama_folder())
    (layout,) = read_layout(source)
    data, end = source.read_bytes(), min(tensor.begin for tensor in layout.tensors)
    figures = data.find(b"tokenizer.ggml.tokens")
    # Half of them among the figures at the beginning and the tensors at the end, where there is more to break than in words.
    file = tmp_path / "model.gguf"
    for _ in range(16):  # the header alone is quick to read
        file.write_bytes(mutated(data, figures if seed % 2 and figures > 0 else end, rng))
        with suppress(UserError):
            read_header(file)
    check_load(file, tmp_path / "log")


@pytest.mark.parametrize("seed", range(FOLDERS))
def test_a_folder_with_a_changed_file(seed: int, tmp_path: Path) -> None:
    rng, folder = Random(seed), Path(shutil.copytree(llama_folder(), tmp_path / "model"))
    names = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
    file = folder / names[seed % len(names)]
    data = file.read_bytes()
    if file.suffix == ".safetensors":
        file.write_bytes(mutated(data, 8 + int.from_bytes(data[:8], "little"), rng))
    elif rng.random() < 0.3:
        file.write_bytes(mutated(data, len(data), rng))
    else:
        file.write_text(json.dumps(reworded(json.loads(data), rng)))
    check_load(folder, tmp_path / "log")


@pytest.mark.parametrize("seed", range(TRIED))
def test_a_changed_template(seed: int) -> None:
    rng = Random(seed)
    source = FAMILIES[rng.choice([*FAMILIES])].template.encode()
    template = Template(mutated(source, len(source), rng).decode("utf-8", "replace"), NAMES)
    try:
        template.render([{"role": "user", "content": "hi"}])
        sentence = "."
    except UserError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert sentence.endswith(".")
