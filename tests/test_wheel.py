"""The wheel holds every module and data file, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [
    package.replace("specchat", ".", 1).lstrip(".").replace(".", "/") or "."
    for package in PROJECT["tool"]["setuptools"]["packages"]
]
DATA = ("themes/*.toml", "app/tui/*.tcss", "builtin/weights/**/*", "builtin/*.md", "builtin/*.jsonl", "py.typed")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel built from a copy of the tree (a build folder in the tree could bring stale files in)."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "tree"
    shutil.copytree(
        ROOT,
        copy,
        symlinks=True,
        ignore=shutil.ignore_patterns(
            ".git", ".venv*", "*.egg-info", "build", "dist", "work", ".*_cache", "__pycache__", "screenshots"
        ),
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(copy)],
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        return set(archive.namelist())


def test_every_folder_with_modules_is_a_listed_package() -> None:
    outside = {".", "tests", "benchmarks", "screenshots"}
    folders = {
        str(path.parent.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if not any(part.startswith(".") or part in ("build", "dist", "work") for part in path.relative_to(ROOT).parts)
    }
    assert {folder for folder in folders if folder.split("/")[0] not in outside} == set(PACKAGES) - {"."}


def test_the_wheel_holds_every_module(wheel: set[str]) -> None:
    modules = {f"specchat/{path.relative_to(ROOT)}" for package in PACKAGES for path in (ROOT / package).glob("*.py")}
    assert modules <= wheel, modules - wheel


def test_the_wheel_holds_the_data(wheel: set[str]) -> None:
    files = {f"specchat/{path.relative_to(ROOT)}" for pattern in DATA for path in ROOT.glob(pattern) if path.is_file()}
    assert {"specchat/themes/dark.toml", "specchat/builtin/weights/target/model.safetensors"} <= files
    assert files <= wheel, files - wheel


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel} == {"specchat", f"specchat-{PROJECT['project']['version']}.dist-info"}
    assert not [name for name in wheel if name.startswith(("specchat/tests", "specchat/benchmarks", "specchat/screenshots"))]
