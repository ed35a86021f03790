"""Which editor is opened, and what is said where there is none. tests/e2e has it open one."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.terminal.editor import editor_command
from specchat.errors import UserError

Make = Callable[..., Any]


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A PATH with some editors on it."""
    for name in ("nano", "vi", "code", "my editor"):
        file = tmp_path / name
        file.write_text("#!/bin/sh\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("setting", "visual", "editor", "command"),
    [
        ("vi -R", "nano", "nano", ["vi", "-R"]),
        (None, "'my editor' -x", "nano", ["my editor", "-x"]),
        (" ", "", "vi", ["vi"]),
        (None, "", "", ["nano"]),
        ("code", "", "", ["code", "--wait"]),  # its window would open, and the draft be read at once
        ("code -n -w", "", "", ["code", "-n", "-w"]),
    ],
)
def test_the_settings_go_before_visual_and_that_before_editor(
    programs: str, setting: str | None, visual: str, editor: str, command: list[str]
) -> None:
    assert editor_command(setting, {"PATH": programs, "VISUAL": visual, "EDITOR": editor}) == command


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"VISUAL": "none-such"}, r"no program none-such, the editor in \$VISUAL"),
        ({"EDITOR": "'nano"}, r"quote is not closed in \$EDITOR"),
        ({}, "Set EDITOR=nano"),
    ],
)
def test_what_is_in_the_way_is_a_sentence(tmp_path: Path, environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        editor_command(None, {"PATH": str(tmp_path), **environment})
