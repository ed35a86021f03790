"""Answers of the built-in model side by side, in a real terminal: the same text again, another seed, and all of it kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own."""
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "XDG_STATE_HOME": str(tmp_path / "s"),
        "SPECCHAT_DATA": str(tmp_path / "d"),
    }


@pytest.mark.slow
def test_the_same_seed_gives_the_same_text_with_any_identical_method(env: dict[str, str]) -> None:
    with Terminal([SPECCHAT, "--method", "lookup"], env=env) as terminal:
        terminal.wait("identical")
        terminal.send("/set temperature=3 seed=15 max_tokens=24\r")
        terminal.wait("max_tokens=24")
        terminal.send("Tell me about the lighthouse.\r")
        terminal.wait("Token limit")
        terminal.send("/regenerate\r")
        terminal.wait("‹ 2/2 ›")
        terminal.wait("≡ identical")
        terminal.send("/retry greedy\r")
        terminal.wait("‹ 3/3 ›")
        rows = [line for line in terminal.text.splitlines() if "≡ identical" in line]
        assert len(rows) == 2
        terminal.send("/regenerate seed=14\r")
        terminal.wait("‹ 4/4 ›")
        terminal.wait("seed 14")
        assert "≠ from token" in terminal.text
        terminal.send("\x1b[1;3D")
        terminal.wait("‹ 3/4 ›")
        terminal.send("\x11")
        assert terminal.exit_code() == 0
    with Terminal([SPECCHAT, "--continue"], env=env) as terminal:
        terminal.wait("‹ 3/4 ›")
        terminal.wait("◆ lookup")
        terminal.send("\x1b[1;3C")
        terminal.wait("‹ 4/4 ›")
        terminal.send("\x11")
        assert terminal.exit_code() == 0
