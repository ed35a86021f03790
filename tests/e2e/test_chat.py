"""The chat in a real pseudo-terminal, with its real engine process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from ..fakes.engines import COUNTING
from ..fakes.records import recorded_model
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT

SENTENCE = "The lighthouse keeper counted seven lanterns before the harbour woke. "


@pytest.fixture
def slow_record(tmp_path: Path) -> str:
    """A recorded model that takes 40 ms a pass: an answer of several seconds, and one of a minute and more."""
    return recorded_model(tmp_path, {"keeper": SENTENCE * 12, "count": COUNTING}, 0.04)


def engine_of(terminal: Terminal) -> psutil.Process:
    """The chat's engine process."""
    chat = psutil.Process(terminal.process.pid)
    return next(child for child in chat.children(recursive=True) if "specchat.engine" in " ".join(child.cmdline()))


def test_switch_in_mid_answer_type_cancel_and_go_on(env: dict[str, str], slow_record: str) -> None:
    with Terminal([SPECCHAT, "--model", slow_record, "--method", "greedy"], env=env) as terminal:
        terminal.wait("greedy")
        terminal.send("keeper\r")
        terminal.wait("The lighthouse keeper")
        engine = engine_of(terminal)
        terminal.send("n 1 draft")  # bare letters, digits and space type, also during an answer
        terminal.wait("n 1 draft")
        for method in ("◆ lookup", "◆ fusion"):
            terminal.send("\x0e")
            terminal.wait(method)
        terminal.wait("● ready")
        assert "n 1 draft" in terminal.text, "the draft survives"
        terminal.send("\x7f" * 9 + "/method greedy\r")
        terminal.wait("◆ greedy")
        terminal.send("count\r")
        terminal.wait("0 1 2")
        terminal.send("\x1b")
        terminal.wait("Cancelled ·")
        terminal.quit()
        assert not psutil.pid_exists(engine.pid) or engine.status() == psutil.STATUS_ZOMBIE


def test_a_killed_engine_costs_one_answer_and_not_the_chat(env: dict[str, str], slow_record: str) -> None:
    with Terminal([SPECCHAT, "--model", slow_record, "--method", "greedy"], env=env) as terminal:
        terminal.wait("greedy")
        terminal.send("keeper\r")
        terminal.wait("counted seven")
        terminal.send("my draft")
        terminal.wait("my draft")
        os.kill(engine_of(terminal).pid, signal.SIGKILL)
        terminal.wait("engine")
        terminal.wait(lambda text: "counted seven" in text and "my draft" in text)  # the partial answer stays, and the draft
        terminal.send("\x7f" * 8 + "keeper\r")
        terminal.wait(lambda text: text.count("counted seven") >= 2)
        terminal.quit()


def test_hostile_model_text_is_shown_and_does_nothing(env: dict[str, str], tmp_path: Path) -> None:
    text = "A [bold]b[/bold] \x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b]52;c;ZXZpbA==\x07 \x9b2J \x1b[2J end"
    with Terminal([SPECCHAT, "--model", recorded_model(tmp_path, {"go": text})], env=env) as terminal:
        terminal.wait("identical")
        terminal.send("go\r")
        terminal.wait(lambda text: "[bold]b[/bold]" in text and "tokens a pass ·" in text)
        assert "end" in terminal.text
        for sequence in (b"\x1b[31mred", b"\x1b]0;owned", b"\x1b]52;c;ZXZpbA", b"\x9b2J"):
            assert sequence not in terminal.raw
        terminal.quit()


@pytest.mark.slow
def test_type_race_switch_and_quit(env: dict[str, str]) -> None:
    with Terminal([SPECCHAT], env=env, columns=120, lines=36) as terminal:
        terminal.wait("ready")
        terminal.send("Repeat this text exactly: the lamp and the boat and the lamp.")
        terminal.wait("the boat and the lamp.")
        terminal.send("\x1b[15~")  # F5: the race's set-up, on the draft
        terminal.wait("enter start")
        terminal.send("\r")
        terminal.wait(lambda text: "accepted" in text and text.count("identical") >= 2)  # who wins is the machine's to say
        assert "≠" not in terminal.text
        terminal.send("\x1b")
        # Back in the chat: the draft is where it was, and is sent now.
        terminal.wait(lambda text: "accepted" not in text and "the boat and the lamp." in text)
        terminal.send("\r")
        terminal.wait("tokens a pass ·")
        terminal.send("\x0e")  # ctrl+n
        terminal.wait("◆ lookup")
        terminal.send("What is prompt lookup?\r")
        terminal.wait(lambda text: text.count("tokens a pass ·") >= 2 and "lookup" in text)
        terminal.send("\x1bOS\x1bOS")  # F4 twice: the token tree
        terminal.wait(lambda text: "numbers" in text and " node" in text)
        terminal.quit()
