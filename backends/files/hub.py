"""From a model's name to a folder: a folder is itself, `owner/name` is fetched from the Hugging Face Hub, or from its cache."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import UserError
from ...plain_file import user_path
from ..options import BUILTIN, LoadOptions, StageProgress
from .checkpoint import PICKLES
from .hub_client import Session, one_line
from .hub_contents import Contents, File, complete, contents, fit, matches
from .hub_transfer import Missing, missing, repository_folder, transfer

WANTED = (
    "*.json",
    "*.safetensors",
    "*.model",
    "*.jinja",
    "merges.txt",
    "vocab.txt",
    "*.tiktoken",
)
"""Configuration, safetensors weights and tokenizer; other runtimes' weights and pickles stay where they are."""

UNWANTED = ("*/*", "consolidated*.safetensors", "*.bin.index.json")
"""Subfolders (other formats), and Mistral's second copy of the weights."""

DEFAULT = "main"
"""The branch that is meant where no revision is named."""

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def locate(
    spec: str,
    options: LoadOptions,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """The folder of the model that `spec` names; fetches what the cache lacks.

    Args:
        spec: a folder, or `owner/name` on the Hub (or on the server that HF_ENDPOINT names).
        options: `revision` is used.
        progress: told ("download", bytes, bytes in all).
        cancelled: polled while bytes arrive.

    Raises:
        UserError: there is no such model, it may not be read, or the Hub cannot be reached; says what to do.
        Cancelled: `cancelled` answered True; what arrived is kept, the next call goes on from there.
    """
    folder = user_path(spec)
    if os.path.exists(folder):  # False for a name that is too long, where Path's raises
        return folder
    if not _REPOSITORY.fullmatch(spec) or spec.startswith((".", "/")):
        if "/" in spec or "\\" in spec or spec.startswith((".", "~")):
            raise UserError(
                f"There is no folder {spec}. Check the path, or use `{BUILTIN}`, the model that ships with specchat."
            )
        raise UserError(
            f"There is no model {spec!r}. Give a folder, or owner/name for a model on the Hub; `{BUILTIN}` is the one that "
            "ships with specchat."
        )
    return fetch(spec, options.revision, progress, cancelled)


def fetch(
    spec: str,
    revision: str | None,
    progress: StageProgress | None,
    cancelled: Callable[[], bool] | None,
    allow: Sequence[str] = WANTED,
    ignore: Sequence[str] = UNWANTED,
    planned: Callable[[list[Missing]], None] | None = None,
) -> Path:
    """The snapshot of a Hub repository in the cache: its files of the patterns `allow` that match none of `ignore`.

    The bytes come in through `hub_transfer`; the cache is huggingface_hub's, whose other programs find them there.

    Args:
        planned: told what will be fetched, before the first byte.
        spec, revision, progress, cancelled: as `locate`.

    Raises:
        UserError, Cancelled: as `locate`.
    """
    known = cached_snapshot(spec, revision)
    if known is not None and known.name == revision and _whole(known, allow, ignore):
        return known  # a commit does not change
    try:
        with Session(cancelled) as session:
            try:
                there = contents(session, spec, revision)
            except UserError:
                # Without the Hub there may still be all of it in the cache.
                if known is not None and _whole(known, allow, ignore):
                    return known
                raise
            names = there.chosen(allow, ignore)
            if allow is WANTED and not any(name.endswith(".safetensors") for name in names):
                _refuse_pickles(there)
            files = {name: complete(session, there, name) for name in names}
            needed = missing(there, files)
            if planned is not None:
                planned(needed)
            transfer(session, spec, needed, progress)
            return place(there, files, revision)
    except OSError as error:
        raise UserError(f"Could not download {spec} ({one_line(error)}). Check the free disk space and HF_HUB_CACHE.") from None


def _refuse_pickles(there: Contents) -> None:
    """Refuse a repository that has only pickled weights.

    Raises:
        UserError: it is one.
    """
    if any(matches(name, PICKLES) for name in there.files):
        raise UserError(
            f"{there.name} has only pickled weights, which can run code when opened, so specchat does not open them. Look for "
            f"a safetensors version, or run `hf download {there.name} --local-dir FOLDER` and load FOLDER: specchat then says "
            "how to convert them."
        )


def place(there: Contents, files: Mapping[str, File], revision: str | None = None) -> Path:
    """Give files that are in the cache their names there, as huggingface_hub does; the folder of the commit."""
    folder = repository_folder(there.name)
    snapshot = folder / "snapshots" / there.commit
    snapshot.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        pointer, blob = snapshot / name, folder / "blobs" / file.etag
        if pointer.exists():
            continue
        pointer.parent.mkdir(parents=True, exist_ok=True)
        temporary = _beside(pointer)
        try:
            temporary.symlink_to(os.path.relpath(blob, pointer.parent))
        except OSError:  # a disk without links
            shutil.copyfile(blob, temporary)
        temporary.replace(pointer)  # which may point to a file that was deleted
    name = revision or DEFAULT
    if name != there.commit:
        reference = folder / "refs" / name
        reference.parent.mkdir(parents=True, exist_ok=True)
        temporary = _beside(reference)
        temporary.write_text(there.commit)
        temporary.replace(reference)
    return snapshot


def _beside(file: Path) -> Path:
    """A fresh name in the same folder: another download of the same may be at it too, in this process or in another."""
    return file.with_name(f".{secrets.token_hex(8)}")


def _whole(snapshot: Path, allow: Sequence[str], ignore: Sequence[str]) -> bool:
    """Whether a folder in the cache can be what was asked for. What is fetched here gets its names only when all of it came."""
    names = [file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*") if file.is_file()]
    names = [name for name in names if not matches(name, ignore)]
    needed = ("config.json", "*.safetensors") if allow is WANTED else allow
    return all(any(matches(name, [pattern]) for name in names) for pattern in needed)


def cached_snapshot(spec: str, revision: str | None = None) -> Path | None:
    """The folder in the cache that holds what has been fetched of a repository, whole or not; None if there is none."""
    folder, name = repository_folder(spec), revision or DEFAULT
    if not fit(name):
        return None
    with suppress(OSError, ValueError):
        reference = folder / "refs" / name
        commit = reference.read_text().strip() if reference.is_file() else name
        if commit and (snapshot := folder / "snapshots" / commit).is_dir():
            return snapshot
    return None
