"""Models by name, against a Hub of our own: what is fetched, progress, the cache, and every failure as one sentence."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Cancelled, LoadOptions, UserError
from specchat.backends.files.hub import locate

SHA = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": bytes(200_000),
    "pytorch_model.bin": b"pickle",
    "README.md": b"read me",
    "onnx/model.safetensors": b"another format",
}


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as fetching a snapshot needs."""

    asked: list[str]
    refusal: tuple[int, str] | None

    def log_message(self, *_: object) -> None:
        """Silent."""

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        type(self).asked.append(f"{self.command} {path}")
        if self.refusal is not None:
            status, code = self.refusal
            return self.answer(status, b"{}", X_Error_Code=code, Content_Type="application/json")
        entries = [{"type": "file", "path": name, "size": len(data), "oid": oid(data)} for name, data in FILES.items()]
        if path.startswith("/api/models/me/tiny/tree/"):
            return self.answer(200, json.dumps(entries).encode(), Content_Type="application/json")
        if path.startswith("/api/models/me/tiny"):
            siblings = [{"rfilename": name} for name in FILES]
            info = {"id": "me/tiny", "modelId": "me/tiny", "sha": SHA, "siblings": siblings, "tags": [], "downloads": 0}
            return self.answer(200, json.dumps(info).encode(), Content_Type="application/json")
        name = path.removeprefix(f"/me/tiny/resolve/{SHA}/")
        if name not in FILES:
            return self.answer(404, b"{}", X_Error_Code="EntryNotFound")
        data = FILES[name]
        return self.answer(200, data, ETag=f'"{oid(data)}"', X_Repo_Commit=SHA, Accept_Ranges="none")

    do_HEAD = do_GET


def oid(data: bytes) -> str:
    """A file's id as git has it."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """A running Hub, and an empty cache."""
    from huggingface_hub import constants

    class Here(Hub):
        asked: list[str] = []  # noqa: RUF012
        refusal = None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Here)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    # What HF_ENDPOINT and HF_HUB_CACHE set when the library is imported.
    for name, value in (("ENDPOINT", address), ("HF_HUB_CACHE", str(tmp_path / "cache")), ("HF_HUB_DISABLE_XET", True)):
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)
    yield Here
    server.shutdown()
    server.server_close()


def fetch(**how: Any) -> Path:
    return locate("me/tiny", LoadOptions(), **how)


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert locate(str(tmp_path), LoadOptions()) == tmp_path


def test_only_what_is_needed_is_fetched(hub: type[Hub]) -> None:
    told: list[tuple[str, int, int]] = []
    folder = fetch(progress=lambda *what: told.append(what))
    assert {file.name for file in folder.iterdir()} == {"config.json", "tokenizer.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    total = sum(len(FILES[name]) for name in ("config.json", "tokenizer.json", "model.safetensors"))
    assert {what[2] for what in told} == {total}
    assert told[-1] == ("download", total, total)
    done = [what[1] for what in told]
    assert done == sorted(done)


def test_the_second_time_nothing_is_fetched(hub: type[Hub]) -> None:
    folder = fetch()
    hub.asked.clear()
    told: list[Any] = []
    assert fetch(progress=lambda *what: told.append(what)) == folder
    assert not [line for line in hub.asked if line.startswith("GET /me/tiny/resolve")]
    assert not told


def test_what_is_in_the_cache_works_without_the_hub(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch()
    hub.refusal = (503, "")
    assert fetch() == folder


def test_a_download_can_be_cancelled_and_taken_up_again(hub: type[Hub]) -> None:
    with pytest.raises(Cancelled):
        fetch(cancelled=lambda: True)
    assert (fetch() / "model.safetensors").stat().st_size == 200_000


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (404, "RepoNotFound", "There is no model me/tiny on the Hub"),
        (401, "RepoNotFound", "There is no model me/tiny on the Hub, or it is private"),
        (403, "GatedRepo", "licence"),
        (401, "", "(There is no model|The Hub denies access)"),
        (404, "RevisionNotFound", "has no revision"),
        (503, "", "The Hub answered 503"),
    ],
)
def test_refusals_are_sentences(hub: type[Hub], status: int, code: str, sentence: str) -> None:
    hub.refusal = (status, code)
    with pytest.raises(UserError, match=sentence) as caught:
        fetch()
    assert "\n" not in str(caught.value)


def test_no_network_is_a_sentence(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"not in the cache, and the Hub cannot be reached .*[.] Check the connection"):
        fetch()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("xyz", "There is no model 'xyz'.*`builtin`"),
        ("some/where/deep", "There is no folder some/where/deep"),
        ("./model", "There is no folder ./model"),
        ("/no/where", "There is no folder /no/where"),
        ("~/nowhere", "There is no folder ~/nowhere"),
        ("a--b/..c", "not a name on the Hub"),
    ],
)
def test_what_is_no_model_is_a_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        locate(spec, LoadOptions())
