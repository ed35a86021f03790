"""specchat on a pretend GPU: the CPU's tokens, no tensor on the wrong device, and one wait a pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.benchmarks.gpu import ROWS

from ..cases import only_full

MOST_WAITS = {
    "draft on the CPU": 1.0, "draft": 8.0, "tree": 8.0, "early-exit, two devices": 12.0, "early-exit": 8.0, "eagle": 24.0,
    "auto": 8.0, "recycle, sampled": 2.0, "recycle, penalty": 2.0,
}  # fmt: skip
"""Waits a step, by the beginning of a case's name: of methods that run a model, as many as their passes. Others wait once, and
read what nobody asked for in the pass before."""

LEAST_CASES = 25


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    """Run all cases in another process: a device cannot be taken back from torch."""
    command = [sys.executable, "-m", "specchat.tests.pretend_gpu.check"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SPECCHAT_PASSES": "1:1 64:1.001"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_the_tokens_are_the_cpus(records: dict[str, dict[str, Any]]) -> None:
    assert len(records) >= LEAST_CASES
    assert [name for name, record in records.items() if not record["same"] and record["label"] == "identical"] == []
    undrafted = [name for name, record in records.items() if not record["drafted"] and not name.startswith(("greedy", "beam"))]
    assert undrafted == []


def test_passes_are_recorded_where_a_head_reads_their_states(records: dict[str, dict[str, Any]]) -> None:
    places = records["fusion, a head is loaded, graphs on"]["places"]
    assert [place for place in places if place.startswith("wait backends/hf/graphs.py")], places


def test_a_pass_waits_once(records: dict[str, dict[str, Any]]) -> None:
    def most(name: str) -> float:
        return next((waits for start, waits in MOST_WAITS.items() if name.startswith(start)), 1.6)

    assert {name: record["places"] for name, record in records.items() if record["waits"] > most(name)} == {}


@only_full
def test_the_measurement_for_gpus_runs_to_its_end(tmp_path: Path) -> None:
    program = (
        "import sys, specchat.tests.pretend_gpu.device; from specchat.benchmarks import gpu; gpu.METHODS = ('lookup',); "
        "gpu.PROMPTS = 1; gpu.CONTEXT = 64; gpu.main()"
    )
    options = ["--device", "gpu", "--shape", "tiny", "--room", str(tmp_path), "--page", str(tmp_path / "gpu.md")]
    subprocess.run([sys.executable, "-c", program, *options], check=True)
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert [row for row in ROWS if f"| {row.says} | " not in page] == []
    assert "not measured yet" not in page
