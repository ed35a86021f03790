"""The history in a real pseudo-terminal: a chat that is killed in mid-answer is there again."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ..fakes.records import recorded_model
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT, listed, typed

WORDS = " ".join(f"lantern-{n}" for n in range(400))


@pytest.fixture
def slow_record(tmp_path: Path) -> str:
    """A recorded model that takes 40 ms a pass."""
    return recorded_model(tmp_path, {"keeper": WORDS}, 0.04)


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
        terminal.quit()


@pytest.mark.slow
def test_what_is_typed_comes_back_after_a_kill_and_not_in_another_window(env: dict[str, str], slow_record: str) -> None:
    command = [SPECCHAT, "--model", slow_record]
    with Terminal(command, env=env) as killed, Terminal(command, env=env) as alive:
        for terminal, text in ((killed, "half a thought"), (alive, "another one")):
            terminal.wait("identical")
            terminal.send(text)
            terminal.wait(text)
        while not {"half a thought", "another one"} <= set(typed(env)):
            killed.pump()
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.process.wait()
        with Terminal(command, env=env) as after:
            after.wait("half a thought")
            assert "another one" not in after.text
            after.send("\x15")
            after.quit()
        alive.send("\x15")
        alive.quit()
