"""GGUF files on the Hugging Face Hub: `owner/name:Q4_K_M` is the file (or the parts) of that quantization in a repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from glob import escape
from pathlib import Path

from ...errors import UserError
from ..llama.library import library
from ..options import LoadOptions, StageProgress
from .hub import cached_snapshot, fetch
from .hub_client import Session
from .hub_contents import contents

IGNORED = ("*mmproj*", "*imatrix*")
"""Vision projectors and importance matrices bear quantizations in their names too."""

PART = re.compile(r"-\d{5}-of-\d{5}$")
"""Ends the names of a model's parts."""


def locate_gguf(
    spec: str, options: LoadOptions, progress: StageProgress | None = None, cancelled: Callable[[], bool] | None = None
) -> Path:
    """The GGUF file that `spec` names; fetches what the cache lacks.

    Args:
        spec: `owner/name:QUANTIZATION`, upper or lower case.
        options: `revision` is used.
        progress: told ("download", bytes, bytes in all).
        cancelled: polled while bytes arrive.

    Raises:
        UserError: the runtime is not installed; no such repository or quantization; the Hub cannot be reached.
        Cancelled: `cancelled` answered True; what arrived is kept, the next call goes on from there.
    """
    # Gigabytes that nothing could open would be a poor surprise.
    library()
    repository, _, name = spec.partition(":")
    try:
        with Session(cancelled) as session:
            there = contents(session, repository, options.revision).chosen(("*.gguf",), ())
    except UserError:
        # What is in the cache works without the Hub.
        folder = cached_snapshot(repository, options.revision)
        kept = [file.relative_to(folder).as_posix() for file in folder.rglob("*.gguf")] if folder is not None else []
        if folder is not None and (files := files_of(name, kept)):
            return folder / files[0]
        raise
    files = files_of(name, there)
    if not files:
        raise UserError(_missing(repository, name, there))
    folder = fetch(repository, options.revision, progress, cancelled, [escape(file) for file in files], ())
    return folder / files[0]


def files_of(name: str, files: Iterable[str]) -> list[str]:
    """The file, or the parts in their order, that a quantization's name leads to among a repository's files; [] if none."""
    # Behind a separator, so that Q4_K is not IQ4_K; whole, so that it is not Q4_K_M.
    wanted = re.compile(rf"(.*[-._/])?{re.escape(name)}(-\d{{5}}-of-\d{{5}})?\.gguf", re.IGNORECASE)
    groups: dict[str, list[str]] = {}
    for file in files:
        last = file.rpartition("/")[2]
        if wanted.fullmatch(file) and not any(word.strip("*") in last for word in IGNORED):
            groups.setdefault(PART.sub("", file[: -len(".gguf")]), []).append(file)
    if not groups:
        return []
    # "model-Q4_K_M" rather than "model-UD-Q4_K_M".
    return sorted(groups[min(groups, key=lambda stem: (len(stem.rpartition("/")[2]), stem))])


def _missing(repository: str, name: str, files: Iterable[str]) -> str:
    """The sentence for a quantization that is not there, with those that are."""
    stems = {PART.sub("", Path(file).stem) for file in files if file.endswith(".gguf") and "mmproj" not in file}
    there = sorted({re.split(r"[-.]", stem)[-1] for stem in stems})
    what = f"choose from {', '.join(there)}." if there else "it has no GGUF files."
    return f"{repository} has no {name} quantization: {what}"
