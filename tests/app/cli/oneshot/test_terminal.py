"""`specchat run` in a pseudo-terminal: colours by depth, harmless text, figures, Ctrl-C typed at the keyboard."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ....fakes.engines import COUNTING
from ....fakes.records import recorded_model
from ....fakes.terminal import Terminal

ANSWER = "one two three one two three one two three \x1b[31mred \x1b]0;title\x07[bold] end"
SAFE = ANSWER.replace("\x1b", "␛").replace("\x07", "␇")
SEQUENCE = re.compile(r"\x1b\[[0-9;]*[mK]")


@pytest.fixture
def model(tmp_path: Path) -> str:
    return recorded_model(tmp_path, {"hello": ANSWER, "count": COUNTING})


def plain(text: str) -> str:
    """What a person reads: without colours, and without lines that were cleared again."""
    return SEQUENCE.sub("", "\n".join(line.rsplit("\r\x1b[K", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")))


def run(environment: Mapping[str, str], *args: str) -> tuple[int, str]:
    """A command that has a pseudo-terminal to itself: its exit code, and what it wrote."""
    with Terminal([sys.executable, "-m", "specchat", *args], env=environment) as terminal:
        return terminal.exit_code(), terminal.raw.decode(errors="replace")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    return {"SPECCHAT_CONFIG": str(tmp_path), "SPECCHAT_LOG": str(tmp_path / "engine.log")}


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({}, r"\x1b\[38;2;\d+;\d+;\d+m[ a-z]+\x1b\[0m"),
        ({"COLORTERM": ""}, r"\x1b\[38;5;\d+m[ a-z]+\x1b\[0m"),
        ({"COLORTERM": "", "TERM": "linux"}, r"\x1b\[\d\dm[ a-z]+\x1b\[0m"),
    ],
)
def test_colours_by_depth(model: str, environment: dict[str, str], changes: dict[str, str], pattern: str) -> None:
    code, text = run({**environment, **changes}, "run", "hello", "--model", model)
    assert code == 0
    assert re.search(pattern, text)
    answer, figures, *legend = plain(text).splitlines()
    assert answer == SAFE
    assert re.fullmatch(r"(.+ · )?\d\.\d tokens a pass · [\d,.]+ tokens/s · lookup", figures)
    assert "\x1b[2m" in text.splitlines()[-2]
    assert legend == [" 1  2  3  4–5  6–7  8+  tokens a pass"]
    assert re.search(r"\x1b\[[\d;]+m 8\+ \x1b\[0m", text.splitlines()[-1])


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours(model: str, environment: dict[str, str], changes: dict[str, str]) -> None:
    code, text = run({**environment, **changes}, "run", "hello", "--model", model)
    assert code == 0
    assert not re.search(r"\x1b\[3|\x1b\[2m|\x1b\]", text)
    assert plain(text).startswith(f"{SAFE}\n")
    assert "4–5" not in plain(text)  # the legend
    if "TERM" in changes:
        assert "\x1b" not in text


def test_ctrl_c_at_the_keyboard(model: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "specchat", "run", "count", "--model", f"{model}?pace=0.2", "--method", "greedy"]
    with Terminal(command, env=environment, owned=True) as terminal:
        terminal.wait("1 2")
        terminal.send("\x03")
        assert terminal.exit_code() == 130
        text = terminal.raw.decode(errors="replace")
    assert "Cancelled · " in plain(text)
    assert plain(text).replace("^C", "").startswith("0 1 2")
    assert "Traceback" not in text


def test_the_chat_refuses_a_dumb_terminal(environment: dict[str, str]) -> None:
    code, text = run({**environment, "TERM": "dumb"})
    assert code == 2
    assert "Use `specchat run PROMPT`" in plain(text)
