"""`specchat run` with a recorded model: output, figures, colours, mistakes. The engine is real, torch is not needed."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from specchat.app.chat.entries import Answer
from specchat.app.cli.oneshot.run import AnswerOutput
from specchat.app.saved.chat_json import read_chat
from specchat.app.terminal.ansi import run_colour
from specchat.app.terminal.output import Notes
from specchat.app.theming.colouring import ink_name
from specchat.engine.messages import StepRecord

from ....cases import FULL
from ....fakes.engines import COUNTING
from ....fakes.model_servers import FakeServer, llama_server, of_words, serving, text_only, vllm
from ....fakes.records import recorded_model
from ....fakes.terminal import Tty
from ....fakes.thoughts import thinking_steps
from ..conftest import Call

ANSWER = "one two three one two three one two three \x1b[31mred [bold] 👩‍👩‍👧 end"
SAFE = ANSWER.replace("\x1b", "␛")


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return recorded_model(tmp_path, {"hello": ANSWER, "count": COUNTING})


@pytest.fixture
def call(call: Call) -> Call:
    """Runs `specchat run`."""
    return lambda *args: call("run", *args)


def test_loops_are_stopped_for_people_and_for_programs_that_ask(call: Call, tmp_path: Path) -> None:
    command = ("hello", "--model", recorded_model(tmp_path, {"hello": "It goes: " + "round and round " * 200}))
    _, whole, _ = call(*command, "--no-stop-loops")
    code, out, err = call(*command)
    assert code == 0
    assert len(out) < len(whole)
    assert whole.startswith(out.rstrip("\n"))
    assert re.search(
        r"Stopped: the last \d tokens repeated \d+ times. --repetition-penalty 1.1 often helps; --no-stop-loops", err
    )
    data = json.loads(call(*command, "--json")[1])
    assert (data["finish_reason"], data["text"]) == ("eos", whole[:-1])
    data = json.loads(call(*command, "--json", "--stop-loops")[1])
    assert (data["finish_reason"], data["text"]) == ("loop", out[:-1])


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "specchat", "run", *args]


def test_an_answer_that_never_left_its_thought_is_missed(call: Call, tmp_path: Path) -> None:
    model = recorded_model(tmp_path, {"hello": "<think>\nA lantern, perhaps, or a lamp.\n</think>\n\nBy lamp."})
    assert call("hello", "--model", model) == (0, "By lamp.\n", "")
    code, out, err = call("hello", "--model", model, "--max-tokens", "4")
    assert (code, out.strip()) == (0, "")
    assert "There is no answer: it ended in the middle of its thought. Give it --think-budget, or" in err


@pytest.mark.parametrize("method", ["greedy", "lookup"])
def test_json_has_every_figure(call: Call, model: str, method: str) -> None:
    code, out, err = call("hello", "--model", model, "--method", method, "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["model"] == model
    assert (data["backend"], data["method"], data["finish_reason"]) == ("recorded", method, "eos")
    assert data["label"] == "identical"
    assert data["text"] == ANSWER
    assert data["prompt_tokens"] >= 1
    assert len(data["token_ids"]) == data["tokens"] == sum(data["runs"])
    assert len(data["runs"]) == data["steps"]
    assert data["tokens_per_step"] == pytest.approx(data["tokens"] / data["steps"])
    assert data["tokens_per_second"] == pytest.approx(data["tokens"] / data["decode_seconds"])
    if method == "greedy":
        assert set(data["runs"]) == {1}
        assert (data["draft_tokens"], data["acceptance_rate"], data["alpha"], data["draft_token_seconds"]) == (
            0,
            None,
            None,
            None,
        )
    else:
        assert max(data["runs"]) > 1
        assert data["acceptance_rate"] == pytest.approx(data["accepted_tokens"] / data["draft_tokens"])
        assert data["nodes"] > data["tokens"]
        # Beside other programs no plain step is compared.
        assert list(data["what_if"].get("speedups", {})) == (["1", "2", "3", "4", "6", "8"] if data["plain_seconds"] else [])
    assert sum(count for _, count, _ in data["pass_seconds"]) <= data["steps"]
    assert data["flops_per_token"] is None, "a recorded answer is not computed"
    assert data["speedup"] is None or not data["busy"]
    assert data["by_method"][method]["speedup"] == data["speedup"], "what is not told of the whole is not told of its part"


def test_limits_and_stops(call: Call, model: str) -> None:
    data = json.loads(call("hello", "--model", model, "--max-tokens", "3", "--json")[1])
    assert (data["tokens"], data["finish_reason"]) == (3, "length")
    data = json.loads(call("hello", "--model", model, "--stop", "three one", "--stop", "zzz", "--json")[1])
    assert data["finish_reason"] == "stop"
    assert data["text"].rstrip() == "one two"


def test_settings_of_the_method_count(call: Call, model: str, tmp_path: Path) -> None:
    greedy = ("--set", "nodes=1")  # a tree of the pending token alone drafts nothing
    data = json.loads(call("hello", "--model", model, "--method", "lookup", *greedy, "--json")[1])
    assert set(data["runs"]) == {1}
    (tmp_path / "settings.toml").write_text("[methods.lookup]\nnodes = 1\n")
    assert set(json.loads(call("hello", "--model", model, "--json")[1])["runs"]) == {1}
    typed = ("--set", "nodes=16")  # what is typed comes before what is written
    assert max(json.loads(call("hello", "--model", model, *typed, "--json")[1])["runs"]) > 1


def test_the_prompt_may_come_from_standard_input(model: str) -> None:
    done = subprocess.run(command("-", "--model", model), input="hello\n", capture_output=True, text=True, check=True)
    assert done.stdout == f"{ANSWER}\n"


def step(text: str, tokens: int = 3, **more: Any) -> StepRecord:
    return StepRecord("lookup", [1] * tokens, text, drafted=4, accepted=max(0, tokens - 1), **more)


def test_only_what_a_pass_gave_together_is_coloured_as_in_the_chat() -> None:
    steps = [
        step("one", 1), step(" two", 1), step(" three"), step("", 2), step(" four", 2), step("f five", 1, carried=1),
        step(" six seven", 2, earlier=2),  # beam search: they took a pass each
        step(" eight nine", 4), step("e ten", 1, carried=1),
    ]  # fmt: skip
    stream, answer = io.StringIO(), Answer("lookup", "identical")
    output = AnswerOutput(stream, "always")
    output.write([answer.add(record) for record in steps])
    expected = ""
    for run, record in zip(answer.runs, steps, strict=True):
        assert (run.shade >= 0) == (len(record.tokens) - record.earlier > 1)
    before = "plain"
    for run in answer.runs:
        colour_name = ink_name("length", run.shade, run.together)
        for text, ink in ((run.text[: run.carried], before), (run.text[run.carried :], colour_name)):
            colour = run_colour(ink, output.depth) if text else ""
            expected += f"{colour}{text}\x1b[0m" if colour else text
        before = colour_name
    assert stream.getvalue() == expected
    assert stream.getvalue().startswith("one two\x1b")


def test_a_draft_model_is_loaded_beside_the_target(call: Call, model: str, tmp_path: Path) -> None:
    code, out, err = call("hello", "--model", model, "--draft-model", model, "--method", "draft", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["text"] == ANSWER
    # The same answers drafted by themselves: all are accepted.
    assert data["draft_tokens"] == data["accepted_tokens"] > 10


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(model: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("hello", "--model", model), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "specchat: Cannot write the answer (No space left on device).\n"


def _child(pid: int) -> int:
    """The engine that a run has started."""
    import psutil

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children():
            if "specchat.engine" in child.cmdline():
                return int(child.pid)
        time.sleep(0.02)
    raise AssertionError("the engine did not start")


def test_an_engine_that_dies_is_one_sentence(model: str) -> None:
    with subprocess.Popen(
        command("count", "--model", f"{model}?pace=0.2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        start = os.read(process.stdout.fileno(), 3)
        os.kill(_child(process.pid), signal.SIGKILL)
        rest, err = process.stdout.read(), process.stderr.read()
    assert process.returncode == 1
    assert start
    assert COUNTING.startswith((start.decode() + rest).rstrip("\n"))
    assert re.fullmatch(r"specchat: The engine was killed .*\n", err)
    assert "send the message again" not in err


def test_a_second_ctrl_c_ends_even_a_stuck_engine(model: str) -> None:
    import psutil

    # Each pass takes ten minutes: nothing but a kill ends it.
    with subprocess.Popen(
        command("hello", "--model", f"{model}?pace=600"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        engine = _child(process.pid)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        # On a busy machine it may not wait for the engine yet, and die of the signal: 130 to a shell as well.
        assert process.wait(120) in (130, -signal.SIGINT)
    deadline = time.monotonic() + 120
    while psutil.pid_exists(engine) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(engine)


def test_the_built_in_model_answers(tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    words = ("Hello", "--max-tokens", "12", "--json", "--threads", "1")
    done = subprocess.run(command(*words), capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    # On llama.cpp where that is installed and the model is there as a GGUF file.
    assert (data["model"], data["backend"]) in (("builtin", "transformers"), ("builtin", "llama.cpp"))
    assert 1 <= data["tokens"] <= 12
    assert sum(data["runs"]) == data["tokens"]
    assert data["decode_seconds"] > 0


@pytest.mark.parametrize("watched", [True, False])
def test_thoughts_go_to_who_watches_and_never_into_the_answer(watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), Tty() if watched else io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm-256color")
    notes, output = Notes("auto"), AnswerOutput(out, "auto")
    answer = Answer("lookup", "identical")
    for step in thinking_steps("\nA lantern,\x1b[31m perhaps.\n", "\n\nBy lamp.", seed=3):
        output.write([answer.add(step)], notes if notes.terminal else None)
    answer.finish("eos")
    output.end_line()
    assert out.getvalue() == "By lamp.\n"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", err.getvalue())
    assert plain == ("A lantern,␛[31m perhaps.\n\n" if watched else "")
    assert ("\x1b[2m" in err.getvalue()) == watched


KEY = "sk-marked-8c1f"
WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Environment with empty folders and a key in it."""
    folders = {name: str(tmp_path / name.lower()) for name in ("SPECCHAT_CONFIG", "SPECCHAT_DATA", "SPECCHAT_CACHE", "HOME")}
    for folder in folders.values():
        Path(folder).mkdir()
    return {**os.environ, **folders, "FAKE_KEY": KEY}


def run_program(home: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specchat", *words],
        check=False,
        env=home,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def configured(home: dict[str, str], fake: FakeServer) -> None:
    file = Path(home["SPECCHAT_CONFIG"]) / "settings.toml"
    file.write_text(f'[servers.fake]\nurl = "{fake.url}/v1"\nkey_env = "FAKE_KEY"\n')


def test_an_answer_and_its_figures(call: Call) -> None:
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        code, out, err = call("--json", "--model", f"{fake.url}/v1", "hi")
    assert (code, err) == (0, "")
    body = json.loads(out)
    assert {name: body[name] for name in ("text", "runs", "certainty", "doubt", "method", "finish_reason", "token_ids")} == {
        "text": WRITTEN.text,
        "runs": WRITTEN.lengths,
        "certainty": "exact",
        "doubt": "",
        "method": "ngram-simple",
        "finish_reason": "eos",
        "token_ids": [],
    }
    assert (body["draft_tokens"], body["accepted_tokens"], body["prompt_tokens"]) == (24, WRITTEN.accepted, 13)
    with serving("vLLM", vllm(WRITTEN, merged=[2])) as fake:
        body = json.loads(call("--json", "--model", fake.url, "hi")[1])
    assert (body["certainty"], body["token_ids"]) == ("unknown", list(range(100, 114)))
    assert "It merged passes into one chunk." in body["doubt"]


def test_where_nothing_is_known_nothing_is_claimed(call: Call) -> None:
    with serving(stream=text_only(of_words("The"))) as fake:
        body = json.loads(call("--json", "--model", f"{fake.url}#small", "hi")[1])
        # What is odd about an answer is said where there is no verdict on it, too.
        fake.stream = text_only(of_words("The"), "odd")
        code, out, err = call("--model", f"{fake.url}#small", "hi")
    assert (body["certainty"], body["runs"], body["steps"], body["tokens_per_step"]) == ("unknown", [], 0, 0.0)
    assert (code, out.strip()) == (0, "The")
    assert "gives a reason for the end that specchat does not know: odd." in err


def crash_engine() -> None:
    """Abort the engine of the `run` that asks, as a fault in a library would."""
    for process in psutil.Process().children(recursive=True):
        if "specchat.engine" in process.cmdline():
            process.send_signal(signal.SIGABRT)
            process.wait(30)  # or it would see the stream end first


def test_a_key_is_sent_and_appears_nowhere(home: dict[str, str], tmp_path: Path) -> None:
    error = {"error": {"message": f"no such key {KEY}"}}
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        configured(home, fake)
        listed = list[str]()

        def list_processes() -> None:
            listed.append(subprocess.run(["ps", "axww", "-o", "args"], check=True, capture_output=True, text=True).stdout)

        fake.stream = [*llama_server(WRITTEN)[:4], list_processes, *llama_server(WRITTEN)[4:]]
        outputs = [run_program(home, "run", "--keep", "--model", "fake", "hi") for _ in range(14 if FULL else 1)]
        outputs.append(run_program(home, "run", "--json", "--model", fake.url, "hi"))
        fake.stream = (401, error, {})
        outputs.append(run_program(home, "run", "--model", "fake", "hi"))
        fake.stream = [*llama_server(WRITTEN)[:4], b'data: {"error":"' + KEY.encode() + b'"}\n\n']
        outputs.append(run_program(home, "run", "--model", "fake", "hi"))
        fake.stream = [*llama_server(WRITTEN)[:4], crash_engine]
        outputs.append(run_program(home, "run", "--keep", "--model", "fake", "hi"))
    assert [done.returncode for done in outputs[-3:]] == [2, 2, 1]
    assert {done.returncode for done in outputs[:-3]} == {0}
    assert all("specchat.engine" in listing and KEY not in listing for listing in listed)
    outputs += [run_program(home, "settings"), run_program(home, "chats", "export", "1", "--format", "json")]
    assert {headers.get("Authorization") for _, headers, _ in fake.asked} == {f"Bearer {KEY}"}
    for done in outputs:
        assert KEY not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix in (".db", ".sqlite", ".sqlite3") for path in files), files
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path


def test_a_kept_answer_is_opened_again_as_it_was(home: dict[str, str], tmp_path: Path) -> None:
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        run_program(home, "run", "--keep", "--model", fake.url, "hi")
    file = tmp_path / "chat.json"
    assert run_program(home, "chats", "export", "1", str(file)).returncode == 0
    answer = read_chat(file).transcript.entries[1]
    assert isinstance(answer, Answer)
    assert (answer.text, answer.figures.certainty) == (WRITTEN.text, "exact")
    assert [run.tokens for run in answer.runs] == WRITTEN.lengths
    assert set(answer.log.tokens) == {-1}
