"""A long answer that ends while another window is in front, in a real terminal that says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ..fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")
WORDS = " ".join(f"lantern-{n}" for n in range(60))


@pytest.mark.slow
def test_the_terminal_is_told_once_and_only_when_it_is_not_in_front(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    record.write_text(json.dumps({"prompt": "keeper", "response": WORDS}) + "\n")
    env = {
        "HOME": str(tmp_path),
        "SPECCHAT_CONFIG": str(tmp_path),
        "SPECCHAT_DATA": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TERM_PROGRAM": "iTerm.app",
        **dict.fromkeys(("TMUX", "STY"), ""),
    }
    with Terminal([SPECCHAT, "--model", f"recorded:{record}?pace=0.04", "--method", "greedy"], env=env) as terminal:
        terminal.wait("greedy")
        assert b"\x1b[?1004h" in terminal.raw, "the terminal is asked to tell when it loses the focus"
        terminal.send("keeper\r\x1b[O")
        terminal.wait_raw(b"\x1b]9;specchat: The answer has ended (finished): ")
        terminal.send("\x1b[Ikeeper\r")
        terminal.wait(lambda text: text.count(". · ") == 2)
        assert terminal.raw.count(b"\x1b]9;") == 1
        terminal.send("\x11")
        assert terminal.exit_code() == 0
