"""Downloads beside the chat: progress, giving up, beginning again; each fault told once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from specchat.app.models.downloads import Download, Downloads
from specchat.app.models.hub import Offer, look_up
from specchat.backends.files.hub_files import INCOMPLETE as PART

from ...fakes.engines import wait_until
from ...fakes.models.hub_server import Hub, serving

WEIGHTS = bytes(range(256)) * 2000
THERE = 196_608


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "hub", monkeypatch) as running:
        running.repositories["me/tiny"] = {"config.json": b"{}", "model.safetensors": WEIGHTS}
        running.repositories["me/gguf"] = {"t-Q8_0.gguf": WEIGHTS, "t-UD-Q8_0.gguf": WEIGHTS, "t-Q4_K_M.gguf": b"x"}
        yield running


@pytest.fixture
def downloads() -> Iterator[Downloads]:
    made = Downloads()
    yield made
    made.close()


def start(downloads: Downloads, spec: str = "me/tiny") -> Download:
    kind: Literal["gguf", "safetensors"] = "gguf" if ":" in spec else "safetensors"
    return downloads.start(Offer(spec, kind, "", (), len(WEIGHTS) + 2, len(WEIGHTS), 0))


def stalled(hub: Hub, downloads: Downloads, tmp_path: Path, spec: str = "me/tiny") -> Download:
    """A download of which some bytes came, and no more will on that connection."""
    hub.stall_after = THERE
    download = start(downloads, spec)
    wait_until(lambda: hub.stalled.is_set() and len(parts(tmp_path)) == 1 and any(parts(tmp_path)))
    hub.stall_after = None
    return download


def parts(tmp_path: Path) -> list[int]:
    return [file.stat().st_size for file in tmp_path.rglob(f"*{PART}")]


def test_a_download_runs_to_its_end_and_says_so_once(hub: Hub, downloads: Downloads) -> None:
    download = start(downloads)
    assert downloads.active
    wait_until(lambda: download.state == "done")
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


def test_one_that_is_given_up_leaves_nothing_and_can_begin_again(hub: Hub, downloads: Downloads, tmp_path: Path) -> None:
    download = stalled(hub, downloads, tmp_path)
    downloads.cancel(download)
    assert not downloads.all
    wait_until(lambda: not parts(tmp_path))
    assert not downloads.news
    hub.asked.clear()
    again = start(downloads)
    wait_until(lambda: again.state == "done")
    assert hub.bodies() == [""]


def test_a_fault_is_one_sentence_and_it_can_be_tried_again(hub: Hub, downloads: Downloads) -> None:
    hub.refuse_files = (403, "GatedRepo")
    download = start(downloads)
    wait_until(lambda: download.state == "failed")
    assert "licence" in download.sentence
    assert "\n" not in download.sentence
    assert list(downloads.news) == [download]
    hub.refuse_files = None
    downloads.begin(download)
    wait_until(lambda: download.state == "done")
