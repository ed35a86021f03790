"""Models by name, against a Hub of our own: what is fetched, progress, the cache, and every failure as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Cancelled, LoadOptions, UserError
from specchat.backends.files.hub import locate

from ...fakes.models.hub_server import Hub, serving

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": bytes(200_000),
    "pytorch_model.bin": b"pickle",
    "README.md": b"read me",
    "onnx/model.safetensors": b"another format",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Lists names alone, as a mirror does: sizes and checksums come with the files."""
    with serving(tmp_path / "cache", monkeypatch) as running:
        running.repositories["me/tiny"] = FILES
        running.info["me/tiny"] = {"siblings": [{"rfilename": name} for name in FILES]}
        yield running


def fetch(**how: Any) -> Path:
    return locate("me/tiny", LoadOptions(), **how)


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert locate(str(tmp_path), LoadOptions()) == tmp_path


def test_only_what_is_needed_is_fetched(hub: Hub) -> None:
    told: list[tuple[str, int, int]] = []
    folder = fetch(progress=lambda *what: told.append(what))
    assert {file.name for file in folder.iterdir()} == {"config.json", "tokenizer.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    total = sum(len(FILES[name]) for name in ("config.json", "tokenizer.json", "model.safetensors"))
    assert {what[2] for what in told} == {total}
    assert told[-1] == ("download", total, total)
    done = [what[1] for what in told]
    assert done == sorted(done)


def test_the_second_time_nothing_is_fetched(hub: Hub) -> None:
    folder = fetch()
    hub.asked.clear()
    told: list[Any] = []
    assert fetch(progress=lambda *what: told.append(what)) == folder
    assert not [path for method, path, _ in hub.asked if method == "GET" and "/resolve/" in path]
    assert not told


def test_what_is_in_the_cache_works_without_the_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch()
    hub.refuse = (503, "")
    assert fetch() == folder


def test_a_download_can_be_cancelled_and_taken_up_again(hub: Hub) -> None:
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
def test_refusals_are_sentences(hub: Hub, status: int, code: str, sentence: str) -> None:
    hub.refuse = (status, code)
    with pytest.raises(UserError, match=sentence) as caught:
        fetch()
    assert "\n" not in str(caught.value)


def test_no_network_is_a_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
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
