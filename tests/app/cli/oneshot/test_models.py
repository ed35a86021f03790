"""`specchat run` with real model folders: the built-in one answers, and each broken one is a clear sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.backends import LoadOptions, UserError, load_model
from specchat.backends.loading import builtin_path

# Each command waits seconds for torch.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (builtin_path() / "model.safetensors").exists(), reason="the built-in model is not there"),
]


def run(where: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`specchat run` in a process of its own, offline."""
    environment = {
        **os.environ,
        "SPECCHAT_CONFIG": str(where),
        "SPECCHAT_LOG": str(where / "engine.log"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "specchat", "run", *args]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def _copy(where: Path, *left_out: str) -> str:
    """A copy of the built-in model without some files."""
    shutil.copytree(builtin_path(), where / "model", ignore=shutil.ignore_patterns(*left_out))
    return str(where / "model")


def _truncated(where: Path) -> str:
    folder = _copy(where)
    os.truncate(where / "model" / "model.safetensors", 1_000_000)
    return folder


def _empty(where: Path) -> str:
    (where / "model").mkdir()
    return str(where / "model")


def _pickled(where: Path) -> str:
    folder = _copy(where, "*.safetensors")
    (where / "model" / "pytorch_model.bin").write_bytes(b"\x80\x02cos\nsystem\n")
    return folder


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda where: "no-such-model", "There is no model 'no-such-model'"),
        (_empty, "is empty"),
        (_truncated, "model.safetensors is damaged or incomplete"),
        (_pickled, "only pickled weights"),
        (lambda where: _copy(where, "tokenizer*", "chat_template*"), "tokenizer"),
    ],
    ids=["unknown name", "empty folder", "truncated", "pickled", "no tokenizer"],
)
def test_what_a_model_lacks_is_said(tmp_path: Path, make: Callable[[Path], str], said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        load_model(make(tmp_path), LoadOptions(device="cpu"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda where: "nobody/nothing", "nobody/nothing is not in the cache"),
        (_truncated, "model.safetensors is damaged or incomplete"),
    ],
    ids=["not in the cache", "truncated"],
)
def test_a_model_that_cannot_be_loaded_is_one_sentence(tmp_path: Path, make: Callable[[Path], str], said: str) -> None:
    done = run(tmp_path, "x", "--model", make(tmp_path))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr
    assert done.stderr.startswith("specchat: ")
    assert done.stderr.count("\n") == 1


def test_a_prompt_longer_than_the_context_is_one_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, "word " * 40, "--context", "32")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the context holds 32" in done.stderr


def test_the_built_in_model_answers(tmp_path: Path) -> None:
    done = run(tmp_path, "Hello", "--max-tokens", "12", "--json", "--threads", "1")
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    # On llama.cpp where that is installed and the model is there as a GGUF file.
    assert (data["model"], data["backend"]) in (("builtin", "transformers"), ("builtin", "llama.cpp"))
    assert 1 <= data["tokens"] <= 12
    assert sum(data["runs"]) == data["tokens"]
    assert data["decode_seconds"] > 0
