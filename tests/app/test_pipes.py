"""`specchat run` with files and pipes: real processes, a recorded model that repeats what it was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / "answers.jsonl"
    words = "Attached file text standard input Sum up notes txt hidden alpha beta B kB `"
    file.write_text(json.dumps({"prompt": "hello", "response": words}) + "\n", encoding="utf-8")
    return f"recorded:{file}"


def run(model: str, folder: Path, *args: str, piped: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "specchat", "run", *args, "--model", model],
        cwd=folder,
        input=piped,
        stdin=subprocess.DEVNULL if piped is None else None,
        capture_output=True,
        timeout=120,
        env={"PATH": "", "SPECCHAT_CONFIG": str(folder), "SPECCHAT_LOG": str(folder / "log"), "OMP_NUM_THREADS": "1"},
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


def test_files_of_the_option_and_of_the_prompt(model: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha\n")
    (tmp_path / "b.txt").write_text("beta")
    text = asked(run(model, tmp_path, "Sum up @notes.txt", "-f", "b.txt", "--max-tokens", "90"))
    first, second = text.index("Attached file: b.txt (4 B)"), text.index("Attached file: notes.txt (6 B)")
    assert first < text.index("beta") < second < text.index("alpha") < text.index("Sum up @notes.txt")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("Sum up @none.txt",), "There is no file none.txt: mend the name, or write @@ for an @ that names no file."),
        (("Sum up", "-f", "binary"), "binary is binary, not text: attach a text file."),
        (("Sum up", "-f", "log", "--raw"), "--raw sends the prompt as it is, without files: leave out --raw or -f."),
    ],
)
def test_what_cannot_be_attached_is_a_sentence_and_nothing_is_sent(
    model: str, tmp_path: Path, args: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    result = run(model, tmp_path, *args)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode() == f"specchat: {sentence}\n"


def test_json_lines_are_the_steps_and_then_the_whole(model: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in asked(run(model, tmp_path, "hello", "--jsonl", "--method", "lookup")).splitlines()]
    *steps, whole = lines
    assert len(steps) == whole["steps"] > 0
    assert [token for step in steps for token in step["token_ids"]] == whole["token_ids"]
    assert whole["text"].startswith("".join(step["text"] for step in steps))
