"""Models by name, against a Hub of our own: what is fetched, cancelled, gone on with and found in the cache; failures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from specchat.backends import Cancelled, LoadOptions, UserError
from specchat.backends.files import hub_process
from specchat.backends.files.hub import fetch, locate, look_up
from specchat.backends.files.hub_files import INCOMPLETE, chosen

from ...fakes.engines import wait_until
from ...fakes.models.hub_server import COMMIT, Handler, Hub, serving, unfinished

WEIGHTS = bytes(range(256)) * 2000
FILES = {
    "config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickle", "README.md": b"read me", "onnx/model.safetensors": b"another format",
}  # fmt: skip
WANTED = {"config.json", "tokenizer.json", "model.safetensors"}
TOTAL = sum(len(FILES[name]) for name in WANTED)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "cache", monkeypatch) as running:
        running.repositories["me/tiny"] = dict(FILES)
        yield running


def failing(ask: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as caught:
        ask()
    text = str(caught.value)
    assert text.isprintable()
    assert text.endswith(".")
    return text


def told(request: str = "fetch", revision: str | None = None, spec: str = "me/tiny") -> list[dict[str, Any]]:
    """Answer a request in this process, and return what was sent."""
    errors: list[dict[str, Any]] = []
    hub_process.answer({request: spec, "revision": revision}, errors.append)
    return errors


def sends(body: bytes, ending: str = "") -> Callable[[Handler, str], bool]:
    """Answer so wherever the path ends so."""

    def fault(handler: Handler, path: str) -> bool:
        if matching := path.endswith(ending):
            handler.answer(200, body)
        return matching

    return fault


def whole(folder: Path) -> bool:
    return (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_what_is_no_model_is_a_sentence(tmp_path: Path) -> None:
    assert locate(str(tmp_path), LoadOptions()) == tmp_path
    for spec in ("xyz", "some/where/deep", "./model", "/no/where", "~/nowhere"):
        assert re.search(f"There is no model or folder {spec}.*`builtin`", failing(partial(locate, spec, LoadOptions())))
    assert "not a name on the Hub" in told(spec="a--b/..c")[-1]["error"]


def test_only_what_is_needed_is_fetched_and_only_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    progress: list[tuple[str, int, int]] = []
    folder = fetch("me/tiny", progress=lambda *what: progress.append(what))
    assert {file.name for file in folder.iterdir()} == WANTED
    assert whole(folder)
    assert {(stage, total) for stage, _, total in progress} == {("download", TOTAL)}
    done = [what[1] for what in progress]
    assert done == sorted(done)
    assert done[-1] == TOTAL

    hub.asked.clear()
    assert told()[-1] == {"path": str(folder)}
    assert not [path for method, path, _ in hub.asked if method == "GET" and "/resolve/" in path]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.asked.clear()
    assert fetch("me/tiny") == folder
    assert fetch("me/tiny", COMMIT) == folder
    assert hub.asked == []
    (folder / "model.safetensors").unlink()
    assert "is not in the cache, and HF_HUB_OFFLINE is set" in failing(lambda: fetch("me/tiny"))


def test_a_connection_cut_in_the_middle_is_taken_up_where_it_broke(hub: Hub) -> None:
    hub.cut_after = [131_072]
    assert whole(Path(told()[-1]["path"]))
    first, second = hub.bodies("/model.safetensors")
    assert (first, second) == ("", "bytes=131072-")


def test_a_cancel_ends_a_wait_and_leaves_what_is_whole(hub: Hub, tmp_path: Path) -> None:
    hub.stall_after = 131_072
    before, children = {*psutil.Process().children()}, set[psutil.Process]()

    def cancelled() -> bool:
        children.update({*psutil.Process().children()} - before)
        return hub.stalled.is_set() and len(unfinished(tmp_path)) == 1 and len([*tmp_path.rglob("snapshots/*/*.json")]) == 2

    with pytest.raises(Cancelled):
        fetch("me/tiny", cancelled=cancelled)
    assert children
    assert not any(child.is_running() for child in children)
    assert unfinished(tmp_path) == []
    hub.stall_after = None
    hub.asked = []
    assert whole(fetch("me/tiny"))
    assert hub.bodies("/model.safetensors") == [""], "a file that is not whole begins again"
    assert not hub.bodies(".json")
    assert look_up("me/tiny").offers[0].here


@pytest.mark.parametrize("killed", ["the one that asked", "the process itself"])
def test_the_process_ends_with_the_one_that_asked(hub: Hub, tmp_path: Path, killed: str) -> None:
    hub.stall_after = 131_072
    code = "from specchat.backends.files.hub import fetch; fetch('me/tiny')"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as asking:
        try:
            # The last bytes that came may still be in the writer's buffer.
            wait_until(lambda: hub.stalled.is_set() and len(unfinished(tmp_path)) == 1 and any(unfinished(tmp_path)))
            (child,) = psutil.Process(asking.pid).children()
            (asking if killed == "the one that asked" else child).kill()
        except BaseException:
            asking.kill()
            raise
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    if killed == "the one that asked":
        wait_until(lambda: unfinished(tmp_path) == [])
        return
    # What a process leaves that was killed itself is taken away by the next one, once it has lain for an hour.
    (part,) = tmp_path.rglob(f"*{INCOMPLETE}")
    hub.stall_after = None
    for age, left in ((0, unfinished(tmp_path)), (2 * hub_process.STALE_SECONDS, [])):
        os.utime(part, (time.time() - age,) * 2)
        assert "path" in told()[-1]
        assert unfinished(tmp_path) == left


def test_without_room_nothing_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=200_000))
    text = told()[-1]["error"]
    assert "me/tiny needs 0.0 GB of disk space, but " in text
    assert "HF_HOME" in text
    assert hub.bodies() == []


@pytest.mark.parametrize(("status", "code", "sentence"), [
    (404, "RepoNotFound", "There is no model me/tiny on the Hub"),
    (401, "GatedRepo", "requires you to accept its licence.*`hf auth login`"),
    (404, "RevisionNotFound", "me/tiny has no revision None"), (403, "", r"refuses me/tiny \(403\)[.] Run `hf auth login`"),
])  # fmt: skip
@pytest.mark.parametrize("request_", ["list", "fetch"])
def test_refusals_are_sentences(hub: Hub, request_: str, status: int, code: str, sentence: str) -> None:
    hub.refuse = (status, code)
    (refusal,) = told(request_)
    assert re.search(sentence, refusal["error"])


@pytest.mark.parametrize("body", [None, b"", b"[1, 2]", b"<!DOCTYPE html><title>Log in", b'{"id": "x", "siblings": 1}'])
def test_a_hub_that_cannot_be_reached_or_read(hub: Hub, monkeypatch: pytest.MonkeyPatch, body: bytes | None) -> None:
    hub.hostile = sends(body or b"")
    if body is None:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    (refusal,) = told()
    assert re.search(rf"Could not reach or read me/tiny on the Hub \({'.*refused' if body is None else '.'}", refusal["error"])


def test_names_that_lead_out_or_hold_escapes_are_left_out(hub: Hub) -> None:
    names = ("../x-Q8_0.gguf", "/tmp/x-Q8_0.gguf", "a/../../x-Q8_0.gguf", "a\\x-Q8_0.gguf", "\x1b]0;x\x07-Q8_0.gguf")
    hub.repositories["me/tiny"] = dict.fromkeys(names, b"GGUF")
    assert told("list")[-1]["offers"] == ()
    assert "it has no GGUF files" in told(spec="me/tiny:Q8_0")[-1]["error"]


@pytest.mark.parametrize(("address", "may"), [
    ("https://huggingface.co", True), ("http://127.0.0.1:8080", True), ("http://localhost", True),
    ("http://huggingface.co", False), ("http://127.0.0.1.example", False), ("http://127.0.0.1@example", False),
])  # fmt: skip
def test_where_a_token_may_go(monkeypatch: pytest.MonkeyPatch, address: str, may: bool) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert hub_process.Hub("me/tiny", None).access["token"] is (None if may else False)


def test_a_token_goes_with_every_request(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    told("list")
    told()
    assert set(hub.tokens) == {"Bearer hf_secret"}


def test_a_repository_tells_its_quantizations_with_their_sizes(hub: Hub) -> None:
    hub.repositories["me/tiny"] = {
        "README.md": b"", "tiny-Q8_0.gguf": bytes(900), "tiny-UD-Q8_0.gguf": bytes(950), "tiny.Q4_K_M.gguf": bytes(500),
        "tiny-IQ2_XXS.gguf": bytes(300), "mmproj-tiny-F16.gguf": bytes(50), "BF16/tiny-BF16-00001-of-00002.gguf": bytes(1000),
        "BF16/tiny-BF16-00002-of-00002.gguf": bytes(800),
    }  # fmt: skip
    hub.info["me/tiny"] = {"gguf": {"total": 1234, "architecture": "qwen3", "context_length": 40960}, "gated": "manual"}
    repository = look_up("me/tiny:Q8_0")
    assert [(offer.spec, offer.quantization, offer.size) for offer in repository.offers] == [
        ("me/tiny:IQ2_XXS", "IQ2_XXS", 300),
        ("me/tiny:Q4_K_M", "Q4_K_M", 500),
        ("me/tiny:Q8_0", "Q8_0", 900),
        ("me/tiny:UD-Q8_0", "Q8_0", 950),
        ("me/tiny:BF16", "BF16", 1800),
    ]
    assert (repository.architecture, repository.parameters, repository.context) == ("qwen3", 1234, 40960)
    assert repository.gated


def test_a_repository_tells_its_safetensors(hub: Hub) -> None:
    config = b'{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8, "hidden_size": 32}'
    hub.repositories["me/tiny"]["config.json"] = config
    hub.info["me/tiny"] = {"safetensors": {"parameters": {"BF16": 256_000}, "total": 256_000}}
    repository = look_up("me/tiny")
    (offer,) = repository.offers
    assert (offer.spec, offer.kind, offer.quantization) == ("me/tiny", "safetensors", "BF16")
    assert offer.files == ("config.json", "model.safetensors", "tokenizer.json")
    assert (offer.weights, offer.cached, offer.here) == (512_000, 0, False)
    assert (repository.cache_numbers, repository.parameters, repository.architecture) == (2 * 2 * 4 * 8, 256_000, "llama")


def test_the_files_of_a_quantization() -> None:
    names = ["q-Q8_0.gguf", "mmproj-q-Q8_0.gguf", "q.Q4_K_M.gguf", "q-UD-Q4_K_M.gguf", "B/q-BF16-00001-of-00002.gguf"]
    names.append("B/q-BF16-00002-of-00002.gguf")
    files = {"q4_k_m": names[2:3], "UD-Q4_K_M": names[3:4], "BF16": names[4:], "Q8_0": names[:1]}
    assert {quantization: chosen("me/tiny", quantization, names) for quantization in files} == files
    text = failing(lambda: chosen("me/tiny", "Q4_K", names))
    assert text == "me/tiny has no Q4_K quantization: choose from BF16, Q4_K_M, Q8_0."
