"""The process that talks to the Hub, through huggingface_hub. It reads one request in JSON, and writes lines of JSON.

The answer to `{"list": "owner/name"}` is the fields of a `Repository`; to `{"fetch": "owner/name:Q4_K_M"}` it is
`{"done": …, "total": …}` as bytes come, and `{"path": …}`; an error is `{"error": sentence}`. The process ends with its
standard input.

Files are fetched by huggingface_hub's `snapshot_download`. It never resumes another process's file (it writes to a new name),
so incomplete files are deleted before the process ends.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import UserError
from ...plain_file import FULL, hub_cache
from ..options import BUILTIN
from .hub_files import INCOMPLETE, Repository, chosen, describe, fit, one_line, repository_folder

TELL_SECONDS = 0.1
"""Time between two reports of progress."""

CHUNK = 1 << 16
"""Bytes that are written at once: with huggingface_hub's 10 MB a slow download would seem to stand still."""

STALE_SECONDS = 3600
"""Age from which an unfinished file belongs to a process that was killed."""

Tell = Callable[[dict[str, Any]], None]


class Hub:
    """One request to the Hub.

    Args:
        spec: `owner/name`, or `owner/name:Q4_K_M`.
        revision: a branch, tag or commit; None for the default branch.
    """

    def __init__(self, spec: str, revision: str | None) -> None:
        from huggingface_hub import HfApi, constants

        self.spec = spec
        self.revision = revision
        repository, _, quantization = spec.partition(":")
        self.repository = repository
        self.quantization = quantization
        self.folder = repository_folder(repository)
        constants.DOWNLOAD_CHUNK_SIZE = CHUNK
        address = urlsplit(constants.ENDPOINT)
        # Others could read a token sent by plain http. None is the token that is set or stored.
        private = address.scheme == "https" or address.hostname in ("localhost", "127.0.0.1", "::1")
        self.access: dict[str, Any] = {"endpoint": constants.ENDPOINT, "token": None if private else False}
        self.api = HfApi(**self.access)
        self.files: dict[str, int] = {}
        """The repository's files → bytes."""
        self.total = 0
        """Bytes to fetch."""
        self._earlier: set[Path] = set()
        """Unfinished files of other processes."""

    def read(self) -> Any:
        """Ask for the repository's description (ModelInfo) and files."""
        from huggingface_hub.constants import HF_HUB_ETAG_TIMEOUT
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        validate_repo_id(self.repository)
        info = self.api.model_info(self.repository, revision=self.revision, files_metadata=True, timeout=HF_HUB_ETAG_TIMEOUT)
        self.files = {file.rfilename: file.size or 0 for file in info.siblings or () if fit(file.rfilename)}
        return info

    def listing(self) -> Repository:
        """List the repository's offers."""
        from huggingface_hub import hf_hub_download

        info = self.read()
        config: dict[str, Any] = {}
        with suppress(Exception), tempfile.TemporaryDirectory() as folder:  # as in a gated repository
            file = hf_hub_download(self.repository, "config.json", revision=info.sha, cache_dir=folder, **self.access)
            config = json.loads(Path(file).read_bytes())
        return describe(self.repository, info, self.files, config)

    def fetch(self, tell: Tell) -> Path:
        """Fetch the model into the cache; return its folder, or its first GGUF file."""
        from huggingface_hub import snapshot_download

        info = self.read()
        names = chosen(self.repository, self.quantization, list(self.files))
        snapshot = self.folder / "snapshots" / info.sha
        needed = {name: self.files[name] for name in names if not (snapshot / name).exists()}
        self.total = sum(needed.values())
        tell({"done": 0, "total": self.total})
        _require_room(self.spec, self.total)
        self._earlier = set(self._parts())
        for part in self._earlier:  # of a process that was killed
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > STALE_SECONDS:
                    part.unlink()
        finished = threading.Event()

        def report() -> None:
            highest = 0
            while not finished.wait(TELL_SECONDS):
                done = sum(size for name, size in needed.items() if (snapshot / name).exists())
                for part in self.unfinished():
                    with suppress(OSError):
                        done += part.stat().st_size
                highest = max(highest, min(done, self.total))
                tell({"done": highest, "total": self.total})

        reporting = threading.Thread(target=report, daemon=True)
        reporting.start()
        try:
            patterns = [escape(name) for name in names]
            folder = snapshot_download(
                self.repository, revision=self.revision, allow_patterns=patterns, cache_dir=self.folder.parent, **self.access
            )
        finally:
            finished.set()
            reporting.join()
        tell({"done": self.total, "total": self.total})
        return Path(folder) / names[0] if self.quantization else Path(folder)

    def _parts(self) -> Iterator[Path]:
        return (self.folder / "blobs").glob(f"*{INCOMPLETE}")

    def unfinished(self) -> list[Path]:
        """List the unfinished files of this process."""
        return [part for part in self._parts() if part not in self._earlier]

    def sentence(self, error: BaseException) -> str:
        """Explain an error, and what to do about it."""
        from huggingface_hub import errors

        name, causes = self.repository, list(_causes(error))
        for cause in causes:
            match cause:
                case UserError():
                    return str(cause)
                case errors.HFValidationError():
                    return f"{name!r} is not a name on the Hub. Give owner/name, or a folder."
                case errors.OfflineModeIsEnabled():
                    return f"{name} is not in the cache, and HF_HUB_OFFLINE is set. Unset it to ask the Hub."
                case errors.GatedRepoError():
                    return f"{name} requires you to accept its licence. Do so on its page on the Hub, then run `hf auth login`."
                case errors.RevisionNotFoundError():
                    return f"{name} has no revision {self.revision!r}. Check the branch, tag or commit."
                case errors.RepositoryNotFoundError():
                    return (
                        f"There is no model {name} on the Hub, or it is private. Check the name, or run `hf auth login` if it "
                        "is yours."
                    )
                case errors.HfHubHTTPError():
                    return f"The Hub refuses {name} ({cause.response.status_code}). Run `hf auth login`, or try again later."
                case OSError() if cause.errno in FULL:
                    return f"The disk with {self.folder.parent} is full. Free some space and load {name} again."
        reason = one_line(causes[-1])
        return (
            f"Could not reach or read {self.spec} on the Hub ({reason}). Check the connection and HF_ENDPOINT, and try again; "
            f"files that are whole stay. `{BUILTIN}` ships with specchat."
        )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _require_room(spec: str, needed: int) -> None:
    """Refuse a download for which the disk is too small."""
    cache = hub_cache().resolve()
    free = shutil.disk_usage(next(folder for folder in (cache, *cache.parents) if folder.exists())).free
    if needed > free:
        raise UserError(
            f"{spec} needs {needed / 1e9:.1f} GB of disk space, but {cache} has {free / 1e9:.1f} GB free. Free some space, or "
            "set HF_HOME to a folder on another disk."
        )


def answer(request: dict[str, Any], tell: Tell, on_start: Callable[[Hub], None] = lambda _: None) -> None:
    """Carry out a request and report through `tell`; `on_start` is called with its Hub first."""
    hub = Hub(request.get("fetch") or request["list"], request.get("revision"))
    on_start(hub)
    try:
        tell({"path": str(hub.fetch(tell))} if "fetch" in request else asdict(hub.listing()))
    except Exception as error:
        tell({"error": hub.sentence(error)})


def _end_with_input(hub: Hub) -> None:
    while os.read(0, 1):
        pass
    for part in hub.unfinished():
        part.unlink(missing_ok=True)
    os._exit(1)


def main() -> None:
    """Read a request from standard input, answer it on standard output."""
    request = b""
    while not request.endswith(b"\n"):
        if not (byte := os.read(0, 1)):
            return
        request += byte
    out, sys.stdout = sys.stdout, sys.stderr  # libraries may print

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    answer(json.loads(request), tell, lambda hub: threading.Thread(target=_end_with_input, args=(hub,), daemon=True).start())


if __name__ == "__main__":
    main()
