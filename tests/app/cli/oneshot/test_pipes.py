"""`specchat run` with files and pipes: real processes, a recorded model that repeats what it was asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ....fakes.engines import COUNTING
from ....fakes.records import recorded_model
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


def asked(result: subprocess.CompletedProcess[bytes]) -> str:
    """What was asked: the model repeats it."""
    assert result.returncode == 0, result.stderr
    return result.stdout.decode()


def test_piped_text_goes_with_the_prompt(model: str, tmp_path: Path) -> None:
    text = asked(run(model, tmp_path, "Sum up", "--max-tokens", "60", piped=b"alpha beta\n"))
    assert text.startswith("You said: Attached text: standard input (11 B)\n```\nalpha beta\n```\n\nSum up")


def test_nothing_piped_is_no_attachment(model: str, tmp_path: Path) -> None:
    assert "Attached" not in asked(run(model, tmp_path, "Sum up", "--max-tokens", "5", piped=b""))


@pytest.fixture
def here(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs `specchat run` in a folder of its own, with nothing piped in."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: call("run", *args)


def test_files_of_the_option_and_of_the_prompt(here: Call, model: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha\n")
    (tmp_path / "b.txt").write_text("beta")
    code, text, err = here("Sum up @notes.txt", "-f", "b.txt", "--max-tokens", "90", "--model", model)
    assert code == 0, err
    first, second = text.index("Attached file: b.txt (4 B)"), text.index("Attached file: notes.txt (6 B)")
    assert first < text.index("beta") < second < text.index("alpha") < text.index("Sum up @notes.txt")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("Sum up @none.txt",), "There is no file none.txt. Check the name, or write @@ for a plain @."),
        (("Sum up", "-f", "none.txt"), "There is no file none.txt. Check the path."),
        (("Sum up", "-f", "binary"), "binary is binary, not text. Attach a text file."),
        (("Sum up", "-f", "log", "--raw"), "--raw sends the prompt as it is, without files. Leave out --raw or -f."),
    ],
)
def test_what_cannot_be_attached_is_a_sentence_and_nothing_is_sent(
    here: Call, model: str, tmp_path: Path, args: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    assert here(*args, "--model", model) == (2, "", f"specchat: {sentence}\n")


def test_json_lines_are_the_steps_and_then_the_whole(here: Call, model: str) -> None:
    code, out, err = here("Sum up", "--jsonl", "--method", "lookup", "--model", model)
    assert code == 0, err
    *steps, whole = map(json.loads, out.splitlines())
    assert all(list(step) == ["text", "token_ids", "drafted", "accepted", "method"] for step in steps)
    assert "".join(step["text"] for step in steps) == whole["text"]
    # A step without tokens brings what had been held back to the end.
    made = [step for step in steps if step["token_ids"]]
    assert len(made) == whole["steps"] > 0
    assert len(steps) - len(made) <= 1
    assert [token for step in made for token in step["token_ids"]] == whole["token_ids"]
    assert [len(step["token_ids"]) for step in made] == whole["runs"]
    assert sum(step["drafted"] for step in made) == whole["draft_tokens"] > 0
    assert sum(step["accepted"] for step in made) == whole["accepted_tokens"] > 0
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
    gone, alive = psutil.wait_procs(engine, timeout=120)
    assert (len(gone), alive) == (len(engine), [])
