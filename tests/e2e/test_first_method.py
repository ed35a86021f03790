"""docs/first-method.md runs from top to bottom, in a virtual environment of its own."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
import venv
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "first-method.md"


def environment(folder: Path) -> dict[str, str]:
    """A virtual environment on top of the running one, which has specchat; its `pip`, `python` and `specchat` are its own."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    below = [path for path in sys.path if path.endswith("site-packages")] or site.getsitepackages()
    lines = [f"import site; site.addsitedir({path!r})\n" for path in below]
    (packages / "below.pth").write_text("".join(lines), encoding="utf-8")
    for name in ("pip", "specchat"):
        command = folder / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m {name} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    # What pip would fetch to build the package is there already. (The variable is the opposite of its name.)
    return os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1"}


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    project = tmp_path / "project"
    project.mkdir()
    env = environment(tmp_path / "venv")
    output = ""
    for language, text in blocks:
        if language in ("python", "toml"):
            name = text.partition("\n")[0].removeprefix("# ")
            (project / name).write_text(text, encoding="utf-8")
        elif language == "sh":
            run = subprocess.run(["sh", "-ec", text], cwd=project, env=env, capture_output=True, text=True, check=False)
            assert run.returncode == 0, f"{text}\n{run.stdout}\n{run.stderr}"
            output += run.stdout
    assert re.search(r"^bigram +\(identical\)", output, re.MULTILINE)
    accepted = re.findall(r"^(\d+) of (\d+) draft tokens accepted, \d+ tokens in \d+ steps$", output, re.MULTILINE)
    assert len(accepted) == 3
    assert any(int(count) for count, _ in accepted)
    assert re.search(r"bigram.*×", output)
    source = (project / "bigram.py").read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in source.splitlines()[1:]) <= 15
