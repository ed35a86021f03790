"""`cat notes | specchat` in a real pseudo-terminal: the text goes with the first message, the keyboard works."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ..cases import FULL
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT, listed


@pytest.fixture(autouse=True)
def notes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"The lamp number {i} was lit.\n" for i in range(3)))


def shell(line: str, env: dict[str, str]) -> Terminal:
    return Terminal(["sh", "-c", line], env=env, owned=True)


@pytest.mark.parametrize("way", ["cat {notes} | {specchat}", *(["{specchat} < {notes}"] if FULL else [])])
def test_what_is_piped_in_goes_with_the_first_message(env: dict[str, str], model: str, tmp_path: Path, way: str) -> None:
    line = way.format(notes=tmp_path / "notes.txt", specchat=f"{SPECCHAT} --model {model}")
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


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("printf 'a\\0b'", "The piped input is binary, not text. Attach a text file."),
        ("head -c 2000001 /dev/zero | tr '\\0' a", "The piped input is larger than 2.0 MB, the limit for a message"),
    ],
)
def test_what_cannot_be_taken_is_a_sentence(env: dict[str, str], model: str, source: str, sentence: str) -> None:
    with shell(f"{source} | {SPECCHAT} --model {model}; echo code $?", env) as terminal:
        terminal.wait("code 2")
        assert sentence in " ".join(terminal.text.split())


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
