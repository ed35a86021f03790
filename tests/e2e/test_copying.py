"""Copying in a real terminal, with a clipboard tool of the test's own on the PATH: what is said is what was done."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
from pathlib import Path

from .terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")
ANSWER = "Here:\n\n```python\nprint('lantern')\n```\n\nThat is all of it."


def said(terminal: Terminal, sentence: str) -> None:
    """Wait for a sentence, which may go over several lines of a toast."""
    terminal.wait(lambda text: sentence in " ".join(re.sub(r"[│▌▎]", " ", text).split()), 20)


def test_a_copy_is_checked_and_an_unchecked_one_never_called_copied(tmp_path: Path) -> None:
    record, tool = tmp_path / "record.jsonl", tmp_path / "bin" / "xclip"
    record.write_text(json.dumps({"prompt": "keeper", "response": ANSWER}) + "\n")
    tool.parent.mkdir()
    # Gives back what it was given, unless a file says otherwise.
    tool.write_text('#!/bin/sh\ncase "$*" in *-out*) cat "$BOARD.lie" 2>/dev/null || cat "$BOARD";; *) cat > "$BOARD";; esac\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    board = tmp_path / "board"
    env = {
        "HOME": str(tmp_path),
        "SPECCHAT_CONFIG": str(tmp_path),
        "SPECCHAT_DATA": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": f"{tool.parent}:{os.environ['PATH']}",
        "BOARD": str(board),
        "DISPLAY": ":9",
        **dict.fromkeys(("WAYLAND_DISPLAY", "TMUX", "STY", "SSH_TTY", "SSH_CONNECTION"), ""),
    }
    with Terminal([SPECCHAT, "--model", f"recorded:{record}"], env=env) as terminal:
        terminal.wait("identical", 30)
        terminal.send("keeper\r")
        terminal.wait("finished ·", 30)
        terminal.send("\x19")
        said(terminal, "Copied the answer with xclip, and checked it.")
        assert board.read_text() == ANSWER
        assert b"\x1b]52;" not in terminal.raw, "the terminal is not asked too"
        terminal.send("\x1by")
        said(terminal, "Copied the code (python, 1 line) with xclip, and checked it.")
        assert board.read_text() == "print('lantern')"
        (tmp_path / "board.lie").write_text("something else")
        mark = len(terminal.raw)
        terminal.send("/copy message\r")
        said(terminal, "xclip could not copy your message, so it was sent to the terminal's clipboard (OSC 52).")
        assert b"\x1b]52;c;" + base64.b64encode(b"keeper") + b"\a" in terminal.raw[mark:]
        terminal.send("\x11")
        assert terminal.exit_code() == 0
