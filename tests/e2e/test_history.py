"""The history in a real pseudo-terminal: a chat that is killed in mid-answer is there again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..cases import FULL
from ..fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")
WORDS = " ".join(f"lantern-{n}" for n in range(400))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own."""
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "XDG_STATE_HOME": str(tmp_path / "s"),
        "SPECCHAT_DATA": str(tmp_path / "d"),
    }


@pytest.fixture
def slow_record(tmp_path: Path) -> str:
    """A recorded model that takes 40 ms a pass."""
    path = tmp_path / "record.jsonl"
    path.write_text(json.dumps({"prompt": "keeper", "response": WORDS}) + "\n")
    return f"recorded:{path}?pace=0.04"


def listed(env: dict[str, str]) -> list[dict[str, object]]:
    done = subprocess.run(
        [SPECCHAT, "chats", "list", "--json"], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    chats: list[dict[str, object]] = json.loads(done.stdout)["chats"]
    return chats


def shown(env: dict[str, str]) -> str:
    command = [SPECCHAT, "chats", "show", "1"]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_chat_that_is_killed_in_mid_answer_is_continued(env: dict[str, str], slow_record: str) -> None:
    command = [SPECCHAT, "--model", slow_record, "--method", "greedy"]
    with Terminal(command, env=env) as terminal:
        terminal.wait("identical")
        terminal.send("keeper\r")
        terminal.wait("lantern-3")
        while "lantern-3" not in shown(env):  # a second is the most that may be missing
            terminal.pump()
        os.kill(terminal.process.pid, signal.SIGKILL)
        terminal.process.wait()
    assert [(chat["title"], chat["answers"]) for chat in listed(env)] == [("keeper", 1)]
    with Terminal([*command, "--continue"], env=env) as terminal:
        terminal.wait("lantern-3")
        terminal.wait("Not finished when saved")
        terminal.wait("identical")
        terminal.send("\x1bh")
        terminal.wait("● keeper")
        terminal.send("\x1b")
        terminal.wait(lambda text: "● keeper" not in text)
        terminal.send("\x11")
        assert terminal.exit_code() == 0


@pytest.mark.slow
def test_nothing_is_kept_where_that_was_asked(env: dict[str, str], slow_record: str, tmp_path: Path) -> None:
    with Terminal([SPECCHAT, "--model", slow_record, "--no-history"], env=env) as terminal:
        terminal.wait("identical")
        terminal.send("keeper\r")
        terminal.wait("lantern-3")
        terminal.send("\x11")
        assert terminal.exit_code() == 0
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="tests/app/history/test_windows.py has it without an engine")
def test_a_window_that_quits_takes_nothing_from_another(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(json.dumps({"prompt": "keeper", "response": "The lamp is lit."}) + "\n")
    command = [SPECCHAT, "--model", f"recorded:{path}", "--method", "greedy"]

    def ask(window: Terminal, times: int) -> None:
        window.send("keeper\r")
        window.wait(lambda text: text.count("The lamp is lit.") == times)

    with Terminal(command, env=env) as first:
        first.wait("identical")
        ask(first, 1)
        first.send("\x1bh")
        first.wait("● keeper")
        first.send("\x1b")
        first.wait(lambda text: "● keeper" not in text)
        with Terminal(command, env=env) as second:
            second.wait("identical")
            ask(second, 1)
            second.send("\x11")
            assert second.exit_code() == 0
        ask(first, 2)
        deadline = time.monotonic() + 120
        while sorted(str(chat["answers"]) for chat in listed(env)) != ["1", "2"]:
            assert time.monotonic() < deadline, listed(env)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    assert sorted(str(chat["answers"]) for chat in listed(env)) == ["1", "2"]
