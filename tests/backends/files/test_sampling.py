"""The sampling that a model's makers recommend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.files.ollama import PARAMETERS, parameters
from specchat.backends.files.sampling import GGUF, OLLAMA, of_folder, recommended


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (
            {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0},
            {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
        ),
        ({"do_sample": True, "top_p": 0.9}, {"temperature": 1.0, "top_p": 0.9}),
        ({"temperature": 0.6, "top_p": 0.9}, {}),  # transformers decodes it greedily too
        ({"do_sample": True, "temperature": "warm", "top_k": -1, "top_p": 7, "repetition_penalty": True}, {}),
        (["no", "table"], {}),
    ],
)
def test_generation_config(tmp_path: Path, told: Any, found: dict[str, float]) -> None:
    assert of_folder(tmp_path) == {}
    (tmp_path / "generation_config.json").write_text(json.dumps(told))
    assert of_folder(tmp_path) == found


def test_metadata_of_a_gguf_file() -> None:
    told = {"general.sampling.temp": 0.6000000238418579, "general.sampling.top_k": 20, "general.sampling.penalty_repeat": 1.0}
    assert recommended(told, GGUF) == {"temperature": 0.6, "top_k": 20}


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
