"""`specchat run` in a pseudo-terminal: colours by depth, harmless text, figures, Ctrl-C typed at the keyboard."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ....fakes.engines import COUNTING

ANSWER = "one two three one two three one two three \x1b[31mred \x1b]0;title\x07[bold] end"
SAFE = ANSWER.replace("\x1b", "␛").replace("\x07", "␇")
SEQUENCE = re.compile(r"\x1b\[[0-9;]*[mK]")


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / "answers.jsonl"
    rows = [{"prompt": "hello", "response": ANSWER}, {"prompt": "count", "response": COUNTING}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"recorded:{file}"


class Terminal:
    """A command that has a pseudo-terminal to itself."""

    def __init__(self, args: list[str], environment: Mapping[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "TERM")}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, "-m", "specchat", *args], {**kept, **environment})
        self.text = ""

    def read_until(self, part: str, seconds: float = 120) -> None:
        """Read on until the output holds `part` (or, where it is empty, to the end)."""
        data = self.text.encode()
        deadline = time.monotonic() + seconds
        while not part or part not in self.plain:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:  # how Linux tells that the other side is closed
                chunk = b""
            if not chunk:
                assert not part, self.text
                return
            data += chunk
            self.text = data.decode(errors="replace")

    def end(self) -> int:
        """Read to the end; the exit code."""
        self.read_until("")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def plain(self) -> str:
        """What a person reads: without colours, and without lines that were cleared again."""
        lines = self.text.replace("\r\n", "\n").split("\n")
        return SEQUENCE.sub("", "\n".join(line.rsplit("\r\x1b[K", 1)[-1] for line in lines))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "SPECCHAT_CONFIG": str(tmp_path),
        "SPECCHAT_LOG": str(tmp_path / "engine.log"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({}, r"\x1b\[38;2;\d+;\d+;\d+m[ a-z]+\x1b\[0m"),
        ({"COLORTERM": ""}, r"\x1b\[38;5;\d+m[ a-z]+\x1b\[0m"),
        ({"COLORTERM": "", "TERM": "linux"}, r"\x1b\[\d\dm[ a-z]+\x1b\[0m"),
    ],
)
def test_colours_by_depth(model: str, environment: dict[str, str], changes: dict[str, str], pattern: str) -> None:
    terminal = Terminal(["run", "hello", "--model", model], {**environment, **changes})
    assert terminal.end() == 0
    assert re.search(pattern, terminal.text)
    assert terminal.plain.startswith(f"{SAFE}\n")
    figures = terminal.plain.splitlines()[1]
    assert re.fullmatch(
        r".+: \d+ of \d+ guesses were right\. · lookup · [\d,.]+ tokens/s · first token after [\d.,]+ m?s( · finished)?",
        figures,
    )
    assert "\x1b[2m" in terminal.text.splitlines()[-2]
    assert terminal.plain.splitlines()[2:] == [" 1  2  3  4–5  6–7  8+  tokens a pass"]
    assert re.search(r"\x1b\[[\d;]+m 8\+ \x1b\[0m", terminal.text.splitlines()[-1])


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours(model: str, environment: dict[str, str], changes: dict[str, str]) -> None:
    terminal = Terminal(["run", "hello", "--model", model], {**environment, **changes})
    assert terminal.end() == 0
    assert "\x1b[3" not in terminal.text
    assert "\x1b[2m" not in terminal.text
    assert "\x1b]" not in terminal.text
    assert terminal.plain.startswith(f"{SAFE}\n")
    assert "tokens a pass" not in terminal.plain
    if "TERM" in changes:
        assert "\x1b" not in terminal.text


def test_ctrl_c_at_the_keyboard(model: str, environment: dict[str, str]) -> None:
    terminal = Terminal(["run", "count", "--model", f"{model}?pace=0.2", "--method", "greedy"], environment)
    terminal.read_until("1 2")
    os.write(terminal.fd, b"\x03")
    assert terminal.end() == 130
    assert "Cancelled." in terminal.plain
    assert terminal.plain.replace("^C", "").startswith("0 1 2")
    assert "Traceback" not in terminal.text


def test_the_chat_refuses_a_dumb_terminal(environment: dict[str, str]) -> None:
    terminal = Terminal([], {**environment, "TERM": "dumb"})
    assert terminal.end() == 2
    assert "Use `specchat run PROMPT`" in terminal.plain
