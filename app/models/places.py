"""The places of models: those of other programs, and folders that the user names; and the models that were used lately."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...backends.files import ollama
from ...backends.files.hub_files import IGNORED, PART, files_of, ggufs, is_model, snapshots
from ...backends.files.model_card import quantization_in
from ...backends.loading import builtin_gguf, builtin_path
from ...backends.options import BUILTIN, SHIPPED
from ...plain_file import hub_cache, read_json, read_text, stand_somewhere, user_path, write_json
from ..settings.locations import data_folder

DEPTH = 4
"""Levels of folders that are searched."""

MOST_FOLDERS = 2000
"""Most folders of one place that are searched: a chat may be started in a home folder."""

MOST_RECENT = 20
"""Number of models in the list of those used lately."""

PLACES = ("Built-in", "Recently used", "This folder", "Your folders", "Hugging Face cache", "LM Studio", "Ollama")
"""The places, in the order of the list."""


@dataclass(frozen=True, slots=True)
class ModelSpot:
    """The place of a model on this machine; its files are not read yet."""

    place: str
    """One of PLACES."""
    spec: str
    """Name that loads it."""
    path: Path
    """Its folder or GGUF file."""
    title: str
    """Its name in a list."""
    backend: str = "auto"
    revision: str | None = None
    remark: str = ""
    """The reason why `path` cannot be read, if so."""


def spots(recent: Sequence[str] = (), named: Sequence[str] = (), folder: Path | None = None) -> Iterator[ModelSpot]:
    """Yield every model in a known place, each file once, in the order of PLACES.

    Args:
        recent: names of models that were used lately.
        named: folders from the settings.
        folder: in place of the current folder.
    """
    files: set[Path] = set()
    for spot in (
        *_built_in(),
        *_recent(recent),
        *_below("This folder", folder or _current_folder(), depth=2),
        *(spot for name in named for spot in _below("Your folders", user_path(name))),
        *_hub(hub_cache()),
        *(spot for models in _lm_studio() for spot in _below("LM Studio", models)),
        *_ollama(),
    ):
        file = _real(spot.path)
        if spot.place != "Built-in" and not spot.remark:
            if file in files:
                continue
            files.add(file)
        yield spot


def _current_folder() -> Path:
    stand_somewhere()
    return Path.cwd()


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def _built_in() -> Iterator[ModelSpot]:
    for name in SHIPPED:
        if builtin_gguf(name).is_file():
            yield ModelSpot("Built-in", name, builtin_gguf(name), name, "llama.cpp")
        if (name == BUILTIN or not builtin_gguf(name).is_file()) and builtin_path(name).is_dir():
            yield ModelSpot("Built-in", name, builtin_path(name), name, "transformers")


def _recent(specs: Sequence[str]) -> Iterator[ModelSpot]:
    for spec in specs:
        path = user_path(spec)
        try:
            if path.is_absolute() and path.exists():
                yield ModelSpot("Recently used", spec, path, path.name)
        except (OSError, ValueError):
            continue


def is_first_part(name: str) -> bool:
    """Whether a file's name is that of a complete GGUF model, or of the first of its parts."""
    if not name.lower().endswith(".gguf") or any(word.strip("*") in name for word in IGNORED):
        return False
    part = PART.search(name[: -len(".gguf")])
    return part is None or part[0].startswith("-00001-")


def _below(place: str, top: Path, depth: int = DEPTH) -> Iterator[ModelSpot]:
    """Yield the models in a folder and below it; links are followed, hidden folders are skipped."""
    waiting = [(top, 0)]
    searched: set[Path] = set()
    while waiting and len(searched) < MOST_FOLDERS:
        folder, level = waiting.pop(0)
        real = _real(folder)
        if real in searched:
            continue
        searched.add(real)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            if is_model(folder):
                yield ModelSpot(place, str(folder), folder, _title(folder, top))
        except PermissionError:
            if level == 0:
                yield ModelSpot(place, "", folder, str(folder), remark=f"You do not have permission to read {folder}.")
            continue
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir():
                    if level < depth and not entry.name.startswith(".") and entry.name not in ("node_modules", "__pycache__"):
                        waiting.append((Path(entry.path), level + 1))
                elif is_first_part(entry.name):
                    yield ModelSpot(place, entry.path, Path(entry.path), _title(Path(entry.path), top))
            except OSError:
                continue


def _title(path: Path, top: Path) -> str:
    """Return the path below its place, for a GGUF file without the suffix."""
    inner = path.relative_to(top).as_posix() if path != top else path.name or str(path)
    return inner.removesuffix(".gguf")


def _hub(cache: Path) -> Iterator[ModelSpot]:
    """Yield the models in huggingface_hub's cache, each at the commit that its name loads offline."""
    try:
        folders = sorted(entry for entry in cache.iterdir() if entry.name.startswith("models--"))
    except PermissionError:
        yield ModelSpot("Hugging Face cache", "", cache, str(cache), remark=f"You do not have permission to read {cache}.")
        return
    except OSError:
        return
    for folder in folders:
        name = folder.name.removeprefix("models--").replace("--", "/")
        try:
            commits = snapshots(folder)
            specs: set[str] = set()
            if model := next(filter(is_model, commits), None):
                yield ModelSpot("Hugging Face cache", name, model, name, revision=model.name)
            for snapshot in commits:
                files = ggufs(snapshot)
                for file in filter(is_first_part, files):
                    spec = _hub_spec(name, file, files)
                    if (spec or file) in specs:
                        continue
                    specs.add(spec or file)
                    spot = ModelSpot("Hugging Face cache", spec, snapshot / file, spec, revision=snapshot.name)
                    yield spot if spec else ModelSpot(spot.place, str(spot.path), spot.path, f"{name} · {Path(file).stem}")
        except OSError:
            continue


def _hub_spec(name: str, file: str, files: list[str]) -> str:
    """Return `owner/name:Q4_K_M` if that loads this file; empty if it loads another."""
    kind = quantization_in(Path(file).name)
    loaded = files_of(kind, files) if kind else []
    return f"{name}:{kind}" if loaded and loaded[0] == file else ""


def _lm_studio() -> Iterator[Path]:
    """Yield LM Studio's folders of models, the present and the former one."""
    pointer = Path("~/.lmstudio-home-pointer").expanduser()
    homes = [Path("~/.lmstudio").expanduser(), Path("~/.cache/lm-studio").expanduser()]
    try:
        if pointer.is_file() and (home := read_text(pointer).strip()):
            homes.insert(0, Path(home))
    except OSError:
        pass
    for folder in dict.fromkeys(homes):
        if (models := folder / "models").is_dir():
            yield models


def _ollama() -> Iterator[ModelSpot]:
    for folder in ollama.folders():
        try:
            for name, file in ollama.listed(folder):
                remark = "" if os.access(file, os.R_OK) else f"You do not have permission to read {file}."
                yield ModelSpot("Ollama", "" if remark else name, file, name.removeprefix(ollama.PREFIX), remark=remark)
        except PermissionError:
            yield ModelSpot("Ollama", "", folder, str(folder), remark=f"You do not have permission to read {folder}.")
        except OSError:
            continue


def _recent_file() -> Path:
    return data_folder() / "recent-models.json"


def recent() -> list[str]:
    """Return the names of the models that were used lately, the latest first."""
    try:
        specs = read_json(_recent_file())
    except (OSError, ValueError):
        return []
    return [spec for spec in specs if isinstance(spec, str)][:MOST_RECENT] if isinstance(specs, list) else []


def remember(spec: str) -> None:
    """Put a model first in the list of those used lately. A write error is ignored: nothing depends on the list."""
    specs = recent()
    if specs[:1] == [spec]:
        return
    with suppress(OSError):
        write_json(_recent_file(), [spec, *(other for other in specs if other != spec)][:MOST_RECENT])
