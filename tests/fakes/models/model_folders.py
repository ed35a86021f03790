"""A home with models in the places where other programs keep them, all of them tiny."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.loading import builtin_gguf, builtin_path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(8, "little") + data


def write_gguf(file: Path, *, tokens: Sequence[str] = ("a", "b"), architecture: str = "llama", rows: int = 64) -> Path:
    """A GGUF file with one tensor of `rows` × 64 numbers in F32."""

    def text(key: str, value: str) -> bytes:
        return string(key) + (8).to_bytes(4, "little") + string(value)

    def number(key: str, value: int) -> bytes:
        return string(key) + (4).to_bytes(4, "little") + value.to_bytes(4, "little")

    def strings(key: str, values: Sequence[str]) -> bytes:
        head = string(key) + (9).to_bytes(4, "little") + (8).to_bytes(4, "little") + len(values).to_bytes(8, "little")
        return head + b"".join(string(value) for value in values)

    pairs = [
        text("general.architecture", architecture), number("general.file_type", 15), text("tokenizer.ggml.model", "gpt2"),
        strings("tokenizer.ggml.tokens", tokens), number(f"{architecture}.context_length", 4096),
        number(f"{architecture}.block_count", 2), number(f"{architecture}.embedding_length", 64),
        number(f"{architecture}.attention.head_count", 4), number(f"{architecture}.attention.head_count_kv", 2),
    ]  # fmt: skip
    tensor = string("token_embd.weight") + (2).to_bytes(4, "little")
    tensor += (64).to_bytes(8, "little") + rows.to_bytes(8, "little") + (0).to_bytes(4, "little") + (0).to_bytes(8, "little")
    head = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + len(pairs).to_bytes(8, "little")
    body = head + b"".join(pairs) + tensor
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(body + bytes(-len(body) % 32) + bytes(64 * rows * 4))
    return file


def write_folder(folder: Path, *, shrink: bool = False, **config: Any) -> Path:
    """The built-in model, or its draft model, as a folder of another name."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in builtin_path("builtin-draft" if shrink else "builtin").iterdir():
        shutil.copy(file, folder)
    described = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(described))
    return folder


def write_hub(cache: Path, name: str) -> Path:
    """An empty snapshot of a repository in huggingface_hub's cache."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


def write_ollama(models: Path, name: str, tag: str, file: Path, namespace: str = "library") -> Path:
    """A GGUF file as Ollama keeps it."""
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    blob = models / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(data)
    manifest = models / "manifests" / "registry.ollama.ai" / namespace / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return blob


def make_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with models; returns it. Nothing outside it is looked into."""
    for name, place in {
        "HOME": home,
        "SPECCHAT_DATA": home / "data",
        "SPECCHAT_CACHE": home / "cache",
        "HF_HUB_CACHE": home / "hub",
        "OLLAMA_MODELS": home / "ollama",
    }.items():
        place.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv(name, str(place))
    folder = home / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("specchat.app.models.memory.gpu_free", lambda: 0)
    snapshot = write_hub(home / "hub", "lantern/Lighthouse-Instruct")
    write_folder(snapshot)
    write_folder(write_hub(home / "hub", "lantern/Lighthouse-Tiny"), shrink=True, model_type="qwen3")
    quantized = write_hub(home / "hub", "lantern/Lighthouse-GGUF")
    shutil.copy(builtin_gguf("builtin").with_name("target-Q4_0.gguf"), quantized / "Lighthouse-Q4_0.gguf")
    write_gguf(home / ".lmstudio" / "models" / "harbour" / "Gull-GGUF" / "Gull-Q4_K_M.gguf", architecture="gemma3", rows=4096)
    write_gguf(home / "x.gguf", tokens=("c", "d"), architecture="mistral", rows=2048)
    write_ollama(home / "ollama", "pilot", "3b", home / "x.gguf")
    (folder / "damaged-Q8_0.gguf").write_bytes((home / "x.gguf").read_bytes()[:5000])
    (home / "x.gguf").unlink()
    return home
