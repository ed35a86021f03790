"""Downloads beside the chat: progress, pause, going on (also in a later chat), giving up; each fault told once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specchat.app.models.downloads import Download, Downloads
from specchat.backends.files.hub_listing import look_up
from specchat.backends.files.hub_transfer import PART

from ...fakes.models.hub_server import Hub, serving

WEIGHTS = bytes(range(256)) * 2000


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "hub", monkeypatch) as running:
        running.repositories["me/tiny"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        running.repositories["me/gguf"] = {"t-Q8_0.gguf": WEIGHTS, "t-UD-Q8_0.gguf": WEIGHTS, "t-Q4_K_M.gguf": b"x"}
        yield running


@pytest.fixture
def downloads(tmp_path: Path) -> Iterator[Downloads]:
    made = Downloads(tmp_path / "downloads.json")
    yield made
    made.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def start(downloads: Downloads, name: str = "me/tiny", offer: int = 0) -> Download:
    return downloads.start(look_up(name).offers[offer])


def parts(tmp_path: Path) -> list[int]:
    return [file.stat().st_size for file in tmp_path.rglob(f"*{PART}")]


def test_a_download_runs_to_its_end_and_says_so_once(hub: Hub, downloads: Downloads) -> None:
    download = start(downloads)
    assert downloads.active
    until(lambda: download.state == "done")
    assert download.done == download.total == len(WEIGHTS) + 2
    assert sorted(download._told) == list(download._told) != []
    assert list(downloads.news) == [download]
    assert look_up("me/tiny").offers[0].here
    assert not downloads.active


def test_rate_and_time_left_are_those_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.models.downloads.monotonic", lambda: 100.0)
    download = Download("me/tiny", total=1000, done=600, state="running")
    for told, rate, left in (
        ([], 0, None),
        ([(99.6, 300), (99.9, 600)], 0, None),
        ([(90.0, 0), (96.0, 200), (99.9, 600)], 100, 4),
        ([(90.0, 0), (94.0, 600)], 0, None),
    ):
        download._told = deque(told)
        assert (download.rate, download.seconds_left) == (rate, left)


def test_one_that_is_paused_goes_on_where_it_was(hub: Hub, downloads: Downloads, tmp_path: Path) -> None:
    hub.seconds_a_block = 0.1
    download = start(downloads)
    until(lambda: download.done > 100_000)
    downloads.pause(download)
    assert download.state == "paused"
    until(lambda: download._thread is not None and not download._thread.is_alive())
    (there,) = parts(tmp_path)
    hub.asked.clear()
    hub.seconds_a_block = 0
    downloads.go_on(download)
    until(lambda: download.state == "done")
    assert hub.bodies() == [f"bytes={there}-{len(WEIGHTS) - 1}"]


def test_pausing_and_going_on_at_once_fetches_nothing_twice(hub: Hub, downloads: Downloads) -> None:
    hub.seconds_a_block = 0.1
    download = start(downloads)
    until(lambda: download.done > 100_000)
    for _ in range(3):
        downloads.pause(download)
        downloads.go_on(download)
    hub.seconds_a_block = 0
    until(lambda: download.state == "done")
    begun = [int(span.removeprefix("bytes=").partition("-")[0]) if span else 0 for span in hub.bodies()]
    assert begun == sorted(begun)
    assert begun[1] > 100_000


def test_a_later_chat_finds_it_and_goes_on(hub: Hub, downloads: Downloads, tmp_path: Path) -> None:
    hub.seconds_a_block = 0.1
    download = start(downloads, "me/gguf", 1)
    until(lambda: download.done > 100_000)
    downloads.close()
    until(lambda: download._thread is not None and not download._thread.is_alive())
    (there,) = parts(tmp_path)
    later = Downloads(tmp_path / "downloads.json")
    (found,) = later.all.values()
    assert (found.spec, found.state, found.done, found.total) == ("me/gguf:Q8_0", "paused", there, len(WEIGHTS))
    hub.seconds_a_block = 0
    hub.asked.clear()
    later.go_on(found)
    until(lambda: found.state == "done")
    assert hub.bodies(".gguf") == [f"bytes={there}-{len(WEIGHTS) - 1}"]
    assert not Downloads(tmp_path / "downloads.json").all


def test_of_a_quantization_only_its_own_files_are_fetched(hub: Hub, downloads: Downloads) -> None:
    download = start(downloads, "me/gguf", 1)
    until(lambda: download.state == "done")
    assert {path for method, path, _ in hub.asked if method == "GET" and path.endswith(".gguf")} == {
        "/me/gguf/resolve/0123456789abcdef0123456789abcdef01234567/t-Q8_0.gguf"
    }


def test_one_that_is_given_up_leaves_nothing(hub: Hub, downloads: Downloads, tmp_path: Path) -> None:
    hub.seconds_a_block = 0.1
    download = start(downloads)
    until(lambda: download.done > 100_000)
    downloads.cancel(download)
    assert not downloads.all
    until(lambda: not parts(tmp_path))
    assert not downloads.news


def test_one_of_an_earlier_chat_can_be_given_up(hub: Hub, downloads: Downloads, tmp_path: Path) -> None:
    hub.seconds_a_block = 0.1
    download = start(downloads)
    until(lambda: download.done > 100_000)
    downloads.close()
    until(lambda: download._thread is not None and not download._thread.is_alive())
    later = Downloads(tmp_path / "downloads.json")
    later.cancel(next(iter(later.all.values())))
    until(lambda: not parts(tmp_path))


def test_a_fault_is_one_sentence_and_it_can_be_tried_again(hub: Hub, downloads: Downloads) -> None:
    offer = look_up("me/tiny").offers[0]
    hub.refuse_files = (403, "GatedRepo")
    download = downloads.start(offer)
    until(lambda: download.state == "failed")
    assert "licence" in download.sentence
    assert "\n" not in download.sentence
    assert list(downloads.news) == [download]
    hub.refuse_files = None
    downloads.go_on(download)
    until(lambda: download.state == "done")


@pytest.mark.parametrize("text", ["", "{", "[1, {}]", '[{"spec": "a/b", "files": [], "total": 1, "missing": [[1]]}]'])
def test_a_damaged_record_is_no_trouble(tmp_path: Path, text: str) -> None:
    (tmp_path / "downloads.json").write_text(text)
    assert not Downloads(tmp_path / "downloads.json").all


def test_a_record_cannot_name_other_files_to_delete(tmp_path: Path) -> None:
    victim = tmp_path / "mine" / f"notes{PART}"
    victim.parent.mkdir()
    victim.write_text("important")
    entry = '[{"spec": "a/b", "files": [], "total": 9, "missing": [["n", "u", 9, "e", "%s", "%s"]]}]'
    (tmp_path / "downloads.json").write_text(entry % (victim.with_name("notes"), tmp_path / "lock"))
    assert not Downloads(tmp_path / "downloads.json").all
