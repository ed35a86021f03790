"""The wheel holds what runs, with its data, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from .cases import only_full

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("app", "backends", "builtin", "decoders", "engine", "themes")
OUTSIDE = shutil.ignore_patterns(
    ".git", ".venv*", "dist", "work", ".*_cache", "__pycache__", "screenshots", "tests", "benchmarks"
)


@only_full
def test_the_wheel_holds_what_runs_and_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=OUTSIDE)
    stale = copy / "build" / "lib" / "specchat" / "app" / "stale.py"
    stale.parent.mkdir(parents=True, exist_ok=True)
    stale.touch()
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        wheel = {name.removeprefix("specchat/") for name in archive.namelist() if ".dist-info/" not in name}
    kept = (".py", ".toml", ".tcss", ".jsonl", ".md", ".json", ".safetensors", ".gguf", ".jinja")
    files = {file.relative_to(copy) for room in ROOMS for file in (copy / room).rglob("*") if file.suffix in kept}
    runs = {str(file) for file in files if file.parts[:2] != ("builtin", "recipe")}
    assert {"app/tui/app.tcss", "themes/dark.toml", "builtin/prompts.jsonl", "builtin/weights/target/model.safetensors"} <= runs
    assert wheel == runs | {"__init__.py", "__main__.py", "errors.py", "option.py", "plain_file.py", "py.typed"}
