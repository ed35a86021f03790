"""A Hub, a mirror or a network that misbehaves: a sentence within its time, nothing outside the cache, and always a way out."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Cancelled, LoadOptions, UserError
from specchat.backends.files.hub import fetch, locate
from specchat.backends.files.hub_client import keeps_secrets
from specchat.backends.files.hub_contents import fit
from specchat.backends.files.hub_listing import look_up

from ...fakes.models.hub_server import COMMIT, Handler, Hub, serving

FILES = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "model.safetensors": bytes(range(256)) * 100}

SECONDS = 60
"""For what ends within one: machines are busy."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LONG = HEAD + b"Content-Length: 5000\r\n\r\n"
PAGE = b"<html><body>Log in to Hotel Wi-Fi</body></html>"

Fault = Callable[[Handler, str], Any]


def patience(monkeypatch: pytest.MonkeyPatch, seconds: float, *names: str) -> None:
    """The user's time limits, all or some of them."""
    for name in names or ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", seconds)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    patience(monkeypatch, SECONDS)
    monkeypatch.setattr("specchat.backends.files.hub_client.POLL_SECONDS", 0.02)
    monkeypatch.setattr("specchat.backends.files.hub_transfer.TRIES", 2)
    with serving(tmp_path / "cache", monkeypatch) as running:
        running.repositories["me/tiny"] = dict(FILES)
        yield running


def answering(hub: Hub, fault: Fault, part: str) -> None:
    """Let a fault answer the requests whose path has `part` in it."""

    def hostile(handler: Handler, path: str) -> bool:
        if part not in path:
            return False
        fault(handler, path)
        return True

    hub.hostile = hostile


def told(**changes: Any) -> Fault:
    """A description of a model with other entries."""
    import json

    def fault(handler: Handler, path: str) -> None:
        plain = handler.told("me/tiny", FILES)
        handler.answer(200, json.dumps(plain | changes).encode())

    return fault


def named(name: str) -> Fault:
    """A list of files with one of this name."""
    return told(siblings=[{"rfilename": name, "size": 4, "blobId": "a" * 40}])


def sends(body: bytes, status: int = 200, **headers: str) -> Fault:
    return lambda handler, path: handler.answer(status, body, **headers)


def redirect(to: str) -> Fault:
    def fault(handler: Handler, path: str) -> None:
        if "login" in path:
            return handler.answer(200, PAGE, Content_Type="text/html")
        return handler.answer(302, Location=to)

    return fault


def endless(handler: Handler, path: str) -> None:
    handler.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not handler.hub.stop.is_set():
        handler.raw(b"10000\r\n" + b" " * 65_536 + b"\r\n")


def silent(handler: Handler, path: str) -> None:
    handler.hub.stop.wait(SECONDS)


def drips_headers(handler: Handler, path: str) -> None:
    handler.drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x")


def drips_body(handler: Handler, path: str) -> None:
    handler.drip(LONG, b" ")


def drips_continue(handler: Handler, path: str) -> None:
    handler.drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n")


BOMB = gzip.compress(bytes(50_000_000), 9)

NONSENSE = "sent something that is not a model description, so nothing was downloaded. Check HF_ENDPOINT"
LISTS = {
    "garbage": (sends(b"\x00\xff\x17garbage"), NONSENSE),
    "empty": (sends(b""), NONSENSE),
    "a list": (sends(b"[1, 2]"), NONSENSE),
    "deep lists": (sends(b"[" * 100_000), NONSENSE),
    "deep tables": (sends(b'{"a":' * 100_000), NONSENSE),
    "a number of a million digits": (sends(b'{"sha": 1' + b"0" * 1_000_000 + b"}"), NONSENSE),
    "a gzip bomb": (sends(BOMB, Content_Encoding="gzip"), "sent compressed data"),
    "no end": (endless, "sent more than 16 MB"),
    "silence": (silent, r"cannot be reached \(no answer within 0.4 s\)"),
    "headers that drip": (drips_headers, r"cannot be reached \(no answer within 0.4 s\)"),
    "interim answers without end": (drips_continue, r"cannot be reached \(no answer within 0.4 s\)"),
    "a body that drips": (drips_body, r"cannot be reached \((fewer than 1000 bytes arrived in|no answer within) 0.4 s\)"),
    "a body that ends early": (lambda handler, path: handler.raw(LONG + b"{"), "cannot be reached"),
    "no HTTP": (lambda handler, path: handler.raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "cannot be reached"),
    "headers without end": (lambda handler, path: handler.drip(HEAD, b"X: " + b"x" * 9000 + b"\r\n", 0), "cannot be reached"),
    "redirects in a circle": (redirect("/api/models/me/tiny"), "more than 8 redirects"),
    "a redirect to nowhere": (sends(b"", 302, Location="http://[::"), "redirect that leads nowhere|cannot be"),
    "a captive portal": (sends(PAGE, Content_Type="text/html; charset=utf-8"), "sent a web page.* needs a login"),
    "a captive portal without a type": (sends(PAGE), "sent a web page"),
    "a captive portal's redirect": (redirect("/login?next=/api/models/me/tiny"), "sent a web page"),
    "network authentication required": (sends(PAGE, 511, Content_Type="text/html"), "sent a web page"),
    "a commit id that leads out": (told(sha="../.."), "without a commit id"),
    "a commit id with folders": (told(sha="a/b"), "without a commit id"),
    "an empty commit id": (told(sha=""), "without a commit id"),
    "a commit id that is a number": (told(sha=5), "without a commit id"),
    "no files": (told(siblings=None), "without a commit id and a file list"),
    "a name with NUL": (named("a\0.json"), "whose name is not safe to write here"),
    "a name with backslashes": (named("..\\..\\a.json"), "whose name is not safe to write here"),
    "a name with an escape": (named("\x1b]0;x\x07.json"), "whose name is not safe to write here"),
    "a name of half a character": (named("\ud800.json"), "whose name is not safe to write here"),
    "a long name": (named("n" * 300 + ".json"), "whose name is not safe to write here"),
    "a refusal without end": (lambda handler, path: handler.drip(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65_536, 0), "answered 500"),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS)
def test_a_list_of_files_that_is_none(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    fault, sentence = LISTS[case]
    if "0.4 s" in sentence:
        patience(monkeypatch, 0.4)
    answering(hub, fault, "")
    for ask in (lambda: locate("me/tiny", LoadOptions()), lambda: look_up("me/tiny")):
        begun = time.monotonic()
        with pytest.raises(UserError, match=sentence) as caught:
            ask()
        assert time.monotonic() - begun < SECONDS
        assert str(caught.value).isprintable()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() or file.is_symlink()]


def drips_file(handler: Handler, path: str) -> None:
    handler.raw(LONG)
    for byte in FILES["model.safetensors"]:
        handler.raw(bytes([byte]))
        handler.hub.stop.wait(0.02)


FETCHES = {
    "a body that drips": (drips_file, r"broke off \((fewer than 1000 bytes arrived in|no answer within) 0.4 s\)"),
    "headers that drip": (drips_headers, r"broke off \(no answer within 0.4 s\)"),
    "no end": (endless, r"broke off \(the server sent more than the file should have\)"),
    "a gzip bomb": (sends(BOMB, Content_Encoding="gzip"), "sent compressed data"),
    "a captive portal": (sends(PAGE, Content_Type="text/html"), "sent a web page"),
    "a captive portal's redirect": (redirect("/login/resolve"), "sent a web page"),
    "too little": (sends(b"x"), r"broke off \(the connection ended too early\)"),
}


@pytest.mark.parametrize("case", FETCHES)
def test_a_file_that_is_none(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    fault, sentence = FETCHES[case]
    if "0.4 s" in sentence:
        patience(monkeypatch, 0.4, "HF_HUB_DOWNLOAD_TIMEOUT")
    answering(hub, fault, "/model.safetensors" if "drip" in case else "resolve")
    with pytest.raises(UserError, match=sentence):
        locate("me/tiny", LoadOptions())
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size > len(FILES["model.safetensors"])
    ]
    assert not list(tmp_path.rglob("snapshots"))
    hub.hostile = None
    patience(monkeypatch, SECONDS)
    assert (locate("me/tiny", LoadOptions()) / "model.safetensors").read_bytes() == FILES["model.safetensors"]


@pytest.mark.parametrize("fault", [silent, drips_headers, drips_body, drips_continue])
@pytest.mark.parametrize("part", ["/api/", "/resolve/"])
def test_every_wait_can_be_cancelled(hub: Hub, monkeypatch: pytest.MonkeyPatch, fault: Fault, part: str) -> None:
    patience(monkeypatch, 300)
    waiting, ended = threading.Event(), threading.Event()

    def faulty(handler: Handler, path: str) -> None:
        waiting.set()
        fault(handler, path)

    answering(hub, faulty, part)

    def run() -> None:
        with pytest.raises(Cancelled):
            locate("me/tiny", LoadOptions(), cancelled=waiting.is_set)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(SECONDS)


def test_lists_are_not_followed_from_page_to_page(hub: Hub) -> None:
    hub.hostile = lambda handler, path: "/tree/" in path or (
        path.startswith("/api/") and told()(handler, path) is None
    )  # fmt: skip
    locate("me/tiny", LoadOptions())
    assert [path for _, path, _ in hub.asked if path.startswith("/api/")] == ["/api/models/me/tiny"]


@pytest.mark.parametrize(
    ("etag", "size"), [("", "4"), ('""', "4"), ("../../x", "4"), ("a" * 40, ""), ("a" * 40, "-4"), ("a" * 40, "9" * 30)]
)
def test_an_etag_or_a_size_that_is_none(hub: Hub, tmp_path: Path, etag: str, size: str) -> None:
    def fault(handler: Handler, path: str) -> None:
        if handler.command == "HEAD":
            handler.raw(f"HTTP/1.1 200 OK\r\nETag: {etag}\r\nX-Linked-Size: {size}\r\n\r\n".encode())
        else:
            told(siblings=[{"rfilename": "config.json", "size": True, "blobId": "../../x"}])(handler, path)

    answering(hub, fault, "")
    with pytest.raises(UserError, match=r"no usable size or checksum \(ETag\) for config.json"):
        locate("me/tiny", LoadOptions())
    assert not list(tmp_path.rglob("x"))


@pytest.mark.parametrize("name", ["../x.gguf", "/tmp/x-Q8_0.gguf", "a//x-Q8_0.gguf", "./x-Q8_0.gguf", "a/../../x-Q8_0.gguf"])
def test_gguf_names_that_lead_out(hub: Hub, tmp_path: Path, name: str) -> None:
    answering(hub, named(name), "/api/")
    for ask in (lambda: look_up("me/tiny"), lambda: fetch("me/tiny", None, None, None, ["*.gguf"], ())):
        with pytest.raises(UserError, match="whose name is not safe to write here"):
            ask()
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_file_and_a_folder_of_one_name(hub: Hub, tmp_path: Path) -> None:
    siblings = [{"rfilename": name, "size": 2, "blobId": None} for name in ("a.gguf", "a.gguf/b.gguf")]
    hub.repositories["me/tiny"] |= {"a.gguf": b"{}", "a.gguf/b.gguf": b"{}"}
    hub.info["me/tiny"] = {"siblings": siblings}
    with pytest.raises(UserError, match="Could not download"):
        fetch("me/tiny", None, None, None, ["*.gguf"], ())


@pytest.mark.parametrize("revision", ["../../x", "/x", "a\0b", "", "a\\b"])
def test_revisions_that_lead_out(hub: Hub, tmp_path: Path, revision: str) -> None:
    with pytest.raises(UserError, match="not a revision"):
        locate("me/tiny", LoadOptions(revision=revision))
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_what_is_in_the_cache_works_behind_a_captive_portal(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = locate("me/tiny", LoadOptions())
    patience(monkeypatch, 0.4)
    for case in ("a captive portal", "garbage", "headers that drip"):
        answering(hub, LISTS[case][0], "")
        assert locate("me/tiny", LoadOptions()) == folder
    hub.asked.clear()
    assert locate("me/tiny", LoadOptions(revision=COMMIT)) == folder
    assert hub.asked == [], "a commit does not change"


def test_a_cache_with_a_part_of_it_is_no_model(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = locate("me/tiny", LoadOptions())
    patience(monkeypatch, 0.4)
    (folder / "model.safetensors").unlink()
    answering(hub, silent, "")
    with pytest.raises(UserError, match="cannot be reached"):
        locate("me/tiny", LoadOptions())


def test_many_names_do_not_take_long(hub: Hub) -> None:
    names = ["-".join(f"{i}{'ab' * 3}{j}" for j in range(12)) + ".gguf" for i in range(20_000)]
    hub.hostile = lambda handler, path: told(siblings=[{"rfilename": name, "size": 1} for name in names])(handler, path) is None
    begun = time.monotonic()
    assert 0 < len(look_up("me/tiny").offers) <= 500
    assert time.monotonic() - begun < SECONDS


# The token


@pytest.fixture
def token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return "Bearer hf_secret"


@pytest.mark.parametrize(
    ("url", "may"),
    [
        ("https://huggingface.co/x", True),
        ("http://127.0.0.1:8080/x", True),
        ("http://localhost/x", True),
        ("http://[::1]:80/x", True),
        ("http://huggingface.co/x", False),
        ("http://127.0.0.1.example/x", False),
        ("http://127.0.0.1@example/x", False),
        ("http://192.168.1.2/x", False),
        ("http://[::/x", False),
        ("ftp://huggingface.co", False),
    ],
)
def test_where_a_token_may_go(monkeypatch: pytest.MonkeyPatch, url: str, may: bool) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert keeps_secrets(url) is may


def test_a_token_goes_to_a_server_on_this_machine(hub: Hub, token: str) -> None:
    look_up("me/tiny")
    locate("me/tiny", LoadOptions())
    assert set(hub.tokens) == {token}


def test_a_token_goes_to_no_other_plain_http_server(hub: Hub, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The server on this machine stands in for all others: as the proxy through which they are reached.
    monkeypatch.setenv("http_proxy", hub.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://hub.example")
    asked: list[str] = []

    def proxy(handler: Handler, path: str) -> bool:
        asked.append(path)
        handler.path = handler.path.removeprefix("http://hub.example")
        hub.hostile = None
        handler.do_GET()
        hub.hostile = proxy
        return True

    hub.hostile = proxy
    look_up("me/tiny")
    locate("me/tiny", LoadOptions())
    assert len(asked) >= 5
    assert all(path.startswith("http://hub.example/") for path in asked)
    assert set(hub.tokens) == {""}
    hub.hostile, hub.refuse = None, (401, "")
    with pytest.raises(
        UserError, match=r"denies access to me/tiny \(401\).* Your token was not sent to hub.example, which is not https"
    ):
        look_up("me/tiny")


def test_a_token_goes_to_no_other_host_by_redirect(
    hub: Hub, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "cache", monkeypatch) as other:
        other.repositories["me/tiny"] = dict(FILES)
        monkeypatch.delenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
        answering(hub, lambda handler, path: handler.answer(307, Location=f"{other.address}{handler.path}"), "")
        locate("me/tiny", LoadOptions())
        look_up("me/tiny")
        assert set(hub.tokens) == {token}
        assert set(other.tokens) == {""}


# The program


@pytest.mark.parametrize(
    ("command", "fault", "sentence"),
    [
        (["models", "me/tiny"], drips_headers, "cannot be reached (no answer within 1 s)"),
        (["models", "me/tiny", "--fetch"], sends(PAGE, Content_Type="text/html"), "sent a web page"),
        (["run", "--model", "me/tiny:Q8_0", "hi"], named("..\\x-Q8_0.gguf"), "whose name is not safe to write here"),
    ],
)
def test_the_program_says_it(hub: Hub, tmp_path: Path, command: list[str], fault: Fault, sentence: str) -> None:
    answering(hub, fault, "")
    seconds = "1" if fault is drips_headers else "300"  # the others answer at once, on a machine that has the time
    done = subprocess.run(
        [sys.executable, "-m", "specchat", *command],
        env={**os.environ, "HF_HUB_ETAG_TIMEOUT": seconds, "HF_HUB_DOWNLOAD_TIMEOUT": seconds, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("HF_ENDPOINT", "hub.example", "Cannot send a request to hub.example"),
        ("HF_ENDPOINT", "http://[::", "huggingface_hub cannot read one of its environment variables"),
        ("HF_HUB_ETAG_TIMEOUT", "soon", "huggingface_hub cannot read one of its environment variables"),
        ("ALL_PROXY", "nonsense://x", "connection settings cannot be used"),
        ("SSL_CERT_FILE", "/no/such/file", "connection settings cannot be used"),
    ],
)
def test_variables_that_cannot_be_used(tmp_path: Path, variable: str, value: str, sentence: str) -> None:
    code = (
        "from specchat.backends.files.hub_listing import look_up as f\ntry: f('me/tiny')\nexcept Exception as e: print(repr(e))"
    )
    environment = {**os.environ, "HF_ENDPOINT": "https://127.0.0.1:9", "HF_HUB_CACHE": str(tmp_path), variable: value}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.startswith("UserError")
    assert sentence in done.stdout


@pytest.mark.parametrize(
    ("name", "may"), [("a.json", True), ("a/b c.gguf", True), ("ü.json", True), ("..", False), ("a/..", False), ("", False)]
)
def test_names_that_fit(name: str, may: bool) -> None:
    assert fit(name) is may
