"""The chat in a real pseudo-terminal, with its real engine process."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ..cases import FULL
from ..fakes.engines import COUNTING
from ..fakes.records import recorded_model
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT, listed

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


Editor = Callable[..., dict[str, str]]


@pytest.fixture
def editor(tmp_path: Path, env: dict[str, str]) -> Editor:
    """Makes an editor out of a shell script, in which $1 is the file; an environment that names it."""

    def make(script: str) -> dict[str, str]:
        file = tmp_path / "my editor"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return {**env, "VISUAL": f"'{file}'", "EDITOR": "false", "TMPDIR": str(tmp_path), "GO": str(tmp_path / "go")}

    return make


@pytest.fixture
def slow_model(tmp_path: Path) -> list[str]:
    """A recorded model that takes 40 ms a pass, and the options that use it."""
    nights = "".join(f"{SENTENCE}{n} " for n in range(40))  # numbered: exact repeats are stopped as a loop
    model = recorded_model(tmp_path, {"keeper": f"{nights}At last all was dark."}, 0.04)
    return ["--model", model, "--method", "greedy"]


def test_an_answer_goes_on_behind_the_editor(editor: Editor, slow_model: list[str], tmp_path: Path) -> None:
    # The shell must not die of ctrl+c either.
    wait = 'trap \'\' INT QUIT; echo EDITOR OPEN; cat "$1"; until [ -e "$GO" ]; do sleep 0.05; done; '
    env = editor(wait + 'printf " and more\\n" >> "$1"')
    with Terminal([SPECCHAT, *slow_model], env=env) as terminal:
        terminal.wait("greedy")
        terminal.send("keeper\r")
        terminal.wait("The lighthouse keeper")
        terminal.send("my draft\x1be")
        terminal.wait_raw(b"EDITOR OPEN\r\nmy draft")
        terminal.send("\x03\x1c")  # ctrl+c and ctrl+\ are the editor's; this one dies of neither, nor does the chat
        mark = len(terminal.raw)
        terminal.pump(0.5)
        assert b"\x1b[" not in terminal.raw[mark:], "nothing is drawn over the editor"
        Path(env["GO"]).touch()
        terminal.wait(lambda text: "my draft" in text and "and more" in text)
        terminal.send("\x0e")  # ctrl+n: lookup writes the rest sooner
        terminal.wait("At last all was dark.")
        terminal.wait("● ready")
        assert terminal.text.count("harbour woke") >= 3
        terminal.send("\x1a")  # ctrl+z brings the draft back as it was
        terminal.wait(lambda text: "and more" not in text and "my draft" in text)
        terminal.quit()
    assert not list(tmp_path.glob("specchat-*")), "no file is left behind"


WORDS = " ".join(f"lantern-{n}" for n in range(400))


@pytest.fixture
def keeper_record(tmp_path: Path) -> str:
    """A recorded model that takes 40 ms a pass."""
    return recorded_model(tmp_path, {"keeper": WORDS}, 0.04)


def shown(env: dict[str, str]) -> str:
    command = [SPECCHAT, "chats", "show", "1"]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_chat_that_is_killed_in_mid_answer_is_continued(env: dict[str, str], keeper_record: str) -> None:
    command = [SPECCHAT, "--model", keeper_record, "--method", "greedy"]
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


@pytest.fixture(autouse=True)
def notes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"The lamp number {i} was lit.\n" for i in range(3)))


def shell(line: str, env: dict[str, str]) -> Terminal:
    return Terminal(["sh", "-c", line], env=env, owned=True)


@pytest.mark.parametrize("template", ["cat {notes} | {specchat}", *(["{specchat} < {notes}"] if FULL else [])])
def test_what_is_piped_in_goes_with_the_first_message(env: dict[str, str], model: str, tmp_path: Path, template: str) -> None:
    line = template.format(notes=tmp_path / "notes.txt", specchat=f"{SPECCHAT} --model {model}")
    with shell(line, env) as terminal:
        terminal.wait("[standard input]")
        terminal.wait("identical")
        terminal.send("Sum up\r")
        # The model repeats what it was sent.
        terminal.wait(lambda text: "You said: Attached text: standard input (81 B)" in text and "The lamp number 2" in text)
        terminal.send("\x1b")
        terminal.settle()
        terminal.quit()
    assert len(listed(env)) == 1


def test_a_pipe_without_end_is_waited_for_and_can_be_left(env: dict[str, str], model: str) -> None:
    with shell(f"sleep 600 | {SPECCHAT} --model {model}", env) as terminal:
        terminal.wait("reading standard input until it ends")
        terminal.send("\x03")
        terminal.exit_code()
        # No traceback, no second line. Whether the key itself is shown is up to the terminal: one whose
        # programs have all ended may drop its echo.
        assert "".join(terminal.text.splitlines()[1:]) in ("^C", "")


def test_without_a_terminal_the_sentence_names_run(env: dict[str, str], model: str) -> None:
    done = subprocess.run(
        [SPECCHAT, "--model", model], input="text", env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "specchat: The chat needs a terminal for its input and output. Use `specchat run PROMPT` here. It reads piped input.\n"
    )
