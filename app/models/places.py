"""Where models lie: the places that other programs put them into, and folders that the user names; and which were loaded
lately."""

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
"""Folders below each other that are looked into."""

MOST_FOLDERS = 2000
"""Folders of one place that are looked into: a chat may be started in a home folder."""

MOST_RECENT = 20
"""Models that were loaded lately, of which the names are kept."""

PLACES = ("Built-in", "Recently used", "This folder", "Your folders", "Hugging Face cache", "LM Studio", "Ollama")
"""The places, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class ModelSpot:
    """A place on this machine where a model lies, not looked into yet."""

    place: str
    """One of PLACES."""
    spec: str
    """What loads it."""
    path: Path
    """Its folder or GGUF file."""
    title: str
    """What it is called in a list."""
    backend: str = "auto"
    revision: str | None = None
    remark: str = ""
    """Why there is nothing more to tell (a place that may not be read); `path` is not looked into then."""


def spots(recent: Sequence[str] = (), named: Sequence[str] = (), here: Path | None = None) -> Iterator[ModelSpot]:
    """Every model in a known place, each file once, in the order of PLACES.

    Args:
        recent: models that were loaded lately, as they were named.
        named: folders from the settings.
    """
    seen: set[Path] = set()
    for spot in (
        *_built_in(),
        *_recent(recent),
        *_below("This folder", here or _current_folder(), depth=2),
        *(spot for folder in named for spot in _below("Your folders", user_path(folder))),
        *_hub(hub_cache()),
        *(spot for folder in _lm_studio() for spot in _below("LM Studio", folder)),
        *_ollama(),
    ):
        file = _real(spot.path)
        if spot.place != "Built-in" and not spot.remark:
            if file in seen:
                continue
            seen.add(file)
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
    """Whether a file's name is that of a whole GGUF model, or of the first of its parts."""
    if not name.lower().endswith(".gguf") or any(word.strip("*") in name for word in IGNORED):
        return False
    part = PART.search(name[: -len(".gguf")])
    return part is None or part[0].startswith("-00001-")


def _below(place: str, top: Path, depth: int = DEPTH) -> Iterator[ModelSpot]:
    """Models in a folder and below it; links are followed, hidden folders are not looked into."""
    waiting, looked = [(top, 0)], set[Path]()
    while waiting and len(looked) < MOST_FOLDERS:
        folder, level = waiting.pop(0)
        real = _real(folder)
        if real in looked:
            continue
        looked.add(real)
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
    """The path below the place it was found in; a GGUF file without its ending."""
    inner = path.relative_to(top).as_posix() if path != top else path.name or str(path)
    return inner.removesuffix(".gguf")


def _hub(cache: Path) -> Iterator[ModelSpot]:
    """The models in huggingface_hub's cache, each at the commit that its name loads without the Hub."""
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
            commits, seen = snapshots(folder), set[str]()
            if model := next(filter(is_model, commits), None):
                yield ModelSpot("Hugging Face cache", name, model, name, revision=model.name)
            for snapshot in commits:
                files = ggufs(snapshot)
                for file in filter(is_first_part, files):
                    spec = _hub_spec(name, file, files)
                    if (spec or file) in seen:
                        continue
                    seen.add(spec or file)
                    spot = ModelSpot("Hugging Face cache", spec, snapshot / file, spec, revision=snapshot.name)
                    yield spot if spec else ModelSpot(spot.place, str(spot.path), spot.path, f"{name} · {Path(file).stem}")
        except OSError:
            continue


def _hub_spec(name: str, file: str, files: list[str]) -> str:
    """`owner/name:Q4_K_M` where that leads to this file; empty where it leads to another."""
    kind = quantization_in(Path(file).name)
    found = files_of(kind, files) if kind else []
    return f"{name}:{kind}" if found and found[0] == file else ""


def _lm_studio() -> Iterator[Path]:
    """LM Studio's folders of models, of today and before."""
    pointer = Path("~/.lmstudio-home-pointer").expanduser()
    homes = [Path("~/.lmstudio").expanduser(), Path("~/.cache/lm-studio").expanduser()]
    try:
        if pointer.is_file() and (named := read_text(pointer).strip()):
            homes.insert(0, Path(named))
    except OSError:
        pass
    for home in dict.fromkeys(homes):
        if (models := home / "models").is_dir():
            yield models


def _ollama() -> Iterator[ModelSpot]:
    for folder in ollama.folders():
        try:
            for name, file in ollama.listed(folder):
                if os.access(file, os.R_OK):
                    yield ModelSpot("Ollama", name, file, name.removeprefix(ollama.PREFIX))
                else:
                    yield ModelSpot(
                        "Ollama",
                        "",
                        file,
                        name.removeprefix(ollama.PREFIX),
                        remark=f"You do not have permission to read {file}.",
                    )
        except PermissionError:
            yield ModelSpot("Ollama", "", folder, str(folder), remark=f"You do not have permission to read {folder}.")
        except OSError:
            continue


def _recent_file() -> Path:
    return data_folder() / "recent-models.json"


def recent() -> list[str]:
    """Names of the models that were loaded lately, the latest first."""
    try:
        found = read_json(_recent_file())
    except (OSError, ValueError):
        return []
    return [spec for spec in found if isinstance(spec, str)][:MOST_RECENT] if isinstance(found, list) else []


def remember(spec: str) -> None:
    """Put one first. What cannot be written is not remembered: nothing depends on it."""
    known = recent()
    if known[:1] == [spec]:
        return
    with suppress(OSError):
        write_json(_recent_file(), [spec, *(each for each in known if each != spec)][:MOST_RECENT])
