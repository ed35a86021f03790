"""`specchat keys` in a real terminal: what bytes come for a key, what it runs, and the ways out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specchat.app.tui.keys.context import KEYS

from ..fakes.terminal import Terminal

PATIENT = """
from specchat.__main__ import main
from specchat.app.tui.keys import check
check.TWICE_SECONDS = 3600.0
main()
"""
"""The same, which takes a second press for one however late a busy machine brings it."""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "c" / "specchat").mkdir(parents=True)
    (tmp_path / "c" / "specchat" / "settings.toml").write_text('[keymap]\nmodels = "f12"\n')
    gone = dict.fromkeys(("TERM_PROGRAM", "XTERM_VERSION", "WT_SESSION", "SPECCHAT_CONFIG"), "")
    return gone | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c"), "TMUX": "/tmp/tmux-0/default,1,0"}


def test_keys_are_shown_as_they_arrive(env: dict[str, str]) -> None:
    with Terminal([sys.executable, "-c", PATIENT, "keys"], columns=120, env=env) as terminal:
        terminal.wait("ctrl+c twice quits")
        assert "in tmux" in terminal.text
        assert "shift+enter" in terminal.text
        for sent, shown in (
            ("\x0e", f"ctrl+n        ^N            In the chat: {KEYS['next_method'].what[:30]}"),
            ("\x1b[24~", f"F12           ^[[24~        In the chat: {KEYS['models'].what[:30]}"),
            ("\x1bm", "alt+m         ^[m           runs nothing"),
            ("\x1b[1;5A", "ctrl+up       ^[[1;5A       In the chat: "),
            ("\x1b[[A", "F1            ^[[[A         In the chat: Help"),
            ("\r", "enter         ^M            In the input box: Send"),
        ):
            terminal.send(sent)
            terminal.wait(shown)
        terminal.send("\x03")
        terminal.wait("ctrl+c  ")
        terminal.send("\x03")
        assert terminal.exit_code() == 0
