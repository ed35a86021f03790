"""Settings and presets in a real terminal: what is set is in the file, what is in the file is seen, a chat keeps its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..fakes.terminal import Terminal
from .conftest import SPECCHAT

ALT_I, ALT_O, ALT_P, CTRL_D, CTRL_Q, CTRL_S = "\x1bi", "\x1bo", "\x1bp", "\x04", "\x11", "\x13"
ENTER, ESCAPE, TAB = "\r", "\x1b", "\t"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "SPECCHAT_CONFIG": str(tmp_path / "config"),
        "SPECCHAT_DATA": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@pytest.mark.slow
def test_what_is_set_on_the_screen_is_in_the_file_and_the_other_way_round(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "config" / "settings.toml"
    file.parent.mkdir()
    file.write_text("# mine\n[sampling]\nseed = 3\n")
    (tmp_path / "record.jsonl").write_text(
        '{"prompt": "count", "response": "one two three four five six seven eight nine ten"}\n'
    )
    with Terminal([SPECCHAT, "--model", f"recorded:{tmp_path / 'record.jsonl'}"], env=env) as terminal:
        terminal.wait("ready")
        terminal.send(ALT_O)
        terminal.wait("Settings · every model")
        terminal.send("max_tok")
        terminal.wait("max_tokens")
        terminal.send(ENTER)
        terminal.wait("enter keep")
        terminal.send("-1" + ENTER)
        terminal.wait("must be at least 1, not -1")
        terminal.send("\x7f\x7f")
        terminal.wait("max_tokens: nothing")
        terminal.send("5" + ENTER)
        terminal.wait("it applies from the next answer")
        until(lambda: file.read_text() == "# mine\nmax_tokens = 5\n\n[sampling]\nseed = 3\n")
        subprocess.run([SPECCHAT, "settings", "set", "max_tokens", "3"], check=True, env={**env, "PATH": "/usr/bin:/bin"})
        terminal.wait(lambda text: any("max_tokens" in row and " 3 " in row for row in text.splitlines()))
        terminal.send(ESCAPE)
        terminal.wait("Search settings")
        terminal.send(ESCAPE)
        terminal.wait("Ask something")
        terminal.send("count" + ENTER)
        terminal.wait("Token limit")
