"""llama.cpp built from local sources for the local GPU, and the duration of its passes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from specchat.benchmarks.shapes import write
from specchat.builtin.recipe.gguf_export import export

MEASURING = 60.0
"""Seconds that are reserved for measuring when the build begins."""

ROOMS = ("/usr/local/cuda/bin", "/opt/cuda/bin")
"""Folders of the compiler if it is not on the path."""


class Unfinished(Exception):
    """The time is up; the files that are built stay."""


def measure(
    sources: Path | None, room: Path, shape: str, context: int, nodes: Sequence[int], left: Callable[[], float]
) -> dict[str, Any]:
    """Measure passes over n tokens behind `context` others, with Q8_0 weights.

    Args:
        sources: llama.cpp's.
        room: folder of the build and the model.
        shape: of the model (see shapes.py); 7b is measured as 1b, which is written sooner.
        context: tokens in the cache.
        nodes: sizes of passes.
        left: seconds that are left.

    Returns:
        the measured model and passes {n: seconds}; or the reason that nothing was measured.

    Raises:
        Unfinished: the build needs another run.
    """
    compiler = shutil.which("nvcc") or next((f"{r}/nvcc" for r in ROOMS if Path(r, "nvcc").is_file()), None)
    if compiler is None:
        return {"why": "there is no nvcc here"}
    if shutil.which("cmake") is None:
        return {"why": "there is no cmake here"}
    if sources is None or not (sources / "CMakeLists.txt").is_file():
        return {"why": "its sources are not here (--llama-cpp FOLDER)"}
    major, minor = torch.cuda.get_device_capability()
    bench = build(sources, room / f"llama.cpp-sm{major}{minor}", f"{major}{minor}", compiler, left)
    shape = "1b" if shape == "7b" else shape
    file = room / f"{shape}.gguf"
    if not file.is_file():
        with tempfile.TemporaryDirectory(dir=room) as folder:
            export(write(Path(folder), shape, "float16"), file, "Q8_0")
    return {"what": f"{shape}, Q8_0", "passes": timed(bench, file, context, nodes, left())}


def build(sources: Path, room: Path, architecture: str, compiler: str, left: Callable[[], float]) -> Path:
    """Build llama-bench for one architecture, except files that are built; return the program."""
    room.mkdir(parents=True, exist_ok=True)
    steps = [["cmake", "--build", str(room), "--target", "llama-bench", "-j", str(os.cpu_count() or 1)]]
    if not (room / "CMakeCache.txt").is_file():
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "GGML_CUDA": "ON",
            "CMAKE_CUDA_ARCHITECTURES": architecture,
            "CMAKE_CUDA_COMPILER": compiler,
            "LLAMA_CURL": "OFF",
            "LLAMA_BUILD_TESTS": "OFF",
            "LLAMA_BUILD_SERVER": "OFF",
        }
        steps.insert(0, ["cmake", "-S", str(sources), "-B", str(room), *(f"-D{k}={v}" for k, v in options.items())])
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=max(1.0, left() - MEASURING), check=False)
        except subprocess.TimeoutExpired:
            raise Unfinished from None
        if done.returncode:
            errors = [line for line in (done.stderr or done.stdout).splitlines() if "rror" in line]
            raise RuntimeError(errors[0].strip() if errors else f"{' '.join(step[:2])} failed")
    return next(path for path in room.rglob("llama-bench") if path.is_file())


def timed(bench: Path, file: Path, context: int, nodes: Sequence[int], seconds: float) -> dict[str, float]:
    """Run llama-bench; return the seconds of a pass by its number of tokens."""
    sizes = ",".join(map(str, nodes))
    command = [str(bench), "-m", str(file), "-ngl", "99", "-fa", "1", "-d", str(context), "-p", sizes, "-n", "0", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=max(1.0, seconds), check=True)
    return {str(row["n_prompt"]): row["avg_ns"] / 1e9 for row in json.loads(done.stdout)}
