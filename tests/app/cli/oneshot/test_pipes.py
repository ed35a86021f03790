"""`specchat run` with files and pipes: real processes, a recorded model that repeats what it was asked."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from ....fakes.engines import COUNTING
from ....fakes.records import recorded_model
from ....fakes.terminal import Terminal
from ..conftest import Call


@pytest.fixture
def model(tmp_path: Path) -> str:
    words = "Attached file text standard input Sum up notes txt hidden alpha beta B kB `"
    return recorded_model(tmp_path, {"hello": words, "count": COUNTING})


def environment(folder: Path) -> dict[str, str]:
    """An environment with next to nothing in it."""
    runtime = os.environ["SPECCHAT_RUNTIME"]
    return {"PATH": "", "SPECCHAT_CONFIG": str(folder), "SPECCHAT_LOG": str(folder / "log"), "SPECCHAT_RUNTIME": runtime}


def run(model: str, folder: Path, *args: str, piped: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "specchat", "run", *args, "--model", model],
        cwd=folder,
        input=piped,
        stdin=subprocess.DEVNULL if piped is None else None,
        capture_output=True,
        timeout=120,
        env={**environment(folder), "OMP_NUM_THREADS": "1"},
        check=False,
    )


def answer_of(result: subprocess.CompletedProcess[bytes]) -> str:
    """Return the answer, which repeats the prompt."""
    assert result.returncode == 0, result.stderr
    return result.stdout.decode()


def test_piped_text_goes_with_the_prompt(model: str, tmp_path: Path) -> None:
    text = answer_of(run(model, tmp_path, "Sum up", "--max-tokens", "60", piped=b"alpha beta\n"))
    assert text.startswith("You said: Attached text: standard input (11 B)\n```\nalpha beta\n```\n\nSum up")


@pytest.fixture
def run_here(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `specchat run` in an empty folder, with nothing piped in."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: call("run", *args)


def test_files_of_the_option_and_of_the_prompt(run_here: Call, model: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha\n")
    (tmp_path / "b.txt").write_text("beta")
    code, text, err = run_here("Sum up @notes.txt", "-f", "b.txt", "--max-tokens", "90", "--model", model)
    assert code == 0, err
    first, second = text.index("Attached file: b.txt (4 B)"), text.index("Attached file: notes.txt (6 B)")
    assert first < text.index("beta") < second < text.index("alpha") < text.index("Sum up @notes.txt")


def test_json_lines_are_the_steps_and_then_the_whole(run_here: Call, model: str) -> None:
    code, out, err = run_here("Sum up", "--jsonl", "--method", "lookup", "--model", model)
    assert code == 0, err
    *steps, whole = map(json.loads, out.splitlines())
    assert all(list(step) == ["text", "token_ids", "drafted", "accepted", "method"] for step in steps)
    assert "".join(step["text"] for step in steps) == whole["text"]
    # A step without tokens brings what had been held back to the end.
    passes = [step for step in steps if step["token_ids"]]
    assert len(passes) == whole["steps"] > 0
    assert len(steps) - len(passes) <= 1
    assert [token for step in passes for token in step["token_ids"]] == whole["token_ids"]
    assert [len(step["token_ids"]) for step in passes] == whole["runs"]
    assert sum(step["drafted"] for step in passes) == whole["draft_tokens"] > 0
    assert sum(step["accepted"] for step in passes) == whole["accepted_tokens"] > 0
    assert {step["method"] for step in steps} == {"lookup"}


def counting(model: str, folder: Path) -> subprocess.Popen[bytes]:
    """A program whose answer takes minutes."""
    command = [sys.executable, "-m", "specchat", "run", "count", "--jsonl", "--model", f"{model}?pace=0.2"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment(folder))


def test_lines_come_as_they_are_made(model: str, tmp_path: Path) -> None:
    with counting(model, tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        assert first["token_ids"]
        assert process.poll() is None
        # As `| head -1` does.
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_what_there_is_is_printed(model: str, tmp_path: Path, number: int, code: int) -> None:
    with counting(model, tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        engine = psutil.Process(process.pid).children()
        process.send_signal(number)
        lines = process.stdout.read().splitlines()
        assert process.stderr.read() == b""
    assert process.returncode == code
    assert json.loads(lines[-1])["finish_reason"] == "cancelled"
    assert engine
    ended, alive = psutil.wait_procs(engine, timeout=120)
    assert (len(ended), alive) == (len(engine), [])


ANSWER = "one two three one two three one two three \x1b[31mred \x1b]0;title\x07[bold] end"
SAFE = ANSWER.replace("\x1b", "␛").replace("\x07", "␇")
SEQUENCE = re.compile(r"\x1b\[[0-9;]*[mK]")


@pytest.fixture
def greeting_model(tmp_path: Path) -> str:
    return recorded_model(tmp_path, {"hello": ANSWER, "count": COUNTING})


def plain(text: str) -> str:
    """Strip colours, and lines that were cleared again."""
    return SEQUENCE.sub("", "\n".join(line.rsplit("\r\x1b[K", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")))


def run_in_terminal(terminal_environment: Mapping[str, str], *args: str) -> tuple[int, str]:
    """A command that has a pseudo-terminal to itself: its exit code, and what it wrote."""
    with Terminal([sys.executable, "-m", "specchat", *args], env=terminal_environment) as terminal:
        return terminal.exit_code(), terminal.raw.decode(errors="replace")


@pytest.fixture
def terminal_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
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
def test_colours_by_depth(
    greeting_model: str, terminal_environment: dict[str, str], changes: dict[str, str], pattern: str
) -> None:
    code, text = run_in_terminal({**terminal_environment, **changes}, "run", "hello", "--model", greeting_model)
    assert code == 0
    assert re.search(pattern, text)
    answer, figures, *legend = plain(text).splitlines()
    assert answer == SAFE
    assert re.fullmatch(r"(.+ · )?\d\.\d tokens a pass · [\d,.]+ tokens/s · lookup", figures)
    assert "\x1b[2m" in text.splitlines()[-2]
    assert legend == [" 1  2  3  4–5  6–7  8+  tokens a pass"]
    assert re.search(r"\x1b\[[\d;]+m 8\+ \x1b\[0m", text.splitlines()[-1])


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours(greeting_model: str, terminal_environment: dict[str, str], changes: dict[str, str]) -> None:
    code, text = run_in_terminal({**terminal_environment, **changes}, "run", "hello", "--model", greeting_model)
    assert code == 0
    assert not re.search(r"\x1b\[3|\x1b\[2m|\x1b\]", text)
    assert plain(text).startswith(f"{SAFE}\n")
    assert "4–5" not in plain(text)  # the legend
    if "TERM" in changes:
        assert "\x1b" not in text


def test_ctrl_c_at_the_keyboard(greeting_model: str, terminal_environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "specchat", "run", "count", "--model", f"{greeting_model}?pace=0.2", "--method", "greedy"]
    with Terminal(command, env=terminal_environment, owned=True) as terminal:
        terminal.wait("1 2")
        terminal.send("\x03")
        assert terminal.exit_code() == 130
        text = terminal.raw.decode(errors="replace")
    assert "Cancelled · " in plain(text)
    assert plain(text).replace("^C", "").startswith("0 1 2")
    assert "Traceback" not in text


def test_the_chat_refuses_a_dumb_terminal(terminal_environment: dict[str, str]) -> None:
    code, text = run_in_terminal({**terminal_environment, "TERM": "dumb"})
    assert code == 2
    assert "Use `specchat run PROMPT`" in plain(text)
