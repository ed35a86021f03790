"""GGUF files on the Hugging Face Hub: `owner/name:Q4_K_M` is the file (or the parts) of that quantization in a repository."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .base import UserError
from .hub import fetch
from .llama_library import library
from .loading import LoadOptions, StageProgress

IGNORED = ("*mmproj*", "*imatrix*")
"""Vision projectors and importance matrices bear quantizations in their names too."""

_PART = re.compile(r"-\d{5}-of-\d{5}$")


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
    # Behind a separator, so that Q4_K is not IQ4_K; whole, so that it is not Q4_K_M.
    endings = [f"{case}{end}.gguf" for case in dict.fromkeys((name, name.upper(), name.lower())) for end in ("", "-*-of-*")]
    patterns = [f"*[-._/]{ending}" for ending in endings] + endings
    folder = fetch(repository, options.revision, progress, cancelled, patterns, IGNORED)
    wanted = re.compile(rf"(.*[-._/])?{re.escape(name)}(-00001-of-\d{{5}})?\.gguf", re.IGNORECASE)
    found = [file for file in folder.rglob("*.gguf") if wanted.fullmatch(file.relative_to(folder).as_posix())]
    found = [file for file in found if not any(word.strip("*") in file.name for word in IGNORED)]
    if not found:
        raise UserError(_missing(repository, name, options.revision))
    # "model-Q4_K_M" rather than "model-UD-Q4_K_M".
    return min(found, key=lambda file: (len(file.name), file.name))


def _missing(repository: str, name: str, revision: str | None) -> str:
    """The sentence for a quantization that is not there, with those that are (if the Hub can be asked)."""
    from huggingface_hub import HfApi

    try:
        files = HfApi().list_repo_files(repository, revision=revision)
    except Exception:
        files = []
    stems = {_PART.sub("", Path(file).stem) for file in files if file.endswith(".gguf") and "mmproj" not in file}
    there = sorted({re.split(r"[-.]", stem)[-1] for stem in stems})
    what = f"it has {', '.join(there)}." if there else "it has no GGUF files." if files else "check the name."
    return f"{repository} has no file of the quantization {name}: {what}"
