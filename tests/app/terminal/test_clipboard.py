"""Copies, with programs of the test's own in the place of the system's tools."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specchat.app.terminal import clipboard
from specchat.app.terminal.clipboard import LONG_BYTES, Copied, Tool, asks_terminal, copy, osc52, told, tools

NAMES = ("TMUX", "STY", "DISPLAY", "WAYLAND_DISPLAY", "SSH_TTY", "SSH_CONNECTION")
TEXT = "def f():\n    return 'Grüße 👩‍👩‍👧'\n"

Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Makes programs that are all there is on the PATH; each keeps what it is given in a file of its name."""
    monkeypatch.setattr(clipboard, "TIMEOUT_SECONDS", 60.0)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cat", "sh", "sleep", "tr"):
        (folder / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> Path:
        file = folder / name
        file.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "board"

    return make


GOOD_XCLIP = "cat > board"


def test_a_tool_has_the_text(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    board = fake("xclip", GOOD_XCLIP)
    monkeypatch.setenv("DISPLAY", ":9")
    done = copy(TEXT)
    assert board.read_text() == TEXT
    assert (done.tool is not None and done.tool.name, done.failed) == ("xclip", "")
    assert told("the answer", done, TEXT) == "Copied the answer with xclip."
    assert not asks_terminal(done)


def test_a_tool_that_fails_is_never_said_to_have_copied(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake("xclip", "exit 1")  # no X server answers
    monkeypatch.setenv("DISPLAY", ":9")
    done = copy(TEXT)
    assert done == Copied(None, "xclip")
    sentence = told("the answer", done, TEXT)
    assert sentence.startswith("xclip could not copy the answer, so specchat sent it to the terminal's clipboard (OSC 52).")
    assert "Copied" not in sentence
    assert "If nothing arrives" in sentence
    assert asks_terminal(done)


def test_a_tool_that_hangs_is_given_up_and_the_next_one_copies(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    run = clipboard._run

    def little_time_for_the_first(command: tuple[str, ...], data: bytes, tool: Tool) -> bool:
        monkeypatch.setattr(clipboard, "TIMEOUT_SECONDS", 0.3 if tool.name == "wl-copy" else 60.0)
        return run(command, data, tool)

    monkeypatch.setattr(clipboard, "_run", little_time_for_the_first)
    fake("wl-copy", "sleep 60")
    fake("xclip", GOOD_XCLIP)
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-9")
    done = copy(TEXT)
    assert (done.tool is not None and done.tool.name, done.failed) == ("xclip", "wl-copy")


def test_a_tool_in_the_background_is_not_waited_for(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    # As xclip does: it stays to serve the selection, with its standard output open.
    fake("xclip", "cat > board; (sleep 30) &")
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr(clipboard, "TIMEOUT_SECONDS", 10.0)
    assert copy(TEXT).tool is not None


def test_there_is_no_tool_where_there_is_no_screen(fake: Fake) -> None:
    fake("xclip", GOOD_XCLIP)
    fake("wl-copy", "cat > board")
    assert tools() == []  # neither DISPLAY nor WAYLAND_DISPLAY


def test_over_ssh_the_terminal_is_asked_too_and_the_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Copied(Tool("xclip", ("xclip",)))
    monkeypatch.setattr("platform.node", lambda: "attic.example.org")
    assert asks_terminal(done, remote=True)
    assert told("the run", done, "x", remote=True).startswith("Copied the run on attic with xclip, and sent it to your")


def test_a_long_text_says_what_terminals_take() -> None:
    assert "some terminals take no more" in told("the chat", Copied(), "x" * (LONG_BYTES + 1))
    assert "some terminals" not in told("the chat", Copied(), "x" * LONG_BYTES)


def decoded(sequence: str) -> str:
    """The text of a plain OSC 52."""
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\a")
    return base64.b64decode(sequence[7:-1]).decode()


def test_the_sequence_for_a_terminal_holds_the_text() -> None:
    assert decoded(osc52(TEXT, {})) == TEXT


def test_in_tmux_it_is_sent_once_for_tmux_and_once_to_be_passed_on() -> None:
    sent = osc52(TEXT, {"TMUX": "/tmp/tmux-1/default,1,0"})
    plain, wrapped, rest = sent.partition("\x1bPtmux;")
    assert decoded(plain) == TEXT
    assert wrapped
    assert rest.endswith("\x1b\\")
    assert decoded(rest.removesuffix("\x1b\\").replace("\x1b\x1b", "\x1b")) == TEXT


def test_in_screen_no_piece_is_longer_than_it_passes_on() -> None:
    text = TEXT * 200
    pieces = osc52(text, {"STY": "1.pts"}).split("\x1b\\")
    assert pieces.pop() == ""
    assert all(piece.startswith("\x1bP") and len(piece) + 2 <= 768 for piece in pieces)
    assert decoded("".join(piece.removeprefix("\x1bP") for piece in pieces)) == text


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A tmux server of the test's own, which this process takes itself to be in."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("tmux is not installed")
    monkeypatch.setattr(clipboard, "TIMEOUT_SECONDS", 60.0)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    # A socket's path may have about 100 characters.
    command = [program, "-S", f"/tmp/specchat-tmux-{os.getpid()}"]
    subprocess.run([*command, "-f", "/dev/null", "new-session", "-d", "sleep", "60"], check=True)
    monkeypatch.setenv("TMUX", f"{command[2]},{os.getpid()},0")
    yield command
    subprocess.run([*command, "kill-server"], check=False)
    Path(command[2]).unlink(missing_ok=True)
