"""The places of models: those of other programs, folders that the user names, and models that were used lately."""

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
from ...plain_file import hub_cache, read_json, user_path, write_json
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


def spots(named: Sequence[str] = ()) -> Iterator[ModelSpot]:
    """Yield every model in a known place, each file once, in the order of PLACES; `named` are folders from the settings."""
    searches = (
        ("Built-in", _built_in()),
        ("Recently used", _recent()),
        ("This folder", _below("This folder", depth=2)),
        *(("Your folders", _below("Your folders", user_path(name))) for name in named),
        ("Hugging Face cache", _hub(hub_cache())),
        ("LM Studio", _below("LM Studio", user_path("~/.lmstudio/models"))),
        *(("Ollama", _ollama(folder)) for folder in ollama.folders()),
    )
    files: set[str] = set()
    for place, search in searches:
        try:
            for spot in search:
                if (file := os.path.realpath(spot.path)) not in files:
                    files.add(file)
                    yield spot
        except PermissionError as error:
            path = Path(str(error.filename))
            yield ModelSpot(place, "", path, str(path), remark=f"You do not have permission to read {path}.")
        except OSError:  # there is no such place here
            continue


def _built_in() -> Iterator[ModelSpot]:
    for name in SHIPPED:
        if builtin_gguf(name).is_file():
            yield ModelSpot("Built-in", name, builtin_gguf(name), name, "llama.cpp")
        if (name == BUILTIN or not builtin_gguf(name).is_file()) and builtin_path(name).is_dir():
            yield ModelSpot("Built-in", name, builtin_path(name), name, "transformers")


def _recent() -> Iterator[ModelSpot]:
    for name in _read_recent():
        if os.path.isabs(name) and os.path.exists(name):
            yield ModelSpot("Recently used", name, Path(name), Path(name).name)


def _is_first_part(name: str) -> bool:
    """Whether a file's name is that of a complete GGUF model, or of the first of its parts."""
    if not name.lower().endswith(".gguf") or any(word.strip("*") in name for word in IGNORED):
        return False
    part = PART.search(name[: -len(".gguf")])
    return part is None or part[0].startswith("-00001-")


def _below(place: str, top: Path | None = None, depth: int = DEPTH) -> Iterator[ModelSpot]:
    """Yield the models in a folder (the current one if None) and below it; links are followed, hidden folders are skipped."""
    top = top or Path.cwd()

    def refuse(error: OSError) -> None:
        if error.filename == str(top):
            raise error

    searched: set[str] = set()
    for name, folders, files in os.walk(top, onerror=refuse, followlinks=True):
        folder = Path(name)
        level = len(folder.relative_to(top).parts)
        real = os.path.realpath(name)
        folders[:] = sorted(inner for inner in folders if not inner.startswith(".") and inner != "node_modules")
        if level == depth or real in searched:
            folders.clear()
        if real in searched:
            continue
        if len(searched) == MOST_FOLDERS:
            return
        searched.add(real)
        title = folder.relative_to(top).as_posix() if level else folder.name or name
        if is_model(folder):
            yield ModelSpot(place, name, folder, title)
        for file in filter(_is_first_part, files):
            path = folder / file
            yield ModelSpot(place, str(path), path, path.relative_to(top).as_posix().removesuffix(".gguf"))


def _hub(cache: Path) -> Iterator[ModelSpot]:
    """Yield the models in huggingface_hub's cache, each at the commit that its name loads offline."""
    place = "Hugging Face cache"
    for folder in sorted(cache.iterdir()):
        if not folder.name.startswith("models--"):
            continue
        name = folder.name.removeprefix("models--").replace("--", "/")
        commits = snapshots(folder)
        if model := next(filter(is_model, commits), None):
            yield ModelSpot(place, name, model, name, revision=model.name)
        titles: set[str] = set()
        for snapshot in commits:
            files = ggufs(snapshot)
            for file in filter(_is_first_part, files):
                path = snapshot / file
                kind = quantization_in(path.name)
                spot = ModelSpot(place, str(path), path, f"{name} · {path.stem}")
                if kind and files_of(kind, files)[:1] == [file]:
                    spot = ModelSpot(place, f"{name}:{kind}", path, f"{name}:{kind}", revision=snapshot.name)
                if spot.title not in titles:
                    titles.add(spot.title)
                    yield spot


def _ollama(folder: Path) -> Iterator[ModelSpot]:
    for name, file in ollama.listed(folder):
        yield ModelSpot("Ollama", name, file, name.removeprefix(ollama.PREFIX))


def _recent_file() -> Path:
    return data_folder() / "recent-models.json"


def _read_recent() -> list[str]:
    """Return the paths of the models that were used lately, the latest first."""
    try:
        names = read_json(_recent_file())
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def remember(path: str) -> None:
    """Put a model first in the list of those used lately. A write error is ignored: nothing depends on the list."""
    with suppress(OSError):
        write_json(_recent_file(), list(dict.fromkeys([path, *_read_recent()]))[:MOST_RECENT])
