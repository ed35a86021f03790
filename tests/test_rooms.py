"""The rooms: no circles, no crowded folder, no more lines than they may have. `make lint` checks who may import whom."""

from __future__ import annotations

import subprocess
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("app", "backends", "builtin", "decoders", "engine", "themes", "errors.py", "option.py", "plain_file.py")

MOST_FILES = 24
"""Python files in a folder that can still be seen at a glance."""

MOST_LINES = {"app": 24_500, "backends": 17_072, "decoders": 9_120, "engine": 4_343, "benchmarks": 1_776, "tests": 31_455}
"""Lines of Python and tcss that a room may have. Make room in it before you add to it."""


def files() -> list[Path]:
    """The Python files of the package itself."""
    return [
        file.relative_to(ROOT)
        for part in PARTS
        for file in ((ROOT / part).rglob("*.py") if (ROOT / part).is_dir() else [ROOT / part])
    ]


def test_no_circle_of_imports() -> None:
    """Over all imports: those inside functions and under TYPE_CHECKING are design as well."""
    graph = grimp.build_graph("specchat", cache_dir=None)
    ours = {"specchat." + ".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files()}
    imports = {module: graph.find_modules_directly_imported_by(module) & ours for module in ours}
    print(f"{len(ours)} modules, {sum(map(len, imports.values()))} imports")
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_no_crowded_folder() -> None:
    others = [file.relative_to(ROOT) for part in ("benchmarks", "tests") for file in (ROOT / part).rglob("*.py")]
    counts = Counter(file.parent for file in files() + others if file.name != "__init__.py")
    crowded = {str(folder): count for folder, count in counts.items() if count > MOST_FILES}
    print(f"{len(counts)} folders, {max(counts.values())} files in the largest")
    assert not crowded


@pytest.mark.parametrize("room", MOST_LINES)
def test_no_room_grows(room: str) -> None:
    tracked = subprocess.check_output(["git", "ls-files", room], cwd=ROOT, text=True).split()
    code = [ROOT / file for file in tracked if file.endswith((".py", ".tcss")) and (ROOT / file).exists()]
    lines = sum(file.read_text(encoding="utf-8").count("\n") for file in code)
    print(f"{lines:,} of {MOST_LINES[room]:,} lines")
    assert lines <= MOST_LINES[room]
