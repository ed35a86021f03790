"""The sdist installs editable, as a checkout does."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from .cases import only_full

ROOT = Path(__file__).parents[1]


def run(*words: object, folder: Path) -> None:
    subprocess.run([sys.executable, "-m", *map(str, words)], cwd=folder, check=True, capture_output=True)


@only_full
def test_an_sdist_installs_editable(tmp_path: Path) -> None:
    run("build", "--sdist", "--no-isolation", "--outdir", tmp_path, folder=ROOT)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("specchat-*/")
    run("pip", "install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "site", "-e", ".", folder=source)
    (path,) = (tmp_path / "site").glob("*.pth")
    code = "import specchat; print(specchat.__file__)"
    command = [sys.executable, "-P", "-c", code]
    environment = {"PYTHONPATH": path.read_text().strip()}
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert Path(found.strip()).resolve() == source / "__init__.py"
