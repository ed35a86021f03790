"""A model's files in a repository on the Hub and in huggingface_hub's cache, without importing it: which to fetch, and offers
of its weights in safetensors, or of its GGUF files by quantization."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from ...errors import UserError, shell_line
from ...plain_file import hub_cache, read_text
from .checkpoint import ITEM_BYTES, PICKLES
from .model_card import config_cache_numbers, config_context, quantization_in

WANTED = ("*.json", "*.safetensors", "*.model", "*.jinja", "merges.txt", "vocab.txt", "*.tiktoken")
"""Configuration, safetensors weights and tokenizer; other runtimes' weights and pickles stay where they are."""

UNWANTED = ("*/*", "consolidated*.safetensors", "*.bin.index.json")
"""Subfolders (other formats), and Mistral's second copy of the weights."""

IGNORED = ("*mmproj*", "*imatrix*")
"""Vision projectors and importance matrices, which have quantizations in their names too."""

PART = re.compile(r"-\d{5}-of-\d{5}$")
"""The end of the names of a model's parts."""

INCOMPLETE = ".incomplete"
"""The end of the name of an unfinished file in huggingface_hub's cache."""


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


def chosen(repository: str, quantization: str, names: Sequence[str]) -> list[str]:
    """List the files to fetch: those of a quantization (GGUF), or of a model in safetensors if none is named.

    Raises:
        UserError: there are none; says what there is.
    """
    if quantization:
        if files := files_of(quantization, names):
            return files
        stems = {PART.sub("", Path(name).stem) for name in names if name.endswith(".gguf") and "mmproj" not in name}
        quantizations = sorted({re.split(r"[-.]", stem)[-1] for stem in stems})
        what = f"choose from {', '.join(quantizations)}." if quantizations else "it has no GGUF files."
        raise UserError(f"{repository} has no {quantization} quantization: {what}")
    files = plain_files(names)
    if not any(name.endswith(".safetensors") for name in files) and any(matches(name, PICKLES) for name in names):
        fetch = shell_line("hf", "download", repository, "--local-dir", "FOLDER")
        raise UserError(
            f"{repository} has only pickled weights, which can run code when opened, so specchat does not open them. Look for "
            f"a safetensors version, or run `{fetch}` and load FOLDER: specchat then says how to convert them."
        )
    return files


def plain_files(names: Iterable[str]) -> list[str]:
    """List the files of a model in safetensors."""
    return [name for name in names if matches(name, WANTED) and not matches(name, UNWANTED)]


def files_of(quantization: str, files: Iterable[str]) -> list[str]:
    """Find the file, or the parts in order, that a quantization's name leads to in a repository; [] if there is none."""
    # After a separator, so that Q4_K is not IQ4_K; to the end, so that it is not Q4_K_M.
    pattern = re.compile(rf"(.*[-._/])?{re.escape(quantization)}(-\d{{5}}-of-\d{{5}})?\.gguf", re.IGNORECASE)
    groups: dict[str, list[str]] = {}
    for file in files:
        last = file.rpartition("/")[2]
        if pattern.fullmatch(file) and not any(word.strip("*") in last for word in IGNORED):
            groups.setdefault(PART.sub("", file[: -len(".gguf")]), []).append(file)
    if not groups:
        return []
    # "model-Q4_K_M" rather than "model-UD-Q4_K_M".
    return sorted(groups[min(groups, key=lambda stem: (len(stem.rpartition("/")[2]), stem))])


def fit(name: str) -> bool:
    """Tell whether a foreign name stays in its folder, and on its line of a terminal."""
    return name.isprintable() and "\\" not in name and not {"", ".", ".."} & {*name.split("/")}


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether a file's name matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def one_line(message: object) -> str:
    """Clean up a foreign message so that it fits into a sentence."""
    text = " ".join(str(message).split()).rstrip(".")
    if isinstance(message, BaseException):
        text = text or type(message).__name__
    return "".join(character if character.isprintable() else "?" for character in text)[:300]


def repository_folder(name: str) -> Path:
    """Return a repository's folder in the cache."""
    return hub_cache().resolve() / f"models--{name.replace('/', '--')}"


def snapshots(folder: Path, revision: str | None = None) -> list[Path]:
    """List the folders of a repository's commits in the cache.

    Args:
        folder: the repository's.
        revision: only this branch, tag or commit; None for all, that of `main` first, then the newest.
    """
    with suppress(OSError, ValueError):
        commits = {entry.name: entry for entry in (folder / "snapshots").iterdir() if entry.is_dir()}
        named = revision or "main"
        with suppress(OSError):
            named = read_text(folder / "refs" / named).strip()
        if revision is not None:
            return [commits[named]] if named in commits else []
        return sorted(commits.values(), key=lambda entry: (entry.name == named, entry.stat().st_mtime), reverse=True)
    return []


def is_model(folder: Path) -> bool:
    """Tell whether a folder holds a transformers model."""
    return (folder / "config.json").is_file() and any(file.is_file() for file in folder.glob("*.safetensors"))


def ggufs(snapshot: Path) -> list[str]:
    """List the GGUF files of a commit in the cache."""
    return sorted(file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*.gguf") if file.is_file())


def cached(repository: str, quantization: str, revision: str | None) -> Path | None:
    """Find a model in the cache: its folder, or the first of its GGUF files; None if there is none."""
    for snapshot in snapshots(repository_folder(repository), revision):
        if not quantization and is_model(snapshot):
            return snapshot
        if quantization and (files := files_of(quantization, ggufs(snapshot))):
            return snapshot / files[0]
    return None


def describe(name: str, info: Any, files: Mapping[str, int], config: Mapping[str, Any]) -> Repository:
    """List the offers of a repository.

    Args:
        name: the repository's.
        info: huggingface_hub's ModelInfo.
        files: its files → bytes.
        config: the repository's config.json; empty if it cannot be read, as in a gated repository.
    """
    gguf = info.gguf or {}
    snapshot = repository_folder(name) / "snapshots" / info.sha
    dtypes = info.safetensors.parameters if info.safetensors else {}

    def offer(spec: str, kind: Literal["safetensors", "gguf"], quantization: str, names: Sequence[str]) -> Offer:
        return Offer(
            spec=spec,
            kind=kind,
            quantization=one_line(quantization),
            files=tuple(sorted(names)),
            size=sum(files[file] for file in names),
            weights=sum(files[file] for file in names if file.endswith((".safetensors", ".gguf"))),
            cached=sum(files[file] for file in names if (snapshot / file).exists()),
        )

    plain, offers = plain_files(files), []
    if any(file.endswith(".safetensors") for file in plain):
        most = max(dtypes, key=lambda kind: dtypes[kind] * ITEM_BYTES.get(kind, 1), default="")
        offers.append(offer(name, "safetensors", most, plain))
    quantized = [offer(f"{name}:{short}", "gguf", kind, names) for short, kind, names in _quantizations(files)]
    offers += sorted(quantized, key=lambda offer: (offer.weights, offer.spec))
    pickled = any(file.endswith((".bin", ".pt", ".pth", ".ckpt")) for file in files)
    remark = "only pickled weights, which can run code when opened" if pickled else "neither safetensors weights nor GGUF files"
    return Repository(
        name=name,
        commit=info.sha,
        architecture=one_line(config.get("model_type") or gguf.get("architecture") or ""),
        parameters=info.safetensors.total if info.safetensors else gguf.get("total", 0),
        context=config_context(config) or gguf.get("context_length", 0),
        cache_numbers=config_cache_numbers(config),
        gated=bool(info.gated),
        offers=tuple(offers),
        remark="" if offers else f"It has {remark}.",
    )


def _quantizations(files: Iterable[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the GGUF models among files: the shortest name that leads to one, its quantization, and its files."""
    groups: dict[str, list[str]] = {}
    for file in files:
        if file.endswith(".gguf") and not matches(file.rpartition("/")[2], IGNORED):
            groups.setdefault(PART.sub("", file.removesuffix(".gguf")), []).append(file)
    models = [file for names in groups.values() for file in names]
    used: set[str] = set()
    # The plain one of several (model-Q8_0 beside model-UD-Q8_0) has the short name.
    for stem in sorted(groups, key=lambda stem: (len(stem), stem)):
        kind, words = quantization_in(stem.rpartition("/")[2]), re.split(r"[-./]", stem)
        shorts = [kind or words[-1], *("-".join(words[-count:]) for count in range(2, len(words) + 1))]
        free = (short for short in shorts if short.upper() not in used and files_of(short, models) == sorted(groups[stem]))
        if short := next(free, ""):
            used.add(short.upper())
            yield short, kind or short, groups[stem]
