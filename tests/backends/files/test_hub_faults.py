"""Downloads from a Hub with faults: what is there is not fetched again, and each fault is one sentence that says what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specchat.backends import Cancelled, LoadOptions, UserError
from specchat.backends.files.hub import locate
from specchat.backends.files.hub_listing import look_up
from specchat.backends.files.hub_transfer import PART

from ...fakes.models import hub_server
from ...fakes.models.hub_server import Hub, etag, serving

WEIGHTS = bytes(range(256)) * 2000
FILES = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "model.safetensors": WEIGHTS}
SMALL = len(FILES["config.json"]) + len(FILES["tokenizer.json"])


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "cache", monkeypatch) as running:
        running.repositories["me/tiny"] = dict(FILES)
        yield running


def fetch(**how: Any) -> Path:
    return locate("me/tiny", LoadOptions(), **how)


def failing(**how: Any) -> str:
    """The sentence that a download fails with."""
    with pytest.raises(UserError) as caught:
        fetch(**how)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


def parts(tmp_path: Path) -> list[int]:
    """Sizes of the unfinished files in the cache."""
    return [file.stat().st_size for file in tmp_path.rglob(f"*{PART}")]


def whole(folder: Path) -> bool:
    return (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_connection_cut_in_the_middle_is_taken_up_where_it_broke(hub: Hub) -> None:
    hub.cut_after = [100_000, 50_000]
    told: list[int] = []
    assert whole(fetch(progress=lambda stage, done, total: told.append(done)))
    assert hub.bodies() == ["", "bytes=100000-511999", "bytes=150000-511999"]
    assert told[-1] == len(WEIGHTS) + SMALL


def test_a_download_that_failed_goes_on_in_the_next_call(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = [100_000] + [0] * 9
    text = failing()
    assert "The download of model.safetensors of me/tiny broke off" in text
    assert "100.0 kB of 512.0 kB are here" in text
    assert "Load it again to continue from there" in text
    assert parts(tmp_path) == [100_000]
    hub.cut_after, hub.asked = [], []
    told: list[int] = []
    assert whole(fetch(progress=lambda stage, done, total: told.append(done)))
    assert hub.bodies() == ["bytes=100000-511999"]
    assert min(told) >= 100_000
    assert parts(tmp_path) == []


def test_a_cancelled_download_keeps_what_came(hub: Hub, tmp_path: Path) -> None:
    hub.seconds_a_block = 0.01
    told: list[int] = []
    with pytest.raises(Cancelled):
        fetch(progress=lambda stage, done, total: told.append(done), cancelled=lambda: max(told, default=0) > 100_000)
    (there,) = parts(tmp_path)
    assert 100_000 - SMALL < there < len(WEIGHTS)
    hub.seconds_a_block, hub.asked = 0, []
    assert whole(fetch())
    assert hub.bodies() == [f"bytes={there}-511999"]


def test_cancelling_need_not_wait_for_a_server_that_sends_nothing(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 300)
    hub.stall_after = 65_536
    stop, ended = threading.Event(), threading.Event()

    def run() -> None:
        with pytest.raises(Cancelled):
            fetch(cancelled=stop.is_set)
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 120
    while 65_536 not in parts(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    stop.set()
    assert ended.wait(120), "the read waited for the server's time limit"


def test_a_server_that_stalls_is_asked_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 2.0)
    hub.stall_after = 65_536
    told: list[int] = []

    def progress(stage: str, done: int, total: int) -> None:
        told.append(done)
        if len(hub.bodies()) > 1:
            hub.stall_after = None

    assert whole(fetch(progress=progress))
    assert hub.bodies()[:2] == ["", "bytes=65536-511999"]


def test_a_slow_server_is_waited_for_and_its_progress_told(hub: Hub) -> None:
    hub.seconds_a_block = 0.02
    told: list[int] = []
    assert whole(fetch(progress=lambda stage, done, total: told.append(done)))
    assert len(hub.bodies()) == 1
    assert len({done for done in told if SMALL < done < len(WEIGHTS)}) >= 3
    assert told == sorted(told)


def test_a_server_without_ranges_begins_anew_and_the_file_is_right(hub: Hub) -> None:
    hub.ranges, hub.cut_after = False, [100_000]
    assert whole(fetch())
    assert hub.bodies() == ["", "bytes=100000-511999"]


def test_a_busy_server_is_asked_again(hub: Hub) -> None:
    hub.busy = [503, 429, 500]
    assert whole(fetch())


def test_a_server_that_stays_busy_is_given_up(hub: Hub) -> None:
    hub.busy = [503] * 20
    assert "answered 503" in failing()


def test_a_damaged_file_is_thrown_away(hub: Hub, tmp_path: Path) -> None:
    hub.damaged = True
    text = failing()
    assert "The SHA-256 of model.safetensors of me/tiny does not match the Hub's, so the file was deleted" in text
    assert parts(tmp_path) == []
    assert not list(tmp_path.rglob(etag("model.safetensors", WEIGHTS)))
    hub.damaged = False
    assert whole(fetch())


def test_damage_in_what_was_there_is_noticed(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = [100_000] + [0] * 9
    failing()
    (part,) = tmp_path.rglob(f"*{PART}")
    part.write_bytes(b"?" + part.read_bytes()[1:])
    hub.cut_after = []
    assert "The SHA-256 of" in failing()
    assert whole(fetch())


def test_more_than_the_file_is_begun_anew(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = [100_000] + [0] * 9
    failing()
    (part,) = tmp_path.rglob(f"*{PART}")
    part.write_bytes(bytes(len(WEIGHTS) + 5))
    hub.cut_after, hub.asked = [], []
    assert whole(fetch())
    assert hub.bodies() == [""]


def test_a_file_from_git_is_checked_too(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_server, "etag", lambda name, data: "a" * 40)
    assert "The checksum of" in failing()


def test_without_room_nothing_is_fetched(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=200_000))
    text = failing()
    assert "me/tiny needs 512.0 kB of disk space, but " in text
    assert "HF_HOME" in text
    assert hub.bodies() == []


def test_what_is_there_already_needs_no_room(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.cut_after = [500_000] + [0] * 9
    failing()
    hub.cut_after = []
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=50_000))
    assert whole(fetch())


def test_a_disk_that_fills_up_keeps_what_came(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specchat.backends.files.hub_transfer import _Arriving

    plain = _Arriving.add

    def add(self: _Arriving, chunk: bytes) -> None:
        if self.have > 200_000:
            raise OSError(28, "No space left on device")
        plain(self, chunk)

    monkeypatch.setattr(_Arriving, "add", add)
    text = failing()
    assert re.search(r"The disk with .* is full \(2\d\d\.\d kB of 512\.0 kB of me/tiny are here\)", text)
    assert "continues from there" in text
    monkeypatch.undo()
    (there,) = parts(tmp_path)
    assert there > 200_000


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (401, "GatedRepo", "requires you to accept its licence.*`hf auth login`"),
        (403, "GatedRepo", "requires you to accept its licence"),
        (403, "", "denies access to me/tiny .403.[.] Run `hf auth login`"),
        (404, "EntryNotFound", "lists a file of me/tiny that it does not have"),
    ],
)
def test_files_that_are_refused(hub: Hub, status: int, code: str, sentence: str) -> None:
    hub.refuse_files = (status, code)
    assert re.search(sentence, failing())
    assert hub.bodies() == []


def test_very_large_files_come_in_parts(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.files.hub_transfer.MOST_AT_ONCE", 200_000)
    assert whole(fetch())
    assert hub.bodies() == ["bytes=0-199999", "bytes=200000-399999", "bytes=400000-511999"]


def test_two_downloads_of_one_model_fetch_it_once(hub: Hub) -> None:
    hub.seconds_a_block = 0.005
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(whole(fetch(cancelled=lambda: False)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [True, True]
    assert hub.bodies() == [""]


def test_two_downloads_that_end_at_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    both, plain, found = threading.Barrier(2), Path.replace, list[bool]()

    def replace(self: Path, target: Path) -> Path:
        if target.parent.name == "refs":  # the last that is done
            both.wait(60)
        return plain(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    threads = [threading.Thread(target=lambda: found.append(whole(fetch()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == [True, True]


# What a repository offers


def test_a_repository_tells_its_quantizations_with_their_sizes(hub: Hub) -> None:
    hub.repositories["me/tiny"] = {
        "README.md": b"",
        "tiny-Q8_0.gguf": bytes(900),
        "tiny-UD-Q8_0.gguf": bytes(950),
        "tiny.Q4_K_M.gguf": bytes(500),
        "tiny-IQ2_XXS.gguf": bytes(300),
        "mmproj-tiny-F16.gguf": bytes(50),
        "BF16/tiny-BF16-00001-of-00002.gguf": bytes(1000),
        "BF16/tiny-BF16-00002-of-00002.gguf": bytes(800),
    }
    hub.info["me/tiny"] = {"gguf": {"total": 1234, "architecture": "qwen3", "context_length": 40960}, "gated": "manual"}
    found = look_up("me/tiny")
    assert [(offer.spec, offer.quantization, offer.size) for offer in found.offers] == [
        ("me/tiny:IQ2_XXS", "IQ2_XXS", 300),
        ("me/tiny:Q4_K_M", "Q4_K_M", 500),
        ("me/tiny:Q8_0", "Q8_0", 900),
        ("me/tiny:UD-Q8_0", "Q8_0", 950),
        ("me/tiny:BF16", "BF16", 1800),
    ]
    assert (found.architecture, found.parameters, found.context, found.gated) == ("qwen3", 1234, 40960, True)


def test_a_repository_tells_its_safetensors_and_how_much_is_here(hub: Hub) -> None:
    config = b'{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8, "hidden_size": 32}'
    hub.repositories["me/tiny"]["config.json"] = config
    hub.repositories["me/tiny"]["pytorch_model.bin"] = bytes(700_000)
    hub.info["me/tiny"] = {"safetensors": {"parameters": {"BF16": 256_000}, "total": 256_000}}
    found = look_up("me/tiny")
    (offer,) = found.offers
    assert (offer.spec, offer.kind, offer.quantization) == ("me/tiny", "safetensors", "BF16")
    assert offer.files == ("config.json", "model.safetensors", "tokenizer.json")
    assert (offer.weights, offer.there, offer.here) == (512_000, 0, False)
    assert (found.cache_numbers, found.parameters) == (2 * 2 * 4 * 8, 256_000)
    hub.cut_after = [100_000] + [0] * 9
    failing()
    assert look_up("me/tiny").offers[0].there == 100_000 + len(config) + 2
    hub.cut_after = []
    fetch()
    assert look_up("me/tiny").offers[0].here


@pytest.mark.parametrize(
    ("files", "remark"),
    [({"pytorch_model.bin": b"x"}, "only pickled weights"), ({"README.md": b"x"}, "neither safetensors weights nor GGUF")],
)
def test_a_repository_without_weights_says_so(hub: Hub, files: dict[str, bytes], remark: str) -> None:
    hub.repositories["me/tiny"] = files
    found = look_up("me/tiny")
    assert found.offers == ()
    assert remark in found.remark


def test_pickles_are_not_fetched(hub: Hub) -> None:
    hub.repositories["me/tiny"] = {"config.json": b"{}", "pytorch_model.bin": b"x"}
    assert "hf download me/tiny --local-dir FOLDER" in failing()
    assert hub.bodies(".bin") == []


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [((404, "RepoNotFound"), "There is no model me/tiny"), ((401, "GatedRepo"), "licence"), ((500, ""), "answered 500")],
)
def test_a_repository_that_cannot_be_looked_up(hub: Hub, refusal: tuple[int, str], sentence: str) -> None:
    hub.refuse = refusal
    with pytest.raises(UserError, match=sentence):
        look_up("me/tiny")


# A disk that is really full

FULL = """
import os, subprocess
from pathlib import Path
from specchat.backends import LoadOptions, UserError
from specchat.backends.files.hub import locate

folder = Path({folder!r})
folder.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
ballast = folder / "ballast"

def fill(stage, done, total):
    if done > 1_000_000 and not ballast.exists():
        with ballast.open("wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(bytes(4096))
            except OSError:
                pass

for name, progress in (("me/large", None), ("me/tiny", fill)):
    try:
        locate(name, LoadOptions(), progress=progress)
    except UserError as error:
        print(error)
print([part.stat().st_size for part in folder.rglob("*.incomplete")][0])
ballast.unlink()
print((locate("me/tiny", LoadOptions()) / "model.safetensors").stat().st_size)
"""


def test_a_disk_that_is_really_full(hub: Hub, tmp_path: Path) -> None:
    may = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    if may is None or may.returncode:
        pytest.skip("mounting is not allowed here")
    hub.repositories["me/large"] = {"config.json": b"{}", "model.safetensors": bytes(6_000_000)}
    hub.repositories["me/tiny"]["model.safetensors"] = bytes(2_500_000)
    hub.seconds_a_block = 0.005
    cache = tmp_path / "small"
    told = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", FULL.format(folder=str(cache))],
        env={**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    large, tiny, there, size = told.stdout.splitlines()
    assert re.search(r"me/large needs 6\.0 MB of disk space, but .* has \d\.\d MB free", large)
    assert re.search(r"The disk with .*small is full \(\d\.\d MB of 2\.5 MB of me/tiny are here\)[.] Free about", tiny)
    assert int(size) == 2_500_000
    assert hub.bodies()[-1] == f"bytes={there}-2499999"
