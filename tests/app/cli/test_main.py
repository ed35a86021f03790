"""The command line as a whole: help, listings, usage errors, what a start imports and how long it takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specchat import __version__
from specchat.app.chat.entries import Answer
from specchat.app.chat.methods import known_methods
from specchat.app.cli import doctor, exit_codes
from specchat.app.cli.oneshot import answer_body
from specchat.app.cli.options import FLAGS
from specchat.app.history.store import Store
from specchat.app.settings.fields import GROUPS, OPTIONS, Settings
from specchat.app.settings.rows import entries
from specchat.backends.info import Capabilities, ModelInfo
from specchat.engine.messages import Load
from specchat.engine.options import DRAFTING, LOADING
from specchat.engine.wire import dump, parse
from specchat.option import declared_options

from .conftest import Call

HEAVY = ("torch", "transformers", "numpy", "textual", "huggingface_hub", "llama_cpp", "tokenizers")
ROOMS = ("chat", "export", "history", "models", "race", "render", "saved", "tui")

IMPORTS = """
import sys
from specchat.app.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("line", "completed", "dear"),
    [
        ("methods --json", "", HEAVY),
        ("--help", "", (*HEAVY, "specchat.decoders", *(f"specchat.app.{room}." for room in ROOMS))),
        ("", "specchat --resume ", HEAVY),
    ],
)
def test_what_is_not_shown_is_not_imported(
    line: str, completed: str, dear: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    with Store() as store, store.transaction() as db:
        db.execute("INSERT INTO chats (model, about, answers, title, created, changed) VALUES ('m', '{}', 1, 'one', 1, 1)")
    completion = {"_SPECCHAT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": completed} if completed else {}
    command = [sys.executable, "-c", IMPORTS, *line.split()]
    done = subprocess.run(command, env=os.environ | completion, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("_arguments") == bool(completed)
    assert not [name for name in done.stderr.split() if name.startswith(dear)]


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.setenv("SPECCHAT_LOG", str(tmp_path / "engine.log"))


def test_the_version_and_the_methods(call: Call) -> None:
    assert call("--version") == (0, f"specchat {__version__}\n", "")
    code, out, _ = call("methods", "--json")
    methods = {method["name"]: method for method in json.loads(out)}
    assert code == 0
    assert {"greedy", "recompute", "lookup"} <= set(methods)
    assert methods["lookup"]["params"]
    code, out, _ = call("methods")
    assert code == 0
    for method in methods.values():
        assert f"{method['name']}  ({method['label']})" in out
    assert max(map(len, out.splitlines())) <= 100


def test_every_option_of_a_load_goes_from_the_shell_to_the_engine(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Any] = []
    monkeypatch.setattr("specchat.app.cli.oneshot.run_once", requests.append)
    texts = {"device": "cuda:1", "draft_device": "mps"}
    values: dict[str, Any] = {}
    for key in (*LOADING, *DRAFTING):
        option = OPTIONS[key]
        values[key] = 3 if option.type == "int" else [texts.get(key, "v1"), *option.choices][-1]
    assert call(*(f"{FLAGS[key]}={value}" for key, value in values.items()), "run", "hi")[0] == 0
    assert call("run", "hi", *(f"{FLAGS[key]}={value}" for key, value in values.items()))[0] == 0
    for request in requests:
        selection = parse(dump(Load(1, request.settings.selection()))).selection
        assert {key: getattr(selection, key) for key in values} == values


def test_every_option_of_an_answer_is_one_of_the_chat_too(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    both: list[Any] = []
    monkeypatch.setattr("specchat.app.cli.oneshot.run_once", lambda request: both.append(request.settings))
    monkeypatch.setattr("specchat.app.cli.start.open_chat", lambda settings, *_, **__: both.append(settings))
    options = (
        "--max-tokens 70 --temperature 0.7 --seed 3 --stop END --accept typical:0.1,0.2 --json-object --no-stop-loops".split()
    )
    for command in ([], ["run", "hi"]):
        call(*command, *options)
    chat, run = both
    assert chat == run
    assert (chat.max_tokens, chat.sampling.temperature, chat.stop, chat.json_object) == (70, 0.7, ("END",), True)


def test_locate(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("locate", "settings")
    assert (code, out) == (0, f"{tmp_path / 'settings.toml'}\n")
    code, out, _ = call("locate")
    assert code == 0
    assert str(tmp_path / "engine.log") in out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def row(out: str, key: str) -> list[str]:
    """The columns of a setting."""
    line = next(line for line in out.splitlines() if line.split("  ")[0] == key)
    return [part.strip() for part in line.split("  ") if part.strip()]


def test_each_value_with_its_source(call: Call, file: Path) -> None:
    file.write_text(
        'theme = "light"\n# cool\n[sampling]\ntemperature = 0.7\n[models.builtin]\nmethod = "greedy"\n'
        "[presets.calm]\nsampling.top_k = 5\n"
    )
    code, out, err = call("--device", "cpu", "settings", "--preset", "calm")
    assert (code, err) == (0, "")
    assert row(out, "theme") == ["theme", "light", f"{file}"]
    assert row(out, "sampling.temperature") == ["sampling.temperature", "0.7", f"{file}"]
    assert row(out, "method") == ["method", "greedy", f"default of builtin, {file}"]
    assert row(out, "device") == ["device", "cpu", "command line"]
    assert row(out, "sampling.top_k") == ["sampling.top_k", "5", "preset calm"]
    assert row(out, "max_tokens") == ["max_tokens", "until the context is full", "default"]
    assert row(call("settings", "--model", "other")[1], "method")[2] == "default"
    short = call("settings", "--changed")[1]
    assert "max_tokens" not in short
    assert len(short.splitlines()) == 5


def test_the_same_as_json(call: Call, file: Path) -> None:
    file.write_text('stop = ["END"]\nzzz = 3\n')
    code, out, err = call("settings", "--json")
    body = json.loads(out)
    assert code == 0
    assert body["file"] == str(file)
    assert len(body["problems"]) == 1
    assert "There is no setting zzz" in body["problems"][0]
    assert "There is no setting zzz" in err
    rows = {row["key"]: row for row in body["settings"]}
    assert set(OPTIONS) <= set(rows)
    assert rows["stop"] == {"key": "stop", "value": ["END"], "default": [], "source": "file", "where": f"{file}"}


def test_get_set_and_unset(call: Call, file: Path) -> None:
    file.write_text("# mine\nzzz = 3\n")
    assert call("settings", "set", "sampling.temperature", "0.5")[0] == 0
    assert call("settings", "get", "sampling.temperature")[1] == "0.5\n"
    assert call("settings", "set", "stop", "a b", "-c")[0] == 0
    assert call("settings", "get", "stop")[1] == "a b\n-c\n"
    assert call("settings", "set", "history", "off")[1] == f"history = false in {file}.\n"
    assert call("settings", "set", 'models."a/b-0.6B".sampling.top_k', "3")[0] == 0
    assert call("settings", "--model", "a/b-0.6B", "get", "sampling.top_k")[1] == "3\n"
    assert call("settings", "get", "sampling.top_k")[1] == "0\n"
    assert call("settings", "get", "max_tokens")[1] == "\n"
    assert call("settings", "unset", "zzz", "stop", "models")[0] == 0
    assert file.read_text() == "# mine\nhistory = false\n\n[sampling]\ntemperature = 0.5\n"


def test_every_setting_is_in_a_group_and_says_what_it_is_about() -> None:
    assert {option.group for option in declared_options(Settings).values()} <= set(GROUPS)
    assert all(option.help for option in entries(known_methods()).values())


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Fake the answers of the processes that import torch and llama.cpp."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    answer = SimpleNamespace(returncode=0, stderr="", stdout='{"cuda": [], "built_for_cuda": "", "mps": false, "threads": 2}\n')
    device = {"name": "CPU", "description": "A processor", "gpu": False, "free": 1e9, "total": 2e9, "handle": 1}
    build = json.dumps({"backends": ["CPU"], "devices": [device], "library": "/lib"})
    answer.llama = SimpleNamespace(returncode=0, stderr="", stdout=build + "\n")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda args, **options: answer.llama if "llama" in args[-1] else answer)
    version = metadata.version
    answer.missing = ""

    def find_version(name: str) -> str:
        if name == answer.missing:
            raise metadata.PackageNotFoundError(name)
        return "0.3.36" if name == "llama-cpp-python" else version(name)

    monkeypatch.setattr(metadata, "version", find_version)
    return answer


def test_a_healthy_machine_and_one_with_problems_and_their_fixes(probe: SimpleNamespace, tmp_path: Path) -> None:
    report = doctor.examine()
    assert report.problems == []
    text = "\n".join(doctor.page(report))
    assert "Everything is in order." in text
    assert "cpu only" in text
    probe.returncode = 1
    probe.stderr = "Traceback …\nImportError: libcudart.so.13 is missing\n"
    (tmp_path / "settings.toml").write_text("modell = 'x'")
    probe.missing = "textual"
    report = doctor.examine()
    whats = " ".join(problem.what for problem in report.problems)
    for what in ("libcudart.so.13 is missing", "did you mean model?", "The package textual is missing."):
        assert what in whats
    assert all(problem.fix for problem in report.problems)
    assert "-m pip install textual" in "\n".join(doctor.page(report))


def test_a_cpu_build_beside_a_driver_is_a_note(probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/nvidia-smi")
    torch, llama = doctor.examine().problems
    assert (torch.serious, llama.serious) == (False, False)
    assert "torch was built for the CPU only" in torch.what
    assert "a GPU for CUDA, but this llama.cpp was built without it" in llama.what
    assert llama.fix.startswith('CMAKE_ARGS="-DGGML_CUDA=on" ')
    probe.llama.stdout = probe.llama.stdout.replace('["CPU"]', '["CPU", "CUDA"]')
    assert len(doctor.examine().problems) == 1


def test_a_page_about_a_model() -> None:
    why = "A branching tree did not give this model the same logits as its paths."
    able = Capabilities(tree=False, layers=True, states=True, most=3, reasons={"tree": why})
    info = ModelInfo(
        "neo", "transformers", "cpu", "float32", "GPTNeoForCausalLM", 125_000_000, context=2048, capabilities=able,
        pass_seconds=((1, 0.01), (2, 0.018), (4, 0.025)), timed=1.7e9,
    )  # fmt: skip
    page = "\n".join(
        doctor.model_page(info, {"label": "identical", "equal": [2], "measured": 480, "turned": 3, "broken": True})
    )
    assert "runtime            transformers, cpu, float32" in page
    assert f"token trees        no: {why}" in page
    assert "label              identical, in chains of at most 3 nodes" in page
    assert "equal bits         chains of 2 nodes" in page
    assert "choices turned     3 of 480 tokens" in page
    assert "cost of a pass     in plain passes: 2 nodes 1.8, 4 nodes 2.5 (measured 2023-11-1" in page
    assert "Load it with --exact off." in page


def test_the_real_thing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "specchat", "doctor", "--json"], capture_output=True, text=True, timeout=90, check=False
    )
    data = json.loads(done.stdout)
    assert done.returncode == (1 if any(problem["serious"] for problem in data["problems"]) else 0)
    assert {"cuda", "mps", "threads"} <= set(data["devices"])
    if data["versions"]["llama-cpp-python"]:
        assert "CPU" in data["llama_cpp"]["backends"]
        assert data["llama_cpp"]["devices"][0]["total"] > 0


PAGE = (Path(__file__).parents[3] / "docs" / "shell.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_field_of_the_json_object_is_documented() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section("JSON"), re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert documented == [
        *answer_body(Answer("greedy", ""), "m", ModelInfo()),
        "messages",
        "prompt",
        "chat",
        "valid",
        "constraint",
        "thought",
        "answer",
        "certainty",
        "doubt",
    ]


def test_every_exit_code_is_documented() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)]
    assert codes == sorted(code for name, code in vars(exit_codes).items() if name.isupper())


MISTAKES = {
    "run": "PROMPT",
    "run x --top-k many": "--top-k",
    "run ' '": "The prompt is empty",
    "run x --method lokup": "did you mean lookup?",
    "run x --set foo": "--set takes NAME=VALUE, not 'foo'",
    "run x --temperature -1": "--temperature must be at least 0",
    "run x --model ''": "--model takes a model, a folder",
    "run x --raw --system y": "--raw sends the prompt as it is. Leave out --system",
    f"run x --stop {'y' * 100_000}": "--stop: Stop strings have 1 to 1,024 characters",
    "run x --model recorded:/no/such": "There is no file /no/such",
    "run x --model nobody/nothing": "nobody/nothing is not in the cache",
    "run 'Sum up @none.txt'": "There is no file none.txt. Check the name, or write @@ for a plain @.",
    "run x -f none.txt": "There is no file none.txt. Check the path.",
    "run x -f binary": "binary is binary, not text. Attach a text file.",
    "run hello --continue --resume x": "--continue, --resume and --keep each choose the chat",
    "run hello --resume nowhere": "No chat is called 'nowhere'",
    "run hello --resume ''": "--resume takes a chat's number or title",
    "chats show 1": "No chat is called '1'",
    "locate setings": "did you mean settings?",
    "doctor --device cpu": "--device is for a model",
    "doctor http://localhost:1": "doctor cannot look into a server",
    "models --drafts-for nobody": "There is no model nobody",
    "run x --model http://127.0.0.1:9": "Nothing answers",
    "run x --model http://a:b@c": "password",
    "settings get themes": "There is no setting themes: did you mean theme?",
    "settings get keymap.next_methd": "did you mean next_method?",
    "settings set theme dark light": "theme takes one value",
    "settings set models.x.theme dark": "There is no setting models.x.theme",
    "settings unset theme": "The settings file does not set theme",
    "settings --json get theme": "--changed and --json list settings",
    "bench prompts.jsonl --methods lookup:nods=3": "did you mean nodes?",
    "bench prompts.jsonl --against vllm": "--against takes transformers, llama-cpp",
    "bench prompts.jsonl --clock sun": "Invalid value for '--clock'",
    "bench prompts.jsonl --category nope": "no category 'nope'",
    "bench --model http://localhost:9 --methods lookup": "Leave out --methods",
    "bench --model http://localhost:9 --against transformers": "A server is compared with servers",
    "tune --model http://localhost:9": "compare two servers with `bench --against`",
    "replay nowhere.jsonl": "There is no file nowhere.jsonl",
    "replay answers.jsonl --methods jacobi": "The method jacobi cannot be replayed: it needs the model's other choices",
    "replay answers.jsonl --on-model builtin --model builtin": "leave out --model",
    "replay answers.jsonl --on-model builtin --methods lookahead": "needs the model's other choices",
}
"""Command lines, and a part of the sentence that each gets."""


@pytest.mark.parametrize("line", MISTAKES, ids=lambda line: line[:60])
def test_a_mistake_is_one_sentence(call: Call, empty_folder: Path, tmp_path: Path, line: str) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("threads = 2\n")
    (empty_folder / "binary").write_bytes(b"\x7fELF\0\0")
    (empty_folder / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    (empty_folder / "answers.jsonl").write_text('{"prompt": "hello", "response": "one two"}\n')
    code, out, err = call(*shlex.split(line))
    assert (code, out) == (2, "")
    assert MISTAKES[line] in err
    if not err.startswith("Usage: specchat "):  # as Typer words it
        assert (err.startswith("specchat: "), err.count("\n")) == (True, 1)
    assert settings.read_text() == "threads = 2\n"
