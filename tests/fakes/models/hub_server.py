"""A Hub on this machine, with the faults that a real one has: cut, slow, stalled, gated, damaged."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from specchat.backends.files.hub_files import INCOMPLETE

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Repositories that the server holds, faults that it has, and requests that it got."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Name → file → bytes. Safetensors and GGUF files are in large file storage (SHA-256), others in git (SHA-1)."""
    info: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → what the API tells besides."""
    refuse: tuple[int, str] | None = None
    """Status and error code for everything."""
    refuse_files: tuple[int, str] | None = None
    """The same for files alone, as a gated repository does."""
    cut_after: list[int] = field(default_factory=list)
    """For each of the next answers with a large file: the bytes after which to close the connection."""
    stall_after: int | None = None
    """Bytes of a large file after which to send no more."""
    hostile: Callable[[Handler, str], bool] | None = None
    """Called first with each request and its path; answers it itself if it returns True."""
    tokens: list[str] = field(default_factory=list)
    """The Authorization header of each request, empty if it had none."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and range of each request."""
    address: str = ""
    stalled: threading.Event = field(default_factory=threading.Event)
    """Set as soon as it stalls."""
    stop: threading.Event = field(default_factory=threading.Event)

    def bodies(self, ending: str = ".safetensors") -> list[str]:
        """The ranges of the requests for the bodies of files of this ending; empty for a whole one."""
        return [span for method, path, span in self.asked if method == "GET" and path.endswith(ending)]


def large(name: str) -> bool:
    return name.endswith((".safetensors", ".gguf"))


def etag(name: str, data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if large(name) else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """The part of the Hub that looking up and fetching need."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Silent."""

    def answer(self, status: int, body: bytes = b"{}", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self) -> None:
        try:
            self.respond()
        except ConnectionError:  # a client that has had enough, or has been stopped
            self.close_connection = True

    def respond(self) -> None:
        path = self.path.split("?")[0]
        self.hub.asked.append((self.command, path, self.headers.get("Range", "")))
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        if self.hub.hostile is not None and self.hub.hostile(self, path):
            return None
        if self.hub.refuse is not None:
            status, code = self.hub.refuse
            return self.answer(status, X_Error_Code=code)
        for name, files in self.hub.repositories.items():
            if path.startswith(f"/api/models/{name}/tree/"):
                return self.answer(200, json.dumps([self.entry(*file) for file in files.items()]).encode())
            if path == f"/api/models/{name}" or path.startswith(f"/api/models/{name}/revision/"):
                return self.answer(200, json.dumps(self.told(name, files)).encode())
            for start in (f"/{name}/resolve/{COMMIT}/", f"/{name}/resolve/main/"):
                if path.startswith(start):
                    return self.file(path.removeprefix(start), files)
        return self.answer(404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET

    def entry(self, name: str, data: bytes) -> dict[str, Any]:
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        lfs = {"lfs": {"oid": etag(name, data), "size": len(data), "pointerSize": 130}} if large(name) else {}
        return {"type": "file", "path": name, "size": len(data), "oid": oid} | lfs

    def told(self, name: str, files: dict[str, bytes]) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = []
        for file, data in files.items():
            lfs = {"lfs": {"sha256": etag(file, data), "size": len(data), "pointerSize": 130}} if large(file) else {}
            siblings.append({"rfilename": file, "size": len(data), "blobId": etag(file, data)} | lfs)
        plain = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0}
        return plain | self.hub.info.get(name, {})

    def file(self, name: str, files: dict[str, bytes]) -> None:
        hub = self.hub
        if hub.refuse_files is not None:
            status, code = hub.refuse_files
            return self.answer(status, X_Error_Code=code)
        if name not in files:
            return self.answer(404, X_Error_Code="EntryNotFound")
        data = files[name]
        names = {"ETag": f'"{etag(name, data)}"', "X_Repo_Commit": COMMIT}
        if self.command == "HEAD" or not large(name):
            return self.answer(200, data, **names)
        return self.body(data, names)

    def body(self, data: bytes, names: dict[str, str]) -> None:
        """A large file, or the asked part of it, as far as the faults let it through."""
        hub, begin, end = self.hub, 0, len(data)
        span = self.headers.get("Range", "")
        if span:
            first, _, last = span.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(end, int(last) + 1 if last else end)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        else:
            self.send_response(200)
        for name, value in names.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        most = hub.cut_after.pop(0) if hub.cut_after else end
        sent = 0
        for at in range(begin, end, 16_384):
            block = data[at : min(at + 16_384, end)][: most - sent]
            self.wfile.write(block)
            self.wfile.flush()
            sent += len(block)
            if hub.stall_after is not None and sent >= hub.stall_after:
                hub.stalled.set()
                hub.stop.wait(300)
                break
            if sent >= most:
                break
        if sent < end - begin:
            self.close_connection = True


@contextmanager
def serving(cache: Path, monkeypatch: Any) -> Iterator[Hub]:
    """A running Hub, and an empty cache."""
    from huggingface_hub import constants

    hub = Hub()

    class Here(Handler):
        pass

    Here.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Here)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    hub.address = address = f"http://127.0.0.1:{server.server_address[1]}"
    # What HF_ENDPOINT sets when the library is imported.
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    for name in ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"):  # nothing but a cancel ends a wait
        monkeypatch.setattr(constants, name, 300)
        monkeypatch.setenv(name, "300")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    try:
        yield hub
    finally:
        hub.stop.set()
        server.shutdown()
        server.server_close()


def unfinished(folder: Path) -> list[int]:
    """Sizes of the unfinished files in a cache; files and folders may go while it is read."""
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(INCOMPLETE):
                with suppress(FileNotFoundError):
                    sizes.append(os.stat(os.path.join(place, name)).st_size)
    return sizes
