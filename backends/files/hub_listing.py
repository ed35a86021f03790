"""What a repository on the Hub offers: its weights in safetensors, or its GGUF files by quantization, with their sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import UserError
from .gguf_hub import IGNORED, PART, files_of
from .hub import UNWANTED, WANTED
from .hub_client import Broken, Session, Stopped, constants, one_line
from .hub_contents import MOST_SIZE, Contents, contents, matches
from .hub_transfer import PART as INCOMPLETE
from .hub_transfer import repository_folder
from .model_card import MOST_CONFIG, config_cache_numbers, config_context, parse_config, quantization_in

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1}
"""Of a number of each type, as the Hub counts a repository's parameters."""

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
    """As in a model's card; 0 where nothing tells."""
    gated: bool = False
    offers: tuple[Offer, ...] = ()
    remark: str = ""
    """What is to be said where it offers nothing."""


def look_up(name: str, revision: str | None = None, cancelled: Stopped | None = None) -> Repository:
    """Ask the Hub what a repository holds. Blocks; `owner/name:QUANTIZATION` leaves out the quantization.

    Args:
        cancelled: polled while nothing comes.

    Raises:
        UserError: there is no such repository, it may not be read, the Hub cannot be reached, or it answers nonsense.
        Cancelled: `cancelled` answered True.
    """
    name = name.partition(":")[0]
    with Session(cancelled) as session:
        there = contents(session, name, revision)
        config = _config(session, there) if "config.json" in there.files else {}
    info = there.told
    weights, gguf = _table(info.get("safetensors")), _table(info.get("gguf"))
    offers = [*_safetensors(there, weights), *_ggufs(there)]
    return Repository(
        name,
        there.commit,
        one_line(config.get("model_type") or gguf.get("architecture") or " ").strip()[:MOST_WORD],
        _count(weights.get("total")) or _count(gguf.get("total")),
        config_context(config) or _count(gguf.get("context_length")),
        config_cache_numbers(config),
        bool(info.get("gated")),
        tuple(offers),
        "" if offers else _nothing(there.files),
    )


def _table(told: Any) -> Mapping[str, Any]:
    return told if isinstance(told, Mapping) else {}


def _count(told: Any) -> int:
    return told if isinstance(told, int) and 0 <= told <= MOST_SIZE else 0


def _nothing(files: Mapping[str, Any]) -> str:
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in files):
        return "It has only pickled weights, which can run code when opened, so specchat does not open them."
    return "It has neither safetensors weights nor GGUF files."


def _config(session: Session, there: Contents) -> dict[str, Any]:
    """The repository's config.json; empty where it cannot be had, as in a gated one."""
    seconds = constants().HF_HUB_ETAG_TIMEOUT
    try:
        with session.asked(there.url("config.json"), seconds) as answer:
            return parse_config(session.body(answer, seconds, MOST_CONFIG)) if answer.status_code == 200 else {}
    except (Broken, UserError, ValueError, RecursionError):
        return {}


def _safetensors(there: Contents, told: Mapping[str, Any]) -> list[Offer]:
    wanted = there.chosen(WANTED, UNWANTED)
    weights = [file for file in wanted if file.endswith(".safetensors")]
    if not weights:
        return []
    kinds = {kind: _count(number) for kind, number in _table(told.get("parameters")).items()}
    most = one_line(max(kinds, key=lambda kind: kinds[kind] * BYTES.get(kind, 1)))[:MOST_WORD] if kinds else ""
    return [_offer(there, there.name, "safetensors", most, wanted, weights)]


def _ggufs(there: Contents) -> list[Offer]:
    groups: dict[str, list[str]] = {}
    files = [file for file in there.chosen(("*.gguf",), ()) if not matches(file.rpartition("/")[2], IGNORED)][:MOST_GGUF]
    for file in files:
        groups.setdefault(PART.sub("", file.removesuffix(".gguf")), []).append(file)
    out: dict[str, Offer] = {}
    # The plain one of several (model-Q8_0 beside model-UD-Q8_0) has the short name.
    for stem in sorted(groups, key=lambda stem: (len(stem), stem)):
        kind = quantization_in(stem.rpartition("/")[2])
        last = re.split(r"[-./]", stem)
        for words in range(1, min(len(last), MOST_WORDS) + 1):
            short = "-".join(last[-words:]) if words > 1 else (kind or last[-1])
            if short.upper() not in out and files_of(short, files) == sorted(groups[stem]):
                spec = f"{there.name}:{short}"
                out[short.upper()] = _offer(there, spec, "gguf", kind or short, groups[stem], groups[stem])
                break
    return sorted(out.values(), key=lambda offer: (offer.weights, offer.spec))


def _offer(
    there: Contents,
    spec: str,
    kind: Literal["safetensors", "gguf"],
    quantization: str,
    wanted: list[str],
    weights: list[str],
) -> Offer:
    return Offer(
        spec,
        kind,
        quantization,
        tuple(sorted(wanted)),
        sum(there.files[file].size or 0 for file in wanted),
        sum(there.files[file].size or 0 for file in weights),
        sum(_there(there, file) for file in wanted),
    )


def _there(there: Contents, name: str) -> int:
    """Bytes of a file that are in the cache."""
    folder, file = repository_folder(there.name), there.files[name]
    size, blob = file.size or 0, folder / "blobs" / file.etag
    with suppress(OSError):
        if (folder / "snapshots" / there.commit / name).exists() or (file.etag and blob.exists()):
            return size
        if file.etag:
            return min(size, blob.with_name(blob.name + INCOMPLETE).stat().st_size)
    return 0
