"""Copies, with programs of the test's own in the place of the system's tools."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.app.tui.actions import copy

TEXT = "def f():\n    return 'Grüße 👩‍👩‍👧'\n"


@pytest.fixture
def xclip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes an xclip that is first on the PATH; a file for what it is given."""
    for name, value in (("WAYLAND_DISPLAY", ""), ("DISPLAY", ":9"), ("PATH", f"{tmp_path}:/usr/bin:/bin")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")

    def make(script: str) -> Path:
        file = tmp_path / "xclip"
        file.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "board"

    return make


def test_a_tool_has_the_text(xclip: Callable[[str], Path]) -> None:
    board = xclip("cat > board")
    assert copy.copy_with_tool(TEXT) == "xclip"
    assert board.read_text() == TEXT


@pytest.mark.parametrize("script", ["exit 1", "sleep 60"], ids=["fails", "hangs"])
def test_a_tool_that_does_not_take_it_has_not_copied(
    xclip: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(copy, "TIMEOUT_SECONDS", 0.2)
    xclip(script)
    assert copy.copy_with_tool(TEXT) == ""


def test_there_is_no_tool_where_there_is_no_screen(xclip: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    xclip("cat > board")
    monkeypatch.delenv("DISPLAY")
    assert copy.copy_with_tool(TEXT) == ""
