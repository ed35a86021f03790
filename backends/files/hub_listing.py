"""The offers of a repository on the Hub: its weights in safetensors, or its GGUF files by quantization, with their sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from .checkpoint import ITEM_BYTES
from .hub_files import IGNORED, PART, files_of, matches, one_line, plain_files, repository_folder
from .model_card import config_cache_numbers, config_context, quantization_in

MOST_SIZE = 10**15
"""Highest plausible size of a file in bytes, or number of a model's parameters."""

MOST_GGUF = 500
"""GGUF files that are listed; the largest collections have some hundred."""

MOST_WORDS = 8
"""Words at the end of a file's name that may distinguish it."""

MOST_WORD = 40
"""Characters of a foreign word that are shown in a row."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One version of a model that can be fetched."""

    spec: str
    """The name that loads it: `owner/name`, or `owner/name:Q4_K_M`."""
    kind: Literal["safetensors", "gguf"]
    quantization: str
    files: tuple[str, ...]
    size: int
    """Bytes of all its files."""
    weights: int
    """Bytes of its weights."""
    cached: int
    """Bytes of all its files that are in the cache."""

    @property
    def here(self) -> bool:
        """Whether nothing is left to fetch."""
        return self.cached >= self.size


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on the Hub."""

    name: str
    commit: str
    architecture: str = ""
    parameters: int = 0
    context: int = 0
    cache_numbers: int = 0
    """Numbers in its KV cache for each token, as in a model's card; 0 if unknown."""
    gated: bool = False
    offers: tuple[Offer, ...] = ()
    remark: str = ""
    """The reason that it offers nothing, as a sentence."""


def describe(name: str, info: Any, files: Mapping[str, int], config: Mapping[str, Any]) -> Repository:
    """List the offers of a repository.

    Args:
        name: the repository's.
        info: huggingface_hub's ModelInfo; nothing in it is trusted.
        files: its files → bytes.
        config: the repository's config.json; empty if it cannot be read, as in a gated repository.
    """
    gguf = info.gguf if isinstance(info.gguf, dict) else {}
    parameters = getattr(info.safetensors, "parameters", None)
    listing = _Listing(name, info.sha, files)
    offers = listing.safetensors(parameters if isinstance(parameters, dict) else {}) + listing.ggufs()
    return Repository(
        name=name,
        commit=info.sha,
        architecture=one_line(config.get("model_type") or gguf.get("architecture") or "")[:MOST_WORD],
        parameters=_count(getattr(info.safetensors, "total", 0)) or _count(gguf.get("total")),
        context=config_context(config) or _count(gguf.get("context_length")),
        cache_numbers=config_cache_numbers(config),
        gated=bool(info.gated),
        offers=tuple(offers),
        remark="" if offers else _nothing(files),
    )


def _count(number: Any) -> int:
    return number if isinstance(number, int) and 0 <= number <= MOST_SIZE else 0


def _nothing(files: Mapping[str, Any]) -> str:
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in files):
        return "It has only pickled weights, which can run code when opened, so specchat does not open them."
    return "It has neither safetensors weights nor GGUF files."


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of a repository at one commit."""

    name: str
    commit: str
    files: Mapping[str, int]

    def safetensors(self, parameters: Mapping[str, Any]) -> list[Offer]:
        """Offer the repository's weights in safetensors, if it has any."""
        files = plain_files(self.files)
        weights = [file for file in files if file.endswith(".safetensors")]
        if not weights:
            return []
        kinds = {kind: _count(number) for kind, number in parameters.items()}
        most = one_line(max(kinds, key=lambda kind: kinds[kind] * ITEM_BYTES.get(kind, 1)))[:MOST_WORD] if kinds else ""
        return [self._offer(self.name, "safetensors", most, files, weights)]

    def ggufs(self) -> list[Offer]:
        """Offer each quantization in GGUF, under the shortest name that leads to its files."""
        groups: dict[str, list[str]] = {}
        names = (file for file in self.files if file.endswith(".gguf") and not matches(file.rpartition("/")[2], IGNORED))
        models = list(islice(names, MOST_GGUF))
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
                    spec = f"{self.name}:{short}"
                    out[short.upper()] = self._offer(spec, "gguf", kind or short, groups[stem], groups[stem])
                    break
        return sorted(out.values(), key=lambda offer: (offer.weights, offer.spec))

    def _offer(
        self, spec: str, kind: Literal["safetensors", "gguf"], quantization: str, files: list[str], weights: list[str]
    ) -> Offer:
        snapshot = repository_folder(self.name) / "snapshots" / self.commit
        return Offer(
            spec=spec,
            kind=kind,
            quantization=quantization,
            files=tuple(sorted(files)),
            size=sum(self.files[file] for file in files),
            weights=sum(self.files[file] for file in weights),
            cached=sum(self.files[file] for file in files if (snapshot / file).exists()),
        )
