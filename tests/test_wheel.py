"""The wheel holds what runs, with its data, and nothing else; the sdist installs editable, as a checkout does."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
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


@only_full
def test_an_sdist_installs_editable(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("specchat-*/")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target", "site", "-e", "."]
    subprocess.run(install, cwd=source, check=True, capture_output=True)
    (path,) = (source / "site").glob("*.pth")
    command = [sys.executable, "-P", "-c", "import specchat; print(specchat.__file__)"]
    found = subprocess.check_output(command, env={"PYTHONPATH": path.read_text().strip()}, text=True)
    assert Path(found.strip()).resolve() == source / "__init__.py"
