"""`specchat run --suffix`: filling in the middle, from the command line to the answer, on both runtimes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.app.cli import main as cli
from specchat.backends import LoadOptions, load_model
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import methods

from ....cases import FULL
from ....fakes.models.coders import coder, coder_gguf
from ....fakes.models.llama_tiny import CONTEXT, needs_llama

BEFORE, AFTER = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))  # me@home.org @nowhere\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "after.py").write_text(AFTER, encoding="utf-8")
    (tmp_path / "prompt.py").write_text(BEFORE, encoding="utf-8")
    return tmp_path


def run(folder: Path, *args: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specchat", "run", *args, "--threads", "1"],
        cwd=folder,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": "", "SPECCHAT_CONFIG": str(folder), "SPECCHAT_LOG": str(folder / "log"), "OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.mark.parametrize(
    ("runtime", "piped"),
    [
        ("transformers", True),
        pytest.param("llama.cpp", False, marks=needs_llama),
        *([("transformers", False), pytest.param("llama.cpp", True, marks=needs_llama)] if FULL else []),
    ],
)
def test_the_gap_is_filled_in(folder: Path, runtime: str, piped: bool) -> None:
    model = str(coder("qwen") if runtime == "transformers" else coder_gguf("qwen"))
    loaded = load_model(model, LoadOptions(device="cpu", threads=1))
    gap = loaded.encode_gap(BEFORE, AFTER)
    generation = Generation(Conversation(loaded), gap.ids, max_tokens=5, ends=gap.ends, anchor=gap.anchor)
    wanted = [token for step in generation for token in step.tokens]
    loaded.close()
    # From standard input and a file it is sent to the letter too: an answer that goes on from a space must not lose it.
    texts = ["-", "--suffix-file", "after.py"] if piped else [BEFORE, "--suffix", AFTER]
    done = run(folder, *texts, "--model", model, "--max-tokens", "5", "--json", given=BEFORE if piped else None)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["backend"] == runtime
    assert data["left_out"] == {"prompt": 0, "suffix": 0}
    assert (data["prompt_tokens"], data["token_ids"]) == (len(gap.ids), wanted)


def test_every_method_fills_in_the_same(folder: Path) -> None:
    model = load_model(str(coder("qwen")), LoadOptions(device="cpu"))
    gap = model.encode_gap(BEFORE * 2, AFTER)
    found = {}
    for method in methods().values():
        if method.label == "identical" and not method.needs_draft_model and not method.needs_head:
            generation = Generation(Conversation(model), gap.ids, method.name, max_tokens=10, ends=gap.ends, anchor=gap.anchor)
            found[method.name] = ("".join(step.text for step in generation) + generation.flush(), generation.answer)
    assert len(found) >= 5
    assert len({text for text, _ in found.values()}) == 1


def test_what_does_not_fit_is_left_out_and_said(folder: Path) -> None:
    long = "".join(f"line_{i} = {i}\n" for i in range(400))
    done = run(folder, "-", "--suffix", long, "--model", str(coder("qwen")), "--max-tokens", "4", "--json", given=long)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["prompt_tokens"] == CONTEXT - 4
    before, after = data["left_out"]["prompt"], data["left_out"]["suffix"]
    assert before > 0 < after
    assert done.stderr == (
        f"specchat: The context holds {CONTEXT:,} tokens, so {before:,} tokens at the beginning of the prompt and "
        f"{after:,} tokens at the end of the suffix were left out. Shorten the text, or load the model with a larger "
        "context (--context).\n"
    )


def test_the_built_in_model_says_no(folder: Path) -> None:
    done = run(folder, "a", "--suffix", "b")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "specchat: builtin has no fill-in-the-middle tokens, so it cannot take a suffix. Use a code model that has them, "
        "such as --model Qwen/Qwen2.5-Coder-1.5B, or leave out the suffix.\n"
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--suffix", "x", "--suffix-file", "after.py"], "--suffix and --suffix-file both give the text after the gap"),
        (["--suffix-file", "none.py"], "There is no file none.py"),
        (["--suffix", "x", "-f", "after.py"], "--suffix sends the prompt as it is, without files"),
        (["--suffix", "x", "--system", "y"], "--suffix sends only text, without a system prompt"),
        (["--suffix", "x", "--continue"], "--suffix fills in a text, which is not a chat"),
    ],
)
def test_what_goes_not_together(
    folder: Path, args: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SPECCHAT_CONFIG", str(folder))
    monkeypatch.setattr(sys, "argv", ["specchat", "run", "x", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert told in err
