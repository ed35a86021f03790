"""The command line as a whole: help, listings, usage errors, what a start imports and how long it takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat import __version__
from specchat.app.cli.listing import pages
from specchat.app.cli.options import FLAGS
from specchat.app.settings.fields import OPTIONS
from specchat.engine.messages import Load
from specchat.engine.options import DRAFTING, LOADING
from specchat.engine.wire import dump, parse

from .conftest import Call

HEAVY = ("torch", "transformers", "numpy", "textual", "rich", "huggingface_hub", "llama_cpp")


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.setenv("SPECCHAT_LOG", str(tmp_path / "engine.log"))


def imported(*args: str) -> set[str]:
    """Top-level modules that a command imports in its own process."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "specchat", *args], capture_output=True, text=True, timeout=120, check=True
    )
    return {found.partition(".")[0] for found in re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)}


@pytest.mark.parametrize("args", [["run", "--help"], ["methods", "--json"]])
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
    dear = ("textual", "torch", "transformers", "specchat.decoders", *(f"specchat.app.{room}." for room in rooms))
    assert not [name for name in modules if name.startswith(dear)]


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"specchat {__version__}\n", "")


def test_methods(call: Call) -> None:
    code, out, _ = call("methods", "--json")
    found = {method["name"]: method for method in json.loads(out)}
    assert code == 0
    assert {"greedy", "recompute", "lookup"} <= set(found)
    assert found["lookup"]["params"]
    code, out, _ = call("methods")
    assert code == 0
    for method in found.values():
        assert f"{method['name']}  ({method['label']})" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("command", "does"), [("bench", "run.run_bench"), ("replay", "replay.replay_files"), ("tune", "tune.tune")]
)
def test_what_measures_takes_the_options_on_the_model(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, does: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(f"specchat.app.cli.bench.{does}", lambda request, *more: asked.append(request))
    before, after = "--draft-model d --threads 2", "--model m --device cpu --dtype float32 --context 99 --threads 3"
    given = [*before.split(), command, str(tmp_path), *after.split(), "--exact", "on"]
    given += ["--draft-device", "cuda:1", "--draft-dtype", "bfloat16", "--draft-threads", "1"]
    assert call(*given)[0] == 0
    settings = asked[0].settings
    assert (settings.model, settings.draft_model, settings.device, settings.dtype) == ("m", ("d",), "cpu", "float32")
    assert (settings.context, settings.threads, settings.exact) == (99, 3, "on")
    assert (settings.draft_device, settings.draft_dtype, settings.draft_threads) == ("cuda:1", "bfloat16", 1)


def test_every_option_of_a_load_goes_from_the_shell_to_the_engine(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("specchat.app.cli.oneshot.run.run_once", asked.append)
    texts = {"device": "cuda:1", "draft_device": "mps"}
    given: dict[str, Any] = {}
    for key in (*LOADING, *DRAFTING):
        said = OPTIONS[key]
        given[key] = 3 if said.kind == "int" else said.choices[-1] if said.choices else texts.get(key, "v1")
    assert call(*(f"{FLAGS[key]}={value}" for key, value in given.items()), "run", "hi")[0] == 0
    assert call("run", "hi", *(f"{FLAGS[key]}={value}" for key, value in given.items()))[0] == 0
    for request in asked:
        options = request.settings.load_options()
        told = parse(dump(Load(1, request.settings.model, **options)))
        assert {key: getattr(told, key) for key in given} == given


def test_every_option_of_an_answer_is_one_of_the_chat_too(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("specchat.app.cli.oneshot.run.run_once", lambda request: asked.append(request.settings))
    monkeypatch.setattr("specchat.app.cli.start.open_chat", lambda settings, *_, **__: asked.append(settings))
    given = (
        "--max-tokens 70 --temperature 0.7 --seed 3 --stop END --accept typical:0.1,0.2 --json-object --no-stop-loops".split()
    )
    for command in ([], ["run", "hi"]):
        call(*command, *given)
    chat, run = asked
    assert chat == run
    assert (chat.max_tokens, chat.sampling.temperature, chat.stop, chat.json_object) == (70, 0.7, ("END",), True)


def test_locate(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("locate", "settings")
    assert (code, out) == (0, f"{tmp_path / 'settings.toml'}\n")
    code, out, _ = call("locate")
    assert code == 0
    assert str(tmp_path / "engine.log") in out
    code, _, err = call("locate", "setings")
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
def test_usage_errors(call: Call, args: list[str], said: str) -> None:
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert said.lower() in err.lower()


def test_the_chat_refuses_without_a_terminal(call: Call) -> None:
    code, out, err = call()
    assert (code, out) == (2, "")
    assert err == "specchat: The chat needs a terminal for its input and output. Use `specchat run PROMPT` here.\n"


# The tables in docs/methods.md and docs/settings.md are those of the code


def test_the_tables_are_written() -> None:
    for page, text in pages():
        assert page.read_text(encoding="utf-8") == text, "write it again: python -m specchat.app.cli.listing"
