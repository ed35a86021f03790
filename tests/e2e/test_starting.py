"""Real processes from their first moment on: ctrl+c at any instant, a closed pipe, arguments in any locale."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import specchat

from ..cases import FULL
from ..fakes.terminal import Terminal

SPECCHAT = [sys.executable, "-m", "specchat"]
INSTANTS = 60 if FULL else 4
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
        said = process.communicate()[1].decode()
        starting = TREE not in said or "init_import_site" in said  # whose finder of this package may lie in the tree
        if starting and ("KeyboardInterrupt" in said or code == -signal.SIGINT):
            seconds *= 1.2  # Python itself was still starting, on a busy machine: nothing of specchat ran yet
            continue
        reached += 1
        assert (code, said) == ((0 if finished else 130), "")


@pytest.mark.parametrize(
    "command", [["methods"], ["run", "hello"], *([["--help"], ["run", "--jsonl", "hello"]] if FULL else [])]
)
def test_a_closed_pipe_ends_quietly(env: dict[str, str], model: str, command: list[str]) -> None:
    """As `… | true` does, whose end comes before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [*SPECCHAT, *(["--model", model] if command[0] == "run" else []), *command]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, env=env, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


LOCALES = {
    "C": {"LC_ALL": "C"},
    "LANG": {"LANG": "C"},
    "POSIX": {"LC_ALL": "POSIX"},
    "not installed": {"LC_ALL": "de_DE.ISO-8859-1"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("locale", LOCALES if FULL else ["LANG"])
def test_an_argument_is_utf_8_whatever_the_locale(env: dict[str, str], model: str, tmp_path: Path, locale: str) -> None:
    (tmp_path / "Grüße.txt").write_text("Äpfel", encoding="utf-8")
    done = subprocess.run(
        [*SPECCHAT, "run", "--model", model, "-f", str(tmp_path / "Grüße.txt"), "grün ✓"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**env, **LOCALES[locale]},
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert "grün ✓" in done.stdout.decode()
    assert "Äpfel" in done.stdout.decode()


@pytest.mark.parametrize("locale", ["C", "ASCII"] if FULL else ["ASCII"])
def test_a_byte_that_is_no_utf_8_becomes_a_mark(env: dict[str, str], model: str, locale: str) -> None:
    command: list[str | bytes] = [*SPECCHAT, "run", "--model", model, b"gr\xfcn"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env={**env, **LOCALES[locale]}, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert "gr�n" in done.stdout.decode()


@pytest.mark.parametrize("locale", ["C", "ASCII"] if FULL else ["ASCII"])
def test_the_chat_draws_and_takes_utf_8_whatever_the_locale(
    env: dict[str, str], model: str, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    with Terminal([*SPECCHAT, "--model", model], env={**env, **LOCALES[locale]}) as terminal:
        terminal.wait("identical")
        terminal.send("grün ✓")
        terminal.wait("› grün ✓")
        assert "╭" in terminal.text
        terminal.quit()
