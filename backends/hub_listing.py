"""What a repository on the Hub offers: its weights in safetensors, or its GGUF files by quantization, with their sizes."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .gguf_hub import IGNORED, PART, files_of
from .hub import UNWANTED, WANTED, sentences
from .hub_transfer import PART as INCOMPLETE
from .model_card import MOST_CONFIG, config_cache_numbers, config_context, parse_config, quantization_in

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1}
"""Of a number of each type, as the Hub counts a repository's parameters."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to have a model."""

    spec: str
    """What loads it: `owner/name`, or `owner/name:Q4_K_M`."""
    kind: Literal["safetensors", "gguf"]
    quantization: str
    files: tuple[str, ...]
    size: int
    """Bytes of all its files."""
    weights: int
    """Bytes of its weights."""
    there: int
    """Bytes of them that are in the cache already."""

    @property
    def here(self) -> bool:
        """Whether nothing is left to fetch."""
        return self.there >= self.size


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on the Hub."""

    name: str
    commit: str
    architecture: str = ""
    parameters: int = 0
    context: int = 0
    cache_numbers: int = 0
    """As in a model's card; 0 where nothing tells."""
    gated: bool = False
    offers: tuple[Offer, ...] = ()
    remark: str = ""
    """What is to be said where it offers nothing."""


def look_up(name: str, revision: str | None = None) -> Repository:
    """Ask the Hub what a repository holds. Blocks; `owner/name:QUANTIZATION` leaves out the quantization.

    Raises:
        UserError: there is no such repository, it may not be read, or the Hub cannot be reached.
    """
    from huggingface_hub import HfApi

    name = name.partition(":")[0]
    with sentences(name, revision):
        info = HfApi().model_info(name, revision=revision, files_metadata=True, timeout=10)
    commit = str(info.sha or "")
    files = {
        file.rfilename: (file.size or 0, file.lfs.sha256 if file.lfs else file.blob_id or "") for file in info.siblings or ()
    }
    config = _config(name, commit) if "config.json" in files else {}
    gguf: Any = info.gguf if isinstance(getattr(info, "gguf", None), Mapping) else {}
    count = getattr(info.safetensors, "total", 0) if info.safetensors else gguf.get("total", 0)
    offers = [*_safetensors(name, commit, files, info), *_ggufs(name, commit, files)]
    return Repository(
        name,
        commit,
        str(config.get("model_type") or gguf.get("architecture") or ""),
        count if isinstance(count, int) else 0,
        config_context(config) or (gguf["context_length"] if isinstance(gguf.get("context_length"), int) else 0),
        config_cache_numbers(config),
        bool(info.gated),
        tuple(offers),
        "" if offers else _nothing(files),
    )


def _nothing(files: Mapping[str, Any]) -> str:
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in files):
        return "It has pickled weights only, which can run code when they are opened, so specchat does not open them."
    return "It has neither safetensors weights nor GGUF files."


def _config(name: str, commit: str) -> dict[str, Any]:
    """The repository's config.json; empty where it cannot be had, as in a gated one."""
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    from .hub_transfer import http_error

    try:
        url = hf_hub_url(name, "config.json", revision=commit)
        with get_session().stream("GET", url, headers=build_hf_headers(), timeout=10) as answer:
            data = b""
            for chunk in answer.iter_bytes():
                data += chunk
                if len(data) > MOST_CONFIG:
                    return {}
        return parse_config(data) if answer.status_code == 200 else {}
    except (http_error(), OSError, ValueError, RecursionError):
        return {}


def _safetensors(name: str, commit: str, files: Mapping[str, tuple[int, str]], info: Any) -> list[Offer]:
    wanted = [file for file in files if _matches(file, WANTED) and not _matches(file, UNWANTED)]
    weights = [file for file in wanted if file.endswith(".safetensors")]
    if not weights:
        return []
    kinds = getattr(info.safetensors, "parameters", None) if info.safetensors else None
    most = max(kinds, key=lambda kind: kinds[kind] * BYTES.get(kind, 1)) if isinstance(kinds, dict) and kinds else ""
    return [_offer(name, name, commit, "safetensors", str(most), wanted, weights, files)]


def _ggufs(name: str, commit: str, files: Mapping[str, tuple[int, str]]) -> list[Offer]:
    groups: dict[str, list[str]] = {}
    for file in files:
        if file.endswith(".gguf") and not _matches(file.rpartition("/")[2], IGNORED):
            groups.setdefault(PART.sub("", file.removesuffix(".gguf")), []).append(file)
    out: dict[str, Offer] = {}
    # The plain one of several (model-Q8_0 beside model-UD-Q8_0) has the short name.
    for stem in sorted(groups, key=lambda stem: (len(stem), stem)):
        kind = quantization_in(stem.rpartition("/")[2])
        last = re.split(r"[-./]", stem)
        for words in range(1, len(last) + 1):
            short = "-".join(last[-words:]) if words > 1 else (kind or last[-1])
            if short.upper() not in out and files_of(short, files) == sorted(groups[stem]):
                spec = f"{name}:{short}"
                out[short.upper()] = _offer(spec, name, commit, "gguf", kind or short, groups[stem], groups[stem], files)
                break
    return sorted(out.values(), key=lambda offer: (offer.weights, offer.spec))


def _matches(file: str, wanted: Any) -> bool:
    return any(fnmatch.fnmatchcase(file, pattern) for pattern in wanted)


def _offer(
    spec: str,
    repository: str,
    commit: str,
    kind: Literal["safetensors", "gguf"],
    quantization: str,
    wanted: list[str],
    weights: list[str],
    files: Mapping[str, tuple[int, str]],
) -> Offer:
    return Offer(
        spec,
        kind,
        quantization,
        tuple(sorted(wanted)),
        sum(files[file][0] for file in wanted),
        sum(files[file][0] for file in weights),
        sum(_there(repository, commit, file, *files[file]) for file in wanted),
    )


def _there(name: str, commit: str, file: str, size: int, etag: str) -> int:
    """Bytes of a file that are in the cache."""
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.file_download import repo_folder_name

    if isinstance(try_to_load_from_cache(name, file, revision=commit), str):
        return size
    blobs = Path(constants.HF_HUB_CACHE).expanduser() / repo_folder_name(repo_id=name, repo_type="model") / "blobs"
    with suppress(OSError):
        if etag:
            if (blobs / etag).exists():
                return size
            return min(size, (blobs / f"{etag}{INCOMPLETE}").stat().st_size)
    return 0
