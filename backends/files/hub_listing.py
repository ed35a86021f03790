"""What a repository on the Hub offers: its weights in safetensors, or its GGUF files by quantization, with their sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .hub_files import IGNORED, PART, Listed, files_of, matches, one_line, plain_files, repository_folder
from .model_card import config_cache_numbers, config_context, quantization_in

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1}
"""Bytes of a number of each type, as the Hub counts a repository's parameters."""

MOST_SIZE = 10**15
"""Bytes of a file, or numbers of a model, that can be meant."""

MOST_GGUF = 500
"""GGUF files that are told apart; the largest collections have some hundred."""

MOST_WORDS = 8
"""Words at the end of a file's name that it can be told apart by."""

MOST_WORD = 40
"""Characters of a word from elsewhere that is shown in a row."""


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
    """Numbers in its KV cache for each token, as in a model's card; 0 where nothing tells."""
    gated: bool = False
    offers: tuple[Offer, ...] = ()
    remark: str = ""
    """What is to be said where it offers nothing."""


def describe(name: str, told: Any, files: Mapping[str, Listed], config: Mapping[str, Any]) -> Repository:
    """What a repository offers.

    Args:
        told: huggingface_hub's ModelInfo, of which nothing is believed.
        files: what it says of files.
        config: the repository's config.json; empty where it cannot be had, as in a gated one.
    """
    gguf = told.gguf if isinstance(told.gguf, dict) else {}
    parameters = getattr(told.safetensors, "parameters", None)
    offers = [*_safetensors(name, told.sha, files, parameters if isinstance(parameters, dict) else {})]
    offers += _ggufs(name, told.sha, files)
    return Repository(
        name,
        told.sha,
        one_line(config.get("model_type") or gguf.get("architecture") or "")[:MOST_WORD],
        _count(getattr(told.safetensors, "total", 0)) or _count(gguf.get("total")),
        config_context(config) or _count(gguf.get("context_length")),
        config_cache_numbers(config),
        bool(told.gated),
        tuple(offers),
        "" if offers else _nothing(files),
    )


def _count(told: Any) -> int:
    return told if isinstance(told, int) and 0 <= told <= MOST_SIZE else 0


def _nothing(files: Mapping[str, Any]) -> str:
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in files):
        return "It has only pickled weights, which can run code when opened, so specchat does not open them."
    return "It has neither safetensors weights nor GGUF files."


def _safetensors(name: str, commit: str, files: Mapping[str, Listed], parameters: Mapping[str, Any]) -> list[Offer]:
    wanted = plain_files(files)
    weights = [file for file in wanted if file.endswith(".safetensors")]
    if not weights:
        return []
    kinds = {kind: _count(number) for kind, number in parameters.items()}
    most = one_line(max(kinds, key=lambda kind: kinds[kind] * BYTES.get(kind, 1)))[:MOST_WORD] if kinds else ""
    return [_offer(name, commit, files, name, "safetensors", most, wanted, weights)]


def _ggufs(name: str, commit: str, files: Mapping[str, Listed]) -> list[Offer]:
    groups: dict[str, list[str]] = {}
    models = [file for file in files if file.endswith(".gguf") and not matches(file.rpartition("/")[2], IGNORED)][:MOST_GGUF]
    for file in models:
        groups.setdefault(PART.sub("", file.removesuffix(".gguf")), []).append(file)
    out: dict[str, Offer] = {}
    # The plain one of several (model-Q8_0 beside model-UD-Q8_0) has the short name.
    for stem in sorted(groups, key=lambda stem: (len(stem), stem)):
        kind = quantization_in(stem.rpartition("/")[2])
        last = re.split(r"[-./]", stem)
        for words in range(1, min(len(last), MOST_WORDS) + 1):
            short = "-".join(last[-words:]) if words > 1 else (kind or last[-1])
            if short.upper() not in out and files_of(short, models) == sorted(groups[stem]):
                spec = f"{name}:{short}"
                out[short.upper()] = _offer(name, commit, files, spec, "gguf", kind or short, groups[stem], groups[stem])
                break
    return sorted(out.values(), key=lambda offer: (offer.weights, offer.spec))


def _offer(
    name: str,
    commit: str,
    files: Mapping[str, Listed],
    spec: str,
    kind: Literal["safetensors", "gguf"],
    quantization: str,
    wanted: list[str],
    weights: list[str],
) -> Offer:
    folder = repository_folder(name)
    return Offer(
        spec,
        kind,
        quantization,
        tuple(sorted(wanted)),
        sum(files[file].size for file in wanted),
        sum(files[file].size for file in weights),
        sum(files[file].there(folder, commit, file) for file in wanted),
    )
