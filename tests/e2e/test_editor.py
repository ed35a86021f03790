"""The draft in an editor, in a real terminal: small programs of the test's own are the editors."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ..fakes.records import recorded_model
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT

SENTENCE = "The lighthouse keeper counted seven lanterns before the harbour woke. "

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


def test_the_answer_goes_on_while_the_editor_is_open_and_nothing_is_lost(
    editor: Editor, slow_model: list[str], tmp_path: Path
) -> None:
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


def test_ctrl_z_stops_no_editor_that_no_shell_could_resume(editor: Editor, slow_model: list[str]) -> None:
    env = editor('echo EDITOR OPEN; until [ -e "$GO" ]; do sleep 0.05; done; printf \'written\' > "$1"')
    with Terminal([SPECCHAT, *slow_model], env=env, owned=True) as terminal:
        terminal.wait("greedy")
        terminal.send("\x1be")
        terminal.wait_raw(b"EDITOR OPEN")
        terminal.send("\x1a")
        terminal.pump(0.5)
        Path(env["GO"]).touch()
        terminal.wait("written")
        terminal.quit()
