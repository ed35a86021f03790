"""The models that Ollama has fetched: `ollama:llama3.2:3b` is the GGUF file behind that name, if it may be read.

Ollama keeps manifests (`manifests/HOST/NAMESPACE/NAME/TAG`, JSON) and their files, named by SHA-256, in `blobs`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import UserError, shell_line
from ...plain_file import read_json, user_path

PREFIX = "ollama:"
HOST, NAMESPACE, TAG = "registry.ollama.ai", "library", "latest"
"""Defaults of the parts that a short name leaves out."""

MODEL = "application/vnd.ollama.image.model"
"""Media type of the weights."""

PARAMETERS = "application/vnd.ollama.image.params"
"""Media type of the parameters."""

SERVICE = Path("/usr/share/ollama/.ollama/models")
"""The folder of the service on Linux."""

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_PART = re.compile(r"[\w.-]+", re.ASCII)


def folders() -> list[Path]:
    """List the folders that may hold Ollama's models: OLLAMA_MODELS, else the user's and the service's."""
    if named := os.environ.get("OLLAMA_MODELS"):
        return [user_path(named)]
    return [Path("~/.ollama/models").expanduser(), SERVICE]


def listed(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the models in one of these folders: name (`ollama:…`) and GGUF file.

    Raises:
        OSError: the folder may not be read.
    """
    manifests = folder / "manifests"
    for host in sorted(manifests.iterdir()):
        for file in sorted(host.glob("*/*/*")):
            if (blob := _blob(folder, file)) is not None:
                yield _name(file.relative_to(manifests).parts), blob


def parameters(spec: str) -> dict[str, Any]:
    """Read Ollama's parameters of a fetched model (temperature, top_k …); empty if they cannot be read."""
    for folder in folders():
        with suppress(OSError, ValueError):
            if (blob := _blob(folder, folder.joinpath("manifests", *_whole(spec)), PARAMETERS)) is not None:
                content = read_json(blob)
                return content if isinstance(content, dict) else {}
    return {}


def _whole(spec: str) -> list[str]:
    """Split a model's name into host, namespace, name and tag."""
    name, _, tag = spec.removeprefix(PREFIX).partition(":")
    parts = name.split("/")
    return [*(HOST, NAMESPACE)[: 3 - len(parts)], *parts, tag or TAG]


def locate_ollama(spec: str) -> Path:
    """Find the GGUF file of a model that Ollama has fetched.

    Args:
        spec: `ollama:NAME` or `ollama:NAME:TAG`, with `NAMESPACE/` or `HOST/NAMESPACE/` in front if it is not Ollama's own.

    Raises:
        UserError: it is not there, or may not be read.
    """
    whole = _whole(spec)
    if len(whole) != 4 or not all(_PART.fullmatch(part) and part.strip(".") for part in whole):
        raise UserError(f"{spec!r} is not an Ollama model name. Write ollama:NAME:TAG, as shown by `ollama list`.")
    for folder in folders():
        if (blob := _blob(folder, folder.joinpath("manifests", *whole))) is not None:
            return blob
    name = spec.removeprefix(PREFIX)
    command = shell_line("ollama", "pull", name)
    raise UserError(f"Ollama does not have {name} here, where you may read it. Download it with `{command}`.")


def _blob(folder: Path, manifest: Path, kind: str = MODEL) -> Path | None:
    """Find the file of a media type that a manifest names; None if either is missing or cannot be read."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        for layer in read_json(manifest).get("layers", ()):
            digest = _DIGEST.fullmatch(str(layer.get("digest"))) if layer.get("mediaType") == kind else None
            if digest is not None and (blob := folder / "blobs" / f"sha256-{digest[1]}").is_file():
                return blob
    return None


def _name(parts: tuple[str, ...]) -> str:
    host, namespace, name, tag = parts
    if host == HOST:
        parts = (name,) if namespace == NAMESPACE else (namespace, name)
    else:
        parts = (host, namespace, name)
    return f"{PREFIX}{'/'.join(parts)}:{tag}"
