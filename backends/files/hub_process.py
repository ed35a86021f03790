"""The process that talks to the Hub, through huggingface_hub. It reads one request in JSON, and writes lines of JSON.

`{"list": "owner/name"}` is answered by the fields of a `Repository`. `{"fetch": "owner/name:Q4_K_M"}` is answered by
`{"files": [[blob, bytes], …], "total": …}`, what will be fetched; `{"done": …, "total": …}` as bytes come; and `{"path": …}`.
Whatever goes wrong is `{"error": sentence}`. The process ends when its standard input does.

In huggingface_hub 2 a download that is broken off begins anew (`file_download._download_to_tmp_and_move` writes to a file of a
fresh name), its checksum is not looked at, and a disk that is too small is a warning. So large files come in through its
`http_get`, which goes on where a file ends, under its locks, into the place where it looks for them (`blobs/SHA-256`);
`snapshot_download` fetches the others and gives all of them their names.
"""

from __future__ import annotations

import errno
import hashlib
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
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from ...errors import UserError, counted
from ...plain_file import hub_cache
from ..options import BUILTIN
from .hub_files import Listed, Partial, chosen, fit, one_line, repository_folder
from .hub_listing import MOST_SIZE, Repository, describe
from .model_card import MOST_CONFIG, parse_config

TELL_SECONDS = 0.1
"""Between two reports of progress."""

CHUNK = 1 << 16
"""Bytes that are written at once: huggingface_hub's 10 MB would be lost when a slow download is cancelled."""

MOST_AT_ONCE = 40_000_000_000
"""Bytes asked for at once: the Hub's servers send no more than 50 GB in one answer."""

FULL = (errno.ENOSPC, errno.EDQUOT)

Tell = Callable[[dict[str, Any]], None]


class Hub:
    """One request's way to the Hub.

    Args:
        spec: `owner/name`, or `owner/name:Q4_K_M`.

    Raises:
        UserError: huggingface_hub cannot be set up by this environment.
    """

    def __init__(self, spec: str, revision: str | None) -> None:
        self.spec, self.revision = spec, revision
        self.repository, _, self.quantization = spec.partition(":")
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
        # Others would read a token along that goes by plain http; None is the token that is set or stored.
        private = address.scheme == "https" or address.hostname in ("localhost", "127.0.0.1", "::1")
        self.token: bool | None = None if private else False
        self.api = HfApi(endpoint=constants.ENDPOINT, token=self.token)
        self.told: Any = None
        """What the Hub says of the repository."""
        self.files: dict[str, Listed] = {}
        self.partials: list[Partial] = []
        """Large files to fetch."""

    def read(self) -> None:
        """Ask what the repository holds."""
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.file_download import REGEX_COMMIT_HASH
        from huggingface_hub.utils import get_session, validate_repo_id  # type: ignore[attr-defined]

        validate_repo_id(self.repository)
        try:
            get_session()
        except (ImportError, ValueError, OSError) as error:  # a proxy's address or a certificate file that is none
            raise UserError(
                f"This shell's connection settings cannot be used ({one_line(error)}). Check HTTPS_PROXY, ALL_PROXY and "
                "SSL_CERT_FILE."
            ) from None
        try:
            self.told = self.api.model_info(
                self.repository, revision=self.revision, files_metadata=True, timeout=self.constants.HF_HUB_ETAG_TIMEOUT
            )
            for each in self.told.siblings:
                size, sha256 = each.size, each.lfs.sha256 if each.lfs else ""
                if fit(each.rfilename):
                    self.files[each.rfilename] = Listed(
                        size if isinstance(size, int) and 0 <= size <= MOST_SIZE else 0,
                        sha256 if re.fullmatch("[0-9a-f]{64}", sha256) else "",
                    )
            if not REGEX_COMMIT_HASH.fullmatch(self.told.sha):
                raise ValueError
        except HfHubHTTPError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UserError(
                f"{self.host} sent something that is not a model description, so nothing was downloaded. If this network "
                "needs a login, log in with a browser; otherwise check HF_ENDPOINT."
            ) from None

    def listing(self) -> Repository:
        """What the repository offers."""
        self.read()
        config: dict[str, Any] = {}
        if 0 < self.files.get("config.json", Listed()).size <= MOST_CONFIG:
            file = io.BytesIO()
            with suppress(Exception):  # as in a gated one
                self._get("config.json", file)
                config = parse_config(file.getvalue())
        return describe(self.repository, self.told, self.files, config)

    def fetch(self, tell: Tell) -> Path:
        """Fetch the model into the cache; its folder, or its first GGUF file."""
        from huggingface_hub import snapshot_download

        self.read()
        names = chosen(self.repository, self.quantization, list(self.files))
        snapshot = self.folder / "snapshots" / self.told.sha
        needed = {name: self.files[name] for name in names if not (snapshot / name).exists()}
        large = {file.sha256: name for name, file in needed.items() if file.sha256}
        ways = {sha: Partial(self.folder / "blobs" / sha, needed[name].size) for sha, name in large.items()}
        self.partials = list(ways.values())
        total = sum(file.size for file in needed.values())
        tell({"files": [[str(way.blob), way.size] for way in self.partials], "total": total})
        _require_room(self.spec, total - sum(way.there for way in ways.values()))
        last = 0.0

        def progress() -> None:
            nonlocal last
            if time.monotonic() - last >= TELL_SECONDS:
                last = time.monotonic()
                tell({"done": sum(way.there for way in ways.values()), "total": total})

        for sha, way in sorted(ways.items(), key=lambda item: item[1].size):
            self._receive(large[sha], way, progress)
        folder = snapshot_download(
            self.repository,
            revision=self.revision,
            allow_patterns=[escape(name) for name in names],
            cache_dir=self.folder.parent,
            endpoint=self.constants.ENDPOINT,
            token=self.token,
            etag_timeout=self.constants.HF_HUB_ETAG_TIMEOUT,
        )
        if total:
            tell({"done": total, "total": total})
        return Path(folder) / names[0] if self.quantization else Path(folder)

    def _receive(self, name: str, way: Partial, progress: Callable[[], None]) -> None:
        """Fetch a large file, or the rest of it, and check it."""
        from httpx2 import TransportError
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

        lock = self.folder.parent / ".locks" / self.folder.name / f"{way.blob.name}.lock"
        for place in (lock, way.blob):
            place.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            if way.blob.exists():  # another process was faster
                return
            with suppress(FileNotFoundError):
                if way.path.stat().st_size > way.size:
                    way.path.unlink()
            while True:
                with way.path.open("ab") as file:
                    have = file.tell()
                    try:
                        for end in range(MOST_AT_ONCE, way.size, MOST_AT_ONCE):
                            if file.tell() < end:
                                self._get(name, file, end, f"bytes=0-{end - 1}", progress)
                        self._get(name, file, way.size, progress=progress)
                        break
                    except (TransportError, HfHubHTTPError):
                        if file.tell() <= have:  # huggingface_hub has tried it several times
                            raise
                    except OSError as error:
                        if error.errno is None:  # a size that is wrong: something else came
                            file.truncate(have)
                        raise
            with way.path.open("rb") as come:
                right = hashlib.file_digest(come, "sha256").hexdigest() == way.blob.name
            if not right:
                way.path.unlink()
                raise UserError(
                    f"The SHA-256 of {name} of {self.repository} does not match the Hub's, so the file was deleted. Load it "
                    "again; if this happens twice, the file on the Hub or the connection is damaged."
                )
            way.path.replace(way.blob)

    def _get(
        self, name: str, file: BinaryIO, end: int | None = None, span: str = "", progress: Callable[[], None] = lambda: None
    ) -> None:
        """Fetch what an open file lacks until a byte; None for the last one."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        class Bar:
            """The part of a progress bar that `http_get` uses."""

            def __init__(self, **_: object) -> None: ...

            def __enter__(self) -> Bar:
                return self

            def __exit__(self, *_: object) -> None: ...

            def update(self, _: float) -> None:
                progress()

        headers = build_hf_headers(token=self.token) | {"Accept-Encoding": "identity"}
        http_get(
            hf_hub_url(self.repository, name, revision=self.told.sha, endpoint=self.constants.ENDPOINT),
            file,
            resume_size=file.tell(),
            headers=headers | ({"Range": span} if span else {}),
            expected_size=end,
            tqdm_class=Bar,
        )

    def sentence(self, error: BaseException) -> str:
        """What went wrong, and what to do."""
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
                case errors.RemoteEntryNotFoundError():
                    return f"The Hub lists a file of {name} that it does not have (404). Try again later."
                case errors.HfHubHTTPError():
                    return self._status(cause.response.status_code, unsent)
                case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
                    where = one_line(self.constants.ENDPOINT)
                    return f"Cannot send a request to {where}. Check HF_ENDPOINT and the proxies."
                case OSError() if cause.errno in FULL:
                    left = sum(way.size - way.there for way in self.partials)
                    return (
                        f"The disk with {self.folder.parent} is full ({self._amount()} of {name} are here). Free about "
                        f"{_bytes(left)} and load it again; the download continues from there."
                    )
        broken = next((cause for cause in causes if isinstance(cause, httpx2.TransportError)), None)
        if broken is None:
            text = one_line(error) if isinstance(error, OSError) else f"{type(error).__name__}: {one_line(error)}"
            return f"Could not download {self.spec} ({text}). Check the free disk space and HF_HUB_CACHE."
        reason = self._reason(broken, causes)
        if self.told is None:
            return (
                f"{self.spec} is not in the cache, and the Hub cannot be reached ({reason}). Check the connection, or use "
                f"`{BUILTIN}`, which ships with specchat."
            )
        there = self._amount()
        return f"The download of {self.spec} broke off ({reason}); {there} are here. Load it again to continue from there."

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
        if status == 511:
            return f"This network needs a login before it lets you reach {self.host}. Log in with a browser, then try again."
        return f"The Hub answered {status} for {name}. Try again later, or use `{BUILTIN}`."

    def _reason(self, broken: BaseException, causes: Sequence[BaseException]) -> str:
        """Why a connection could not be made, or ended."""
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

    def _amount(self) -> str:
        return f"{_bytes(sum(way.there for way in self.partials))} of {_bytes(sum(way.size for way in self.partials))}"


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


def answer(request: dict[str, Any], tell: Tell) -> None:
    """Do what is asked, and tell what comes of it."""
    try:
        hub = Hub(request.get("fetch") or request["list"], request.get("revision"))
        try:
            tell({"path": str(hub.fetch(tell))} if "fetch" in request else asdict(hub.listing()))
        except Exception as error:
            tell({"error": hub.sentence(error)})
    except UserError as error:
        tell({"error": str(error)})


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def main() -> None:
    """Read a request from standard input, answer it on standard output."""
    request = b""
    while not request.endswith(b"\n"):
        if not (byte := os.read(0, 1)):
            return
        request += byte
    threading.Thread(target=_end_with_parent, daemon=True).start()
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print

    def tell(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    answer(json.loads(request), tell)


if __name__ == "__main__":
    main()
