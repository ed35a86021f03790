"""The measurement for GPUs runs from end to end without one, goes on where it stopped, and writes what it found."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends.hf.graphs.graphs import CHOICE
from specchat.benchmarks import gpu
from specchat.benchmarks.gpu import PARTS, ROWS, Bench, Row, run

from .cases import only_full


def bench_of(room: Path, minutes: float, **results: Any) -> Bench:
    return Bench(torch.device("cpu"), "tiny", None, None, None, room, time.monotonic() + 60 * minutes, dict(results))


@only_full
def test_every_part_runs_and_the_page_has_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "rerun")
    monkeypatch.setattr(gpu, "METHODS", ("lookup",))
    monkeypatch.setattr(gpu, "PROMPTS", 1)
    monkeypatch.setattr(gpu, "CONTEXT", 64)
    bench = bench_of(tmp_path, 9)
    assert run(bench, tmp_path / "state.json", tmp_path / "gpu.md", lambda line: None)
    assert bench.results["identity"]["float32"] == {"same": 1, "of": 1, "notes": []}
    assert bench.results["identity"]["generate"]["same"] == 1
    assert bench.results["identity"]["bfloat16"]["same"] == 1
    assert set(bench.results["passes"]) >= {"recorded", "launched"}
    failed = {name: found["why"] for name, found in bench.results.items() if "why" in found}
    assert set(failed) == {"static", "llama.cpp"}, failed
    page = (tmp_path / "gpu.md").read_text()
    for row in ROWS:
        assert f"| {row.says} | " in page
    assert "not measured yet" not in page
    assert json.loads((tmp_path / "state.json").read_text()) == bench.results


def test_what_is_in_the_state_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def part(name: str, fails: bool) -> Any:
        def work(bench: Bench) -> dict[str, Any]:
            ran.append(name)
            if fails:
                raise RuntimeError("no room\nmore")
            return {"ratio": 2.0, "name": "X", "peak": 1e12, "measured": 1e12, "torch": "2"}

        return work, 60.0

    monkeypatch.setattr(gpu, "PARTS", {name: part(name, name == "replay") for name in PARTS})
    known = {name: {"why": "known"} for name in PARTS if name not in ("generate", "replay", "machine")}
    bench = bench_of(tmp_path, 0, **known)
    bench.shape = "7b"
    assert not run(bench, tmp_path / "state.json", tmp_path / "gpu.md", lambda line: None)
    assert ran == [], "there was no time"
    bench.deadline = time.monotonic() + 1000
    assert run(bench, tmp_path / "state.json", tmp_path / "gpu.md", lambda line: None)
    assert ran == ["machine", "generate", "replay"]
    page = (tmp_path / "gpu.md").read_text()
    assert "| plain decoding beside transformers' `generate` | 2.00× | ≥ 3.00× | 33% short |" in page
    assert "RuntimeError: no room |" in page


def test_the_page_here_is_what_it_writes() -> None:
    assert gpu.PAGE.read_text().startswith(gpu.HEAD)


def test_verdicts() -> None:
    most = Row("", "", "", 1.5, least=False)
    assert [most.verdict(value) for value in (1.5, 1.0, 3.0)] == ["PASS", "PASS", "100% over"]
    assert [Row("", "", "", 0.8).verdict(value) for value in (0.8, 0.9, 0.4)] == ["PASS", "PASS", "50% short"]


@only_full
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_in_one_sentence() -> None:
    done = subprocess.run([sys.executable, "-m", "specchat.benchmarks.gpu"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("There is no CUDA device here")
    assert done.stderr.count("\n") == 1
