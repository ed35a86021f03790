"""The measurement for GPUs runs from end to end without one, goes on where it stopped, and writes what it found."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends.hf.graphs.graphs import CHOICE
from specchat.benchmarks import gpu, llama_cuda
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


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@only_full
def test_llama_cpp_is_built_once_and_its_passes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room, log = tmp_path / "room", tmp_path / "log"
    rows = json.dumps([{"n_prompt": n, "avg_ns": n * 1e6} for n in (1, 16)])
    bench = f"cat <<'END'\n{rows}\nEND"
    program(tmp_path / "bin" / "nvcc", "true")
    program(
        tmp_path / "bin" / "cmake",
        f"""echo "$@" >> {log}
if [ "$1" = -S ]; then touch "$4/CMakeCache.txt"; else mkdir -p "$2/bin"; cat > "$2/bin/llama-bench" <<'OUTER'
#!/bin/sh
{bench}
OUTER
chmod +x "$2/bin/llama-bench"; fi""",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    sources = tmp_path / "llama.cpp"
    why = llama_cuda.measure(sources, room, "tiny", 64, (1, 16), lambda: 100.0)["why"]
    assert why == "its sources are not here (--llama-cpp FOLDER)"
    sources.mkdir()
    (sources / "CMakeLists.txt").touch()
    for _ in range(2):
        found = llama_cuda.measure(sources, room, "tiny", 64, (1, 16), lambda: 100.0)
        assert found == {"what": "tiny, Q8_0", "passes": {"1": 0.001, "16": 0.016}}
    assert log.read_text().count("-DCMAKE_CUDA_ARCHITECTURES=90") == 1
    program(tmp_path / "bin" / "cmake", "sleep 60")
    with pytest.raises(llama_cuda.Unfinished):
        llama_cuda.measure(sources, room, "tiny", 64, (1, 16), lambda: 61.0)
    program(tmp_path / "bin" / "cmake", "echo 'CMake Error: no CUDA toolset' >&2; exit 1")
    with pytest.raises(RuntimeError, match="no CUDA toolset"):
        llama_cuda.measure(sources, room, "tiny", 64, (1, 16), lambda: 100.0)
