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

from specchat.backends.hf.graphs import CHOICE
from specchat.benchmarks import gpu
from specchat.benchmarks.gpu import ROWS, Bench, Goal, run

from .cases import only_full


def bench_of(room: Path, minutes: float, **results: Any) -> Bench:
    return Bench(
        torch.device("cpu"), "tiny", None, None, None, room, deadline=time.monotonic() + 60 * minutes, results=dict(results)
    )


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


def test_the_page_here_is_what_it_writes() -> None:
    assert gpu.PAGE.read_text().startswith(gpu.HEAD)


def test_verdicts() -> None:
    most = Goal("", "", "", 1.5, least=False)
    assert [most.verdict(value) for value in (1.5, 1.0, 3.0)] == ["PASS", "PASS", "100% over"]
    assert [Goal("", "", "", 0.8).verdict(value) for value in (0.8, 0.9, 0.4)] == ["PASS", "PASS", "50% short"]


@only_full
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_in_one_sentence() -> None:
    done = subprocess.run([sys.executable, "-m", "specchat.benchmarks.gpu"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("There is no CUDA device here")
    assert done.stderr.count("\n") == 1
