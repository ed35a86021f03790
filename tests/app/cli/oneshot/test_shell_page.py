"""docs/shell.md says what the code does: fields, formats, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

from specchat.app.chat.entries import Answer
from specchat.app.cli import exit_codes
from specchat.app.cli.oneshot import run

PAGE = (Path(__file__).parents[4] / "docs" / "shell.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_field_of_the_object_is_told() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section("JSON"), re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert told == [
        *run.answer_body(Answer("greedy", ""), "m", {}),
        "messages",
        "prompt",
        "chat",
        "valid",
        "constraint",
        "thought",
        "answer",
        "certainty",
        "doubt",
    ]


def test_every_exit_code_is_told() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)]
    assert codes == sorted(code for name, code in vars(exit_codes).items() if name.isupper())
