"""Files with something changed by chance, each loaded in a process of its own: it loads, or there is one sentence. None takes
more than 1.5 GB or 10 s, or ends the process without the cause in its log."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import pytest

from specchat.backends import LoadOptions, UserError, load_model
from specchat.backends.chat_template import Template
from specchat.backends.files.gguf_file import read_layout
from specchat.engine.failures import LAST_WORDS

from ...cases import FULL
from ...fakes.models.llama_tiny import gguf_of, needs_llama, tiny_folder
from ...fakes.models.thinkers import FAMILIES, NAMES

HEADERS, FOLDERS, TEMPLATES = (300, 120, 30) if FULL else (12, 8, 10)
MOST_BYTES = 1.5e9
MOST_SECONDS = 30
"""Of processor time, after which the system ends a load that goes on and on."""

ODD: tuple[Any, ...] = (-1, 0, 1, 3, 2**31, 2**63, 1e308, "", "x" * 1000, None, True, [], {}, [[[]]], [0] * 1000, {"a": "b"})


def cut(data: bytes, end: int, rng: Random) -> bytes:
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
        return rng.choice(ODD)
    at = rng.choice([*value]) if isinstance(value, dict) else rng.randrange(len(value))
    out: Any = value.copy()
    if rng.random() < 0.2:
        del out[at]
    else:
        out[at] = reworded(value[at], rng)
    return out


def _load(pipe: Connection, path: str, log: str) -> None:
    """Load a model, and send how that ended."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    said = ""
    try:
        load_model(path, LoadOptions(device="cpu", threads=1, context=64))
    except UserError as error:
        said = str(error)
    except BaseException as error:
        said = f"no sentence: {type(error).__name__}: {error}"
    pipe.send((said, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


def loaded(path: Path, log: Path) -> None:
    """Check how a load ends."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["specchat.backends.hf.model", "specchat.backends.llama.model", __name__])
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_load, args=(theirs, str(path), str(log)))
    process.start()
    theirs.close()
    try:
        said, most = ours.recv()
    except EOFError:
        process.join()
        words = log.read_text(errors="replace")
        assert process.exitcode == -6, (process.exitcode, words[-1000:])
        assert LAST_WORDS.search(words), words[-1000:]
        return
    process.join()
    assert not said.startswith("no sentence"), said
    assert "\n" not in said
    assert not said or said.endswith("."), said
    assert most < MOST_BYTES, said


@needs_llama
@pytest.mark.parametrize("seed", range(HEADERS))
def test_a_gguf_file_with_a_changed_header(seed: int, tmp_path: Path) -> None:
    rng, source = Random(seed), gguf_of(tiny_folder())
    (layout,) = read_layout(source)
    data, end = source.read_bytes(), min(tensor.begin for tensor in layout.tensors)
    figures = data.find(b"tokenizer.ggml.tokens")
    # Half of them among the figures at the beginning and the tensors at the end, where there is more to break than in words.
    file = tmp_path / "model.gguf"
    file.write_bytes(cut(data, figures if seed % 2 and figures > 0 else end, rng))
    loaded(file, tmp_path / "log")


@pytest.mark.parametrize("seed", range(FOLDERS))
def test_a_folder_with_a_changed_file(seed: int, tmp_path: Path) -> None:
    rng, folder = Random(seed), Path(shutil.copytree(tiny_folder(), tmp_path / "model"))
    names = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
    file = folder / names[seed % len(names)]
    data = file.read_bytes()
    if file.suffix == ".safetensors":
        file.write_bytes(cut(data, 8 + int.from_bytes(data[:8], "little"), rng))
    elif rng.random() < 0.3:
        file.write_bytes(cut(data, len(data), rng))
    else:
        file.write_text(json.dumps(reworded(json.loads(data), rng)))
    loaded(folder, tmp_path / "log")


@pytest.mark.parametrize("seed", range(TEMPLATES))
def test_a_changed_template(seed: int) -> None:
    rng = Random(seed)
    source = FAMILIES[rng.choice([*FAMILIES])].template.encode()
    template = Template(cut(source, len(source), rng).decode("utf-8", "replace"), NAMES)
    try:
        template.render([{"role": "user", "content": "hi"}])
        said = "."
    except UserError as error:
        said = str(error)
    assert "\n" not in said
    assert said.endswith(".")
