"""The command line as a whole: help, listings, usage errors, what a start imports and how long it takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat import __version__
from specchat.app.cli import main as cli

HEAVY = ("torch", "transformers", "numpy", "textual", "rich", "huggingface_hub", "llama_cpp")


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.setenv("SPECCHAT_LOG", str(tmp_path / "engine.log"))


def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *args: str) -> tuple[int, str, str]:
    """Exit code, output and error output of a command, in this process."""
    monkeypatch.setattr(sys, "argv", ["specchat", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def imported(*args: str) -> set[str]:
    """Top-level modules that a command imports in its own process."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "specchat", *args], capture_output=True, text=True, timeout=120, check=True
    )
    return {found.partition(".")[0] for found in re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)}


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["methods", "--json"], ["locate"], ["themes"], ["--version"]])
def test_light_commands_import_nothing_heavy(args: list[str]) -> None:
    assert imported(*args).isdisjoint(HEAVY)


def test_help_imports_only_what_it_prints() -> None:
    script = """
import sys
sys.argv = ["specchat", "--help"]
from specchat.app.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stderr.split()
    rooms = ("chat", "export", "history", "models", "race", "render", "saved", "tui")
    dear = ("textual", "torch", "transformers", "specchat.decoders", *(f"specchat.app.{room}" for room in rooms))
    assert not [name for name in modules if name.startswith(dear)]


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(capsys, monkeypatch, "--version") == (0, f"specchat {__version__}\n", "")


def test_help_names_every_command_and_option(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = call(capsys, monkeypatch, "--help")
    for word in "run methods themes doctor locate --model --draft-model --theme --threads --version".split():
        assert word in out
    _, out, _ = call(capsys, monkeypatch, "run", "-h")
    flags = (
        "--model --draft-model --method --set --max-tokens --temperature --top-k --top-p --min-p --repetition-penalty --seed "
        "--stop --stop-regex --raw --json --threads --device --dtype --context --system --color --draft-model --revision "
        "--gpu-layers --split-mode --flash-attention --kv-type --rpc --backend "
        "--draft-device --draft-dtype --draft-threads"
    )
    for flag in flags.split():
        assert flag in out


def test_methods(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = call(capsys, monkeypatch, "methods", "--json")
    found = {method["name"]: method for method in json.loads(out)}
    assert code == 0
    assert {"greedy", "recompute", "lookup"} <= set(found)
    assert found["lookup"]["params"]
    code, out, _ = call(capsys, monkeypatch, "methods")
    assert code == 0
    for method in found.values():
        assert f"{method['name']}  ({method['label']})" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("command", "does"), [("bench", "run.run_bench"), ("replay", "replay.replay_files"), ("tune", "tune.tune")]
)
def test_what_measures_takes_the_options_on_the_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, does: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(f"specchat.app.cli.bench.{does}", lambda request, *more: asked.append(request))
    before, after = "--draft-model d --threads 2", "--model m --device cpu --dtype float32 --context 99 --threads 3"
    given = [*before.split(), command, str(tmp_path), *after.split(), "--exact", "bits", "--guard", "off"]
    given += ["--draft-device", "cuda:1", "--draft-dtype", "bfloat16", "--draft-threads", "1"]
    assert call(capsys, monkeypatch, *given)[0] == 0
    settings = asked[0].settings
    assert (settings.model, settings.draft_model, settings.device, settings.dtype) == ("m", ("d",), "cpu", "float32")
    assert (settings.context, settings.threads, settings.exact, settings.guard) == (99, 3, "bits", "off")
    assert (settings.draft_device, settings.draft_dtype, settings.draft_threads) == ("cuda:1", "bfloat16", 1)


def test_locate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, out, _ = call(capsys, monkeypatch, "locate", "settings")
    assert (code, out) == (0, f"{tmp_path / 'settings.toml'}\n")
    code, out, _ = call(capsys, monkeypatch, "locate")
    assert code == 0
    assert str(tmp_path / "engine.log") in out
    code, _, err = call(capsys, monkeypatch, "locate", "setings")
    assert code == 2
    assert "did you mean settings?" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "PROMPT"),
        (["rnu", "x"], "rnu"),
        (["run", "x", "--no-such"], "--no-such"),
        (["run", "x", "--top-k", "many"], "--top-k"),
        (["run", "x", "--color", "sometimes"], "sometimes"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str], said: str) -> None:
    code, out, err = call(capsys, monkeypatch, *args)
    assert (code, out) == (2, "")
    assert said.lower() in err.lower()


def test_the_chat_refuses_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = call(capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert err == "specchat: The chat needs a terminal for its input and output. Use `specchat run PROMPT` here.\n"


def test_the_chat_refuses_bad_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call(capsys, monkeypatch, "--theme", "no-such-theme")
    assert code == 2
    assert "--theme takes one of" in err


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    # Buffered as usual, so that the last flush fails, and unbuffered, so that the first line does.
    for buffering in ({}, {"PYTHONUNBUFFERED": "1"}):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | buffering
        done = subprocess.run(
            [sys.executable, "-m", "specchat", "methods"], stdout=write, stderr=subprocess.PIPE, env=environment, check=False
        )
        assert (done.returncode, done.stderr) == (141, b"")
    os.close(write)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--resume"], ["--resume", ""]),
        (["--resume", "--model", "x"], ["--resume", "", "--model", "x"]),
        (["--resume", "lamp"], ["--resume", "lamp"]),
        (["bench", "p.jsonl", "--resume", "--json"], ["bench", "p.jsonl", "--resume", "--json"]),
        (["--backend", "transformers", "bench", "--resume"], ["--backend", "transformers", "bench", "--resume"]),
        (["run", "hi"], ["run", "hi"]),
    ],
)
def test_resume_alone_stands_for_a_choice_before_a_command_only(given: list[str], wanted: list[str]) -> None:
    from specchat.app.cli.main import _words

    assert _words(given) == wanted
