"""The files behind a model's name: a folder, or `owner/name` on the Hugging Face Hub or in its cache.

huggingface_hub runs in a separate process (`hub_process`), since its requests cannot be cancelled: ending the process cancels
them at any point. The interface also need not import it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import Cancelled, UserError
from ...plain_file import hub_cache, user_path
from ..options import BUILTIN, LoadOptions, StageProgress
from .hub_files import Offer, Repository, cached

POLL_SECONDS = 0.1
"""Time between checks whether a request was cancelled."""

END_SECONDS = 5.0
"""Time for the process to end."""

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)

Cancelling = Callable[[], bool]


def locate(
    spec: str, options: LoadOptions, *, progress: StageProgress | None = None, cancelled: Cancelling | None = None
) -> Path:
    """Return the folder of the model that `spec` names, after fetching the files that the cache lacks.

    Args:
        spec: a folder, or `owner/name` on the Hub (or on the server that HF_ENDPOINT names).
        options: `revision` is used.
        progress: called with ("download", bytes, total bytes).
        cancelled: polled while bytes arrive.

    Raises:
        UserError: there is no such model, it may not be read, or the Hub cannot be reached; says what to do.
        Cancelled: `cancelled` returned True; complete files stay.
    """
    folder = user_path(spec)
    if os.path.exists(folder):  # False for a name that is too long, where Path's raises
        return folder
    if not _REPOSITORY.fullmatch(spec) or spec.startswith("."):
        raise UserError(
            f"There is no model or folder {spec}. Give a folder, or owner/name for a model on the Hub; `{BUILTIN}` ships with "
            "specchat."
        )
    return fetch(spec, options.revision, progress, cancelled)


def fetch(
    spec: str,
    revision: str | None = None,
    progress: StageProgress | None = None,
    cancelled: Cancelling | None = None,
) -> Path:
    """Fetch a model from the Hub into huggingface_hub's cache, except files that are there.

    Args:
        spec: `owner/name` for its safetensors, `owner/name:Q4_K_M` for a GGUF file.
        revision, progress, cancelled: as `locate`.

    Returns:
        the folder of the commit, or the (first) GGUF file.

    Raises:
        UserError, Cancelled: as `locate`.
    """
    repository, _, quantization = spec.partition(":")
    in_cache = cached(repository, quantization, revision)
    if in_cache is not None and revision and re.fullmatch("[0-9a-f]{40}", revision):
        return in_cache  # a commit does not change
    listed = False
    try:
        with contextlib.closing(_answers({"fetch": spec, "revision": revision}, cancelled)) as answers:
            for message in answers:
                match message:
                    case {"done": done, "total": total}:
                        listed = True
                        if progress is not None:
                            progress("download", done, total)
                    case {"path": path}:
                        return Path(path)
    except UserError:
        # The cache may be complete without the Hub.
        if in_cache is None or listed:
            raise
        return in_cache
    raise UserError(f"The download of {spec} ended unexpectedly. Load it again.")


def look_up(name: str, cancelled: Cancelling | None = None) -> Repository:
    """Ask the Hub what a repository holds; `owner/name:QUANTIZATION` leaves out the quantization.

    Args:
        cancelled: polled while nothing comes.

    Raises:
        UserError: there is no such repository, it may not be read, or the Hub cannot be reached or answers nonsense.
        Cancelled: `cancelled` returned True.
    """
    with contextlib.closing(_answers({"list": name.partition(":")[0]}, cancelled)) as answers:
        for message in answers:
            offers = tuple(Offer(**{**offer, "files": tuple(offer["files"])}) for offer in message["offers"])
            return Repository(**{**message, "offers": offers})
    raise UserError(f"The request about {name} ended unexpectedly. Try it again.")


def _answers(request: dict[str, Any], cancelled: Cancelling | None) -> Generator[dict[str, Any], None, None]:
    """Start the process and yield its answers to a request. The process ends with the generator."""
    # -P: never import from the working folder, where a file may have the name of a library.
    command = [sys.executable, "-P", "-m", f"{__package__}.hub_process"]
    # Telemetry includes a request of its own before the first.
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **quiet, "HF_HUB_CACHE": str(hub_cache())},
        bufsize=0,
        process_group=0,  # ctrl+c is for us
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            for line in _lines(process.stdout, cancelled):
                message = json.loads(line)
                if "error" in message:
                    raise UserError(message["error"])
                yield message
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()  # then it deletes incomplete files, and ends
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _lines(stream: IO[bytes], cancelled: Cancelling | None) -> Iterator[bytes]:
    """Yield the lines of a pipe as they come."""
    rest = b""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    while True:
        if cancelled is not None and cancelled():
            raise Cancelled
        if poll.poll(POLL_SECONDS * 1000):
            if not (data := os.read(stream.fileno(), 1 << 16)):
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
