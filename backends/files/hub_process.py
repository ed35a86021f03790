"""The process that talks to the Hub, through huggingface_hub. It reads one request in JSON, and writes lines of JSON.

The answer to `{"list": "owner/name"}` is the fields of a `Repository`; to `{"fetch": "owner/name:Q4_K_M"}` it is
`{"done": …, "total": …}` as bytes come, and `{"path": …}`; an error is `{"error": sentence}`. The process ends with its
standard input.

Files are fetched by huggingface_hub's `snapshot_download`. It never resumes another process's file (it writes to a new name),
so incomplete files are deleted before the process ends.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import UserError, counted
from ...plain_file import hub_cache
from ..options import BUILTIN
from .hub_files import INCOMPLETE, chosen, fit, one_line, repository_folder
from .hub_listing import MOST_SIZE, Repository, describe
from .model_card import MOST_CONFIG, parse_config

TELL_SECONDS = 0.1
"""Time between two reports of progress."""

CHUNK = 1 << 16
"""Bytes that are written at once: with huggingface_hub's 10 MB a slow download would seem to stand still."""

STALE_SECONDS = 3600
"""Age from which an unfinished file belongs to a process that was killed."""

FULL = (errno.ENOSPC, errno.EDQUOT)

Tell = Callable[[dict[str, Any]], None]


class Hub:
    """One request to the Hub.

    Args:
        spec: `owner/name`, or `owner/name:Q4_K_M`.
        revision: a branch, tag or commit; None for the default branch.

    Raises:
        UserError: huggingface_hub cannot be set up in this environment.
    """

    def __init__(self, spec: str, revision: str | None) -> None:
        self.spec = spec
        self.revision = revision
        repository, _, quantization = spec.partition(":")
        self.repository = repository
        self.quantization = quantization
        self.folder = repository_folder(self.repository)
        try:
            from huggingface_hub import HfApi, constants
        except ValueError as error:
            raise UserError(
                f"huggingface_hub cannot read one of its environment variables ({one_line(error)}). Check those that begin "
                "with HF_."
            ) from None
        self.constants = constants
        constants.DOWNLOAD_CHUNK_SIZE = CHUNK
        address = urlsplit(constants.ENDPOINT)
        self.host = one_line(address.netloc.rpartition("@")[2])
        # Others could read a token sent by plain http. None is the token that is set or stored.
        private = address.scheme == "https" or address.hostname in ("localhost", "127.0.0.1", "::1")
        self.token: bool | None = None if private else False
        self.api = HfApi(endpoint=constants.ENDPOINT, token=self.token)
        self.info: Any = None
        """The Hub's description of the repository (ModelInfo)."""
        self.files: dict[str, int] = {}
        """Its files → bytes."""
        self.done = self.total = 0
        """Bytes fetched, and in all."""
        self._earlier: set[Path] = set()
        """Unfinished files of other processes."""

    def read(self) -> None:
        """Ask for the repository's description and files."""
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.file_download import REGEX_COMMIT_HASH
        from huggingface_hub.utils import get_session, validate_repo_id  # type: ignore[attr-defined]

        validate_repo_id(self.repository)
        try:
            get_session()
        except (ImportError, ValueError, OSError) as error:  # an invalid proxy address or certificate file
            raise UserError(
                f"This shell's connection settings cannot be used ({one_line(error)}). Check HTTPS_PROXY, ALL_PROXY and "
                "SSL_CERT_FILE."
            ) from None
        try:
            self.info = self.api.model_info(
                self.repository, revision=self.revision, files_metadata=True, timeout=self.constants.HF_HUB_ETAG_TIMEOUT
            )
            for sibling in self.info.siblings:
                if fit(sibling.rfilename):
                    whole = isinstance(sibling.size, int) and 0 <= sibling.size <= MOST_SIZE
                    self.files[sibling.rfilename] = sibling.size if whole else 0
            if not REGEX_COMMIT_HASH.fullmatch(self.info.sha):
                raise ValueError
        except HfHubHTTPError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UserError(self._foreign("a model description")) from None

    def listing(self) -> Repository:
        """List the repository's offers."""
        self.read()
        config: dict[str, Any] = {}
        if 0 < self.files.get("config.json", 0) <= MOST_CONFIG:
            with suppress(Exception):  # as in a gated repository
                config = parse_config(self._config())
        return describe(self.repository, self.info, self.files, config)

    def _config(self) -> bytes:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        file = io.BytesIO()
        url = hf_hub_url(self.repository, "config.json", revision=self.info.sha, endpoint=self.constants.ENDPOINT)
        http_get(url, file, headers=build_hf_headers(token=self.token))
        return file.getvalue()

    def fetch(self, tell: Tell) -> Path:
        """Fetch the model into the cache; return its folder, or its first GGUF file."""
        from huggingface_hub import snapshot_download

        self.read()
        names = chosen(self.repository, self.quantization, list(self.files))
        snapshot = self.folder / "snapshots" / self.info.sha
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
            while not finished.wait(TELL_SECONDS):
                done = sum(size for name, size in needed.items() if (snapshot / name).exists())
                for part in self.unfinished():
                    with suppress(OSError):
                        done += part.stat().st_size
                self.done = max(self.done, min(done, self.total))
                tell({"done": self.done, "total": self.total})

        reporting = threading.Thread(target=report, daemon=True)
        reporting.start()
        try:
            folder = snapshot_download(
                self.repository,
                revision=self.revision,
                allow_patterns=[escape(name) for name in names],
                cache_dir=self.folder.parent,
                endpoint=self.constants.ENDPOINT,
                token=self.token,
                etag_timeout=self.constants.HF_HUB_ETAG_TIMEOUT,
            )
        finally:
            finished.set()
            reporting.join()
        if self.total:
            tell({"done": self.total, "total": self.total})
        return Path(folder) / names[0] if self.quantization else Path(folder)

    def _parts(self) -> Iterator[Path]:
        return (self.folder / "blobs").glob(f"*{INCOMPLETE}")

    def unfinished(self) -> list[Path]:
        """List the unfinished files of this process."""
        return [part for part in self._parts() if part not in self._earlier]

    def sentence(self, error: BaseException) -> str:
        """Explain an error, and what to do about it."""
        import httpx2
        from huggingface_hub import errors, get_token

        name, causes = self.repository, list(_causes(error))
        unsent = f" Your token was not sent to {self.host}, which is not https." if self.token is False and get_token() else ""
        for cause in causes:
            match cause:
                case UserError():
                    return str(cause)
                case errors.HFValidationError():
                    return f"{name!r} is not a name on the Hub. Give owner/name, or a folder."
                case errors.OfflineModeIsEnabled():
                    return f"{name} is not in the cache, and HF_HUB_OFFLINE is set. Unset it to ask the Hub."
                case errors.GatedRepoError():
                    return (
                        f"{name} requires you to accept its licence. Do so on its page on the Hub, then run `hf auth "
                        f"login`.{unsent}"
                    )
                case errors.RevisionNotFoundError():
                    return f"{name} has no revision {self.revision!r}. Check the branch, tag or commit."
                case errors.RepositoryNotFoundError():
                    return (
                        f"There is no model {name} on the Hub, or it is private. Check the name, or run `hf auth login` if it "
                        f"is yours.{unsent}"
                    )
                case errors.FileMetadataError():
                    return self._foreign("a file")
                case errors.HfHubHTTPError():
                    return self._status(cause.response.status_code, unsent)
                case OSError() if cause.errno in FULL:
                    return (
                        f"The disk with {self.folder.parent} is full. Free about {_bytes(self.total - self.done)} and load "
                        f"{name} again; files that are whole stay."
                    )
        broken = next((cause for cause in causes if isinstance(cause, httpx2.TransportError)), None)
        if broken is None:
            text = one_line(error) if isinstance(error, OSError) else f"{type(error).__name__}: {one_line(error)}"
            return f"Could not download {self.spec} ({text}). Check HF_ENDPOINT, HF_HUB_CACHE and the free disk space."
        reason = self._reason(broken, causes)
        if self.info is None:
            return (
                f"{self.spec} is not in the cache, and the Hub cannot be reached ({reason}). Check the connection, or use "
                f"`{BUILTIN}`, which ships with specchat."
            )
        return f"The download of {self.spec} broke off ({reason}). Load it again; files that are whole stay."

    def _foreign(self, expected: str) -> str:
        return (
            f"{self.host} sent something that is not {expected}, so nothing was downloaded. If this network needs a login, log "
            "in with a browser; otherwise check HF_ENDPOINT."
        )

    def _status(self, status: int, unsent: str) -> str:
        name = self.repository
        if status in (401, 403):
            return (
                f"The Hub denies access to {name} ({status}). Run `hf auth login` with an account that may read it, and check "
                f"HF_TOKEN if that is set.{unsent}"
            )
        if status == 429:
            return (
                f"The Hub limits how often it is asked, and refuses {name} for now (429). Try again in some minutes; `hf auth "
                "login` raises the limit."
            )
        return f"The Hub answered {status} for {name}. Try again later, or use `{BUILTIN}`."

    def _reason(self, broken: BaseException, causes: Sequence[BaseException]) -> str:
        """Explain why a connection could not be made, or ended."""
        import httpx2

        for cause in causes:
            match cause:
                case httpx2.ProxyError():
                    return f"the proxy does not let it through, {one_line(cause)}: check HTTPS_PROXY"
                case httpx2.TimeoutException():
                    return "no answer in time"
                case socket.gaierror():
                    return f"no address is known for {self.host}"
                case ssl.SSLError():
                    return f"its certificate or encryption is not accepted, {one_line(cause)}"
        return re.sub(r"^\[Errno -?\d+\] ", "", one_line(broken))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _require_room(spec: str, needed: int) -> None:
    """Refuse a download for which the disk is too small."""
    cache = hub_cache().resolve()
    for folder in (cache, *cache.parents):
        with suppress(OSError):
            free = shutil.disk_usage(folder).free
            break
    else:
        return
    if needed > free:
        raise UserError(
            f"{spec} needs {_bytes(needed)} of disk space, but {cache} has {_bytes(free)} free. Free some space, or set "
            "HF_HOME to a folder on another disk."
        )


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return counted(int(count), "byte")


def answer(request: dict[str, Any], tell: Tell, on_start: Callable[[Hub], None] = lambda _: None) -> None:
    """Carry out a request and report through `tell`; `on_start` is called with its Hub first."""
    try:
        hub = Hub(request.get("fetch") or request["list"], request.get("revision"))
        on_start(hub)
        try:
            tell({"path": str(hub.fetch(tell))} if "fetch" in request else asdict(hub.listing()))
        except Exception as error:
            tell({"error": hub.sentence(error)})
    except UserError as error:
        tell({"error": str(error)})


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
