"""docs/features.md: every ✓ of ours is shown by a test, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")

# | 12 What it is | ours | seven others |
_ROW = re.compile(r"^\| (\d+) (.+?) \|(.+)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> dict[int, list[str]]:
    """The signs of each row by its number, ours first."""
    return {int(row[1]): [sign.strip() for sign in row[3].split("|")] for row in _ROW.finditer(PAGE)}


def shown() -> dict[int, list[tuple[str, str]]]:
    """The tests that stand at each number, as file and name."""
    items = re.findall(r"^- (\d+): (`.+(?:\n  `.+)*)", PAGE, re.MULTILINE)
    return {int(number): _TEST.findall(tests) for number, tests in items}


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for file, name in _TEST.findall(PAGE):
        path = ROOT / file
        if not path.is_file() or not re.search(rf"^(async )?def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            missing.append(f"{file}::{name}")
    assert not missing


def test_what_is_said_to_be_ours_has_a_test_and_nothing_else_has() -> None:
    ours = {number for number, signs in rows().items() if signs[0] in "✓~"}
    assert {number for number, tests in shown().items() if tests} == ours
    assert sum(map(len, shown().values())) == len(_TEST.findall(PAGE)), "a test stands outside the lists"


def test_rows_are_numbered_in_turn_and_have_a_sign_for_each_program() -> None:
    assert list(rows()) == list(range(1, len(rows()) + 1))
    for number, signs in rows().items():
        assert len(signs) == 8, number
        assert set(signs) <= set("✓~–?"), number


def test_whatever_is_there_in_part_has_a_remark() -> None:
    header = next(line for line in PAGE.splitlines() if "| specchat |" in line)
    programs = [cell.strip() for cell in header.strip("| ").split("|")]
    remarks = " ".join(line for line in PAGE.splitlines() if line and line[0] not in "|-#")
    for number, signs in rows().items():
        for program, sign in zip(programs, signs, strict=True):
            # "7 ollama: …", "26 specchat: …; ollama: …."
            found = re.search(rf"(?:^|[.:] |\s){number} (?:[^.]|\.\w)*?{program}: ", remarks)
            assert sign != "~" or found, f"row {number} does not say how {program} has it"
