"""The chat in a real pseudo-terminal: bytes that are no text, signals that end it, a terminal that goes away."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import specchat

from ..cases import FULL
from ..fakes.terminal import Terminal
from .conftest import typed

SPECCHAT = [sys.executable, "-m", "specchat"]

SWITCHES = (1000, 1003, 1006, 1004, 2004, 1049)
"""Modes that are on in the chat: mouse, focus, bracketed paste, the other screen."""


@pytest.fixture
def command(model: str) -> list[str]:
    return [*SPECCHAT, "--model", model]


def until(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def off(raw: bytearray) -> list[int]:
    """Those of SWITCHES that were switched off last."""
    return [mode for mode in SWITCHES if raw.rfind(b"\x1b[?%dl" % mode) > raw.rfind(b"\x1b[?%dh" % mode)]


def test_bytes_that_are_no_utf_8_become_a_mark(env: dict[str, str], command: list[str]) -> None:
    # Drawn wherever its errors go.
    with Terminal(["sh", "-c", f"{shlex.join(command)} 2>/dev/null"], env=env) as terminal:
        terminal.send("half a ")
        terminal.wait_raw(b"\x1b[?1049h")
        terminal.send("thought")
        terminal.wait("› half a thought")  # typed before the first frame
        terminal.wait("identical")
        terminal.send("\x15")
        for data, text in (
            (b"\xffa", "› �a"),
            (b"gr\xfcn ", "› �agr�n"),
            (b"\x1b[200~M\xfcller\xe9 x\x1b[201~", "M�ller� x"),  # a paste of Latin-1
            (b"\x1b[200~ \x1b[31mred\x1b[0m\r\x1b[201~", "x ␛[31mred␛[0m"),  # a log with its colours
        ):
            os.write(terminal.master, data)
            terminal.wait(text)
        terminal.quit()


def test_a_signal_keeps_chat_and_draft(env: dict[str, str], command: list[str]) -> None:
    with Terminal(command, env=env) as terminal:
        before = termios.tcgetattr(terminal.master)
        terminal.wait("identical")
        terminal.send("hello\r")
        terminal.wait("one two three")
        terminal.settle()
        terminal.send("half a thou")
        terminal.wait("› half a thou")
        assert termios.tcgetattr(terminal.master) != before
        assert off(terminal.raw) == []
        children = psutil.Process(terminal.process.pid).children()
        assert children
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.exit_code() == 143
        assert termios.tcgetattr(terminal.master) == before
        assert off(terminal.raw) == list(SWITCHES)
        assert terminal.raw.rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l")  # the cursor
        assert terminal.raw.rfind(b"\x1b[<u") > terminal.raw.rfind(b"\x1b[>")  # kitty's keys
        assert "specchat: What you were typing is saved. The next chat starts with it." in terminal.text
        assert "Traceback" not in terminal.text
        assert until(lambda: not any(child.is_running() for child in children))
    with Terminal([*command, "--continue"], env=env) as terminal:
        terminal.wait("› half a thou")
        assert "one two three" in terminal.text
        terminal.quit()


CRASHING = """
from specchat.app.tui.chat.chat_keys import TranscriptKeys
from specchat.__main__ import main

def crash(self):
    raise RuntimeError("a fault")

TranscriptKeys.scroll_top.__code__ = crash.__code__
main()
"""
"""The program with a fault: ctrl+home ends it."""


def test_a_draft_is_there_after_whatever_ends_the_program(env: dict[str, str], command: list[str]) -> None:
    def end(terminal: Terminal, how: str) -> int:
        match how:
            case "ctrl+q":
                terminal.send("\x11")
                return 0
            case "ctrl+c twice":
                terminal.send("\x03\x03")
                return 0
            case "crash":
                terminal.send("\x1b[1;5H")
                return 1
            case "SIGKILL":
                assert until(lambda: draft in typed(env))
                terminal.process.kill()
                return -signal.SIGKILL
            case _:
                terminal.process.send_signal(signal.Signals[how])
                return 128 + signal.Signals[how]

    before = ""
    for how in ("ctrl+q", "ctrl+c twice", "SIGHUP", "SIGQUIT", "SIGINT", "SIGKILL", "crash") if FULL else ("SIGKILL", "crash"):
        with Terminal([sys.executable, "-c", CRASHING, *command[3:]], env=env) as terminal:
            terminal.wait(f"› {before}" if before else "Ask something")
            terminal.wait("● ready")  # while a model is being loaded, ctrl+c ends that first
            draft = f"half a thought, then {how}"
            terminal.send(f"\x15{draft}")
            terminal.wait(f"› {draft}")
            code = end(terminal, how)
            assert terminal.exit_code() == code
            before = draft
    with Terminal(command, env=env) as terminal:
        terminal.wait(f"› {before}")


def test_a_terminal_that_goes_away_ends_the_chat_and_the_draft_is_kept(env: dict[str, str], command: list[str]) -> None:
    with Terminal(command, env=env) as terminal:
        # What is typed before the first frame is in the box too.
        terminal.send("half a ")
        terminal.wait_raw(b"\x1b[?1049h")
        terminal.send("thou")
        terminal.wait("› half a thou")
        terminal.wait("● ready")
        children = psutil.Process(terminal.process.pid).children()
        # Away goes the only descriptor of the other side: the kernel sends no signal, as the terminal controls nothing.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, terminal.master)
        os.close(null)
        assert until(lambda: terminal.process.poll() is not None)
        assert terminal.process.returncode == 128 + signal.SIGHUP
        assert until(lambda: not any(child.is_running() for child in children))
    with Terminal(command, env=env) as terminal:
        terminal.wait("› half a thou")


INSTANTS = 60 if FULL else 2
"""SPECCHAT_FULL=1 presses ctrl+c 60 times within 2 s of the start; else a few times within the first."""

TREE = f"{Path(specchat.__file__).parent}{os.sep}"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("LANG", "PYTHONUTF8") and name[:3] != "LC_"}
    return {**plain, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c"), "SPECCHAT_DATA": str(tmp_path / "d")}


def test_ctrl_c_at_any_instant_ends_with_130_and_says_nothing(env: dict[str, str]) -> None:
    rng = random.Random(16)
    reached, seconds = 0, 2.0 if FULL else 0.6
    while reached < INSTANTS:
        # Half of them wait for standard input, which does not end.
        prompt = "-" if reached % 2 else "Tell me a long story."
        command = [*SPECCHAT, "run", "--max-tokens", "2000", prompt]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
        )
        time.sleep(rng.uniform(0, seconds))
        finished = process.poll() is not None
        process.send_signal(signal.SIGINT)
        code = process.wait(120)
        errors = process.communicate()[1].decode()
        starting = TREE not in errors or "init_import_site" in errors  # whose finder of this package may lie in the tree
        if starting and ("KeyboardInterrupt" in errors or code == -signal.SIGINT):
            seconds *= 1.2  # Python itself was still starting, on a busy machine: nothing of specchat ran yet
            continue
        reached += 1
        assert (code, errors) == ((0 if finished else 130), "")


@pytest.mark.parametrize("command", [["run", "hello"], *([["methods"], ["--help"]] if FULL else [])])
def test_a_closed_pipe_ends_quietly(env: dict[str, str], model: str, command: list[str]) -> None:
    """Close the pipe before the first line, as `… | true` does."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [*SPECCHAT, *(["--model", model] if command[0] == "run" else []), *command]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, env=env, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_command_line_is_utf_8_and_other_bytes_become_a_mark(env: dict[str, str], model: str, tmp_path: Path) -> None:
    """Run in the locale C, as most containers do."""
    (tmp_path / "Grüße.txt").write_text("Äpfel", encoding="utf-8")
    done = subprocess.run(
        [*SPECCHAT, "run", "--model", model, "-f", str(tmp_path / "Grüße.txt"), "grün ✓ gr\udcfcn"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**env, "LANG": "C"},
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert "grün ✓ gr�n" in done.stdout.decode()
    assert "Äpfel" in done.stdout.decode()
