"""Copying in a real terminal, with a clipboard tool of the test's own on the PATH: what is said is what was done."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ..fakes.terminal import Terminal
from .conftest import SPECCHAT

ANSWER = "Here:\n\n```python\nprint('lantern')\n```\n\nThat is all of it."


def said(terminal: Terminal, sentence: str) -> None:
    """Wait for a sentence, which may go over several lines of a toast."""
    terminal.wait(lambda text: sentence in " ".join(re.sub(r"[│▌▎]", " ", text).split()))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own, and no screen."""
    return {
        "HOME": str(tmp_path),
        "SPECCHAT_CONFIG": str(tmp_path),
        "SPECCHAT_DATA": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        **dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "TMUX", "STY", "SSH_TTY", "SSH_CONNECTION"), ""),
    }


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    """A recorded model, and the option that uses it."""
    record = tmp_path / "record.jsonl"
    record.write_text(json.dumps({"prompt": "keeper", "response": ANSWER}) + "\n")
    return ["--model", f"recorded:{record}"]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_tmux_its_buffer_has_the_text_and_the_terminal_is_asked(env: dict[str, str], model: list[str]) -> None:
    # A socket's path may have about 100 characters.
    tmux = ["tmux", "-S", f"/tmp/specchat-tmux-{os.getpid()}"]
    command = shlex.join([SPECCHAT, *model])
    try:
        with Terminal([*tmux, "-f", "/dev/null", "new-session", command], env=env) as terminal:
            terminal.wait("identical")
            terminal.send("keeper\r")
            terminal.wait("first token after")
            terminal.send("\x19")
            said(terminal, "Copied the answer to tmux's buffer, and sent it to the terminal")
            shown = subprocess.run([*tmux, "show-buffer"], capture_output=True, check=True)
            assert shown.stdout.decode() == ANSWER
            # tmux itself hands it on to the terminal around it.
            assert base64.b64encode(ANSWER.encode()) in terminal.raw
            terminal.send("\x11")
            terminal.exit_code()
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
        Path(tmux[2]).unlink(missing_ok=True)
