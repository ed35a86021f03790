"""`specchat run` with a recorded model: output, figures, colours, pipes, signals, the history."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from specchat.app.chat.entries import Answer, Prompt
from specchat.app.cli.oneshot import AnswerOutput
from specchat.app.history.chats import Chats, reading
from specchat.app.saved.chat_json import read_chat
from specchat.app.terminal.ansi import colour_depth, run_colour
from specchat.app.terminal.output import Notes
from specchat.app.theming.colouring import ink_name
from specchat.engine.messages import StepRecord

from ...cases import FULL
from ...fakes.engines import COUNTING
from ...fakes.model_servers import FakeServer, llama_server, of_words, serving, text_only, vllm
from ...fakes.records import recorded_model
from ...fakes.terminal import Terminal, Tty
from ...fakes.thoughts import thinking_steps
from .conftest import Call

ANSWER = "one two three one two three one two three \x1b[31mred \x1b]0;title\x07[bold] 👩‍👩‍👧 end"
SAFE = ANSWER.replace("\x1b", "␛").replace("\x07", "␇")
SEQUENCE = re.compile(r"\x1b\[[0-9;]*[mK]")


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that repeats a prompt that it does not know, as far as it knows the words."""
    words = "Attached file text standard input Sum up notes txt hidden alpha beta B kB ` four five four five four five"
    return recorded_model(tmp_path, {"hello": ANSWER, "count": COUNTING, "words": words})


@pytest.fixture
def call(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `specchat run` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: call("run", *args)


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "specchat", "run", *args]


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
        nothing = [data[key] for key in ("acceptance_rate", "alpha", "draft_token_seconds")]
        assert (data["draft_tokens"], *nothing) == (0, None, None, None)
    else:
        assert max(data["runs"]) > 1
        assert data["acceptance_rate"] == pytest.approx(data["accepted_tokens"] / data["draft_tokens"])
        assert data["nodes"] > data["tokens"]
    assert data["speedup"] is None or not data["busy"]
    assert data["by_method"][method]["speedup"] == data["speedup"], "what is not told of the whole is not told of its part"


def test_json_lines_are_the_steps_and_then_the_whole(call: Call, model: str) -> None:
    code, out, err = call("Sum up", "--jsonl", "--method", "lookup", "--model", model)
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


def test_limits_stops_and_settings_of_the_method_count(call: Call, model: str, tmp_path: Path) -> None:
    def ask(*options: str) -> Any:
        return json.loads(call("hello", "--json", "--model", model, *options)[1])

    data = ask("--max-tokens", "3")
    assert (data["tokens"], data["finish_reason"]) == (3, "length")
    data = ask("--stop", "three one", "--stop", "zzz")
    assert (data["finish_reason"], data["text"].rstrip()) == ("stop", "one two")
    # A tree of the pending token alone drafts nothing.
    assert set(ask("--method", "lookup", "--set", "nodes=1")["runs"]) == {1}
    (tmp_path / "settings.toml").write_text("[methods.lookup]\nnodes = 1\n")
    assert set(ask()["runs"]) == {1}
    assert max(ask("--set", "nodes=16")["runs"]) > 1, "what is typed comes before what is written"
    # The same answers drafted by themselves: all are accepted.
    data = ask("--draft-model", model, "--method", "draft")
    assert data["text"] == ANSWER
    assert data["draft_tokens"] == data["accepted_tokens"] > 10


def test_files_of_the_option_and_of_the_prompt(call: Call, model: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha\n")
    (tmp_path / "b.txt").write_text("beta")
    code, text, err = call("Sum up @notes.txt", "-f", "b.txt", "--max-tokens", "90", "--model", model)
    assert code == 0, err
    first, second = text.index("Attached file: b.txt (4 B)"), text.index("Attached file: notes.txt (6 B)")
    assert first < text.index("beta") < second < text.index("alpha") < text.index("Sum up @notes.txt")


def piping(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a pipe with some text in it in the place of standard input."""
    reading_end, writing_end = os.pipe()
    os.write(writing_end, data.encode())
    os.close(writing_end)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading_end))


def test_piped_text_is_the_prompt_or_goes_with_it(call: Call, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    piping("hello\n", monkeypatch)
    assert call("-", "--model", model) == (0, f"{ANSWER}\n", "")
    piping("alpha beta\n", monkeypatch)
    _, text, _ = call("Sum up", "--max-tokens", "60", "--model", model)
    assert text.startswith("You said: Attached text: standard input (11 B)\n```\nalpha beta\n```\n\nSum up")


def step(text: str, tokens: int = 3, **more: Any) -> StepRecord:
    return StepRecord("lookup", [1] * tokens, text, drafted=4, accepted=max(0, tokens - 1), **more)


def test_only_what_a_pass_gave_together_is_coloured_as_in_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        step("one", 1), step(" two", 1), step(" three"), step("", 2), step(" four", 2), step("f five", 1, carried=1),
        step(" six seven", 2, earlier=2),  # beam search: they took a pass each
        step(" eight nine", 4), step("e ten", 1, carried=1),
    ]  # fmt: skip
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream, answer = io.StringIO(), Answer("lookup", "identical")
    output = AnswerOutput(stream)
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


@pytest.mark.parametrize("watched", [True, False])
def test_thoughts_go_to_who_watches_and_never_into_the_answer(watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), Tty() if watched else io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm-256color")
    notes, output = Notes(), AnswerOutput(out)
    answer = Answer("lookup", "identical")
    for step in thinking_steps("\nA lantern,\x1b[31m perhaps.\n", "\n\nBy lamp.", seed=3):
        output.write([answer.add(step)], notes if notes.terminal else None)
    answer.finish("eos")
    output.end_line()
    assert out.getvalue() == "By lamp.\n"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", err.getvalue())
    assert plain == ("A lantern,␛[31m perhaps.\n\n" if watched else "")
    assert ("\x1b[2m" in err.getvalue()) == watched


@pytest.mark.parametrize(
    ("variables", "depth"),
    [
        ({"COLORTERM": "truecolor"}, 16_777_216),
        ({}, 256),
        ({"TERM": "linux"}, 16),
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, 0),
        ({"TERM": "dumb"}, 0),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, 256),
    ],
)
def test_colours_by_terminal(variables: dict[str, str], depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm-256color", **variables}.items():
        monkeypatch.setenv(name, value)
    assert colour_depth(True) == depth
    assert colour_depth(False) == (depth if "FORCE_COLOR" in variables else 0)
    start = {0: "", 16: r"\x1b\[\d\dm", 256: r"\x1b\[38;5;\d+m", 16_777_216: r"\x1b\[38;2;\d+;\d+;\d+m"}[depth]
    assert re.fullmatch(start, run_colour("heat-3", colour_depth(True)))


def plain(text: str) -> str:
    """Strip colours, and lines that were cleared again."""
    return SEQUENCE.sub("", "\n".join(line.rsplit("\r\x1b[K", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")))


def run_in_terminal(*args: str, **variables: str) -> tuple[int, str]:
    """A command that has a pseudo-terminal to itself: its exit code, and what it wrote."""
    with Terminal([sys.executable, "-m", "specchat", *args], env=variables) as terminal:
        return terminal.exit_code(), terminal.raw.decode(errors="replace")


def test_a_terminal_gets_colours_figures_and_a_legend(model: str) -> None:
    code, text = run_in_terminal("run", "hello", "--model", model)
    assert code == 0
    assert re.search(r"\x1b\[38;2;\d+;\d+;\d+m[ a-z]+\x1b\[0m", text)
    answer, figures, *legend = plain(text).splitlines()
    assert answer == SAFE
    assert re.fullmatch(r"(.+ · )?\d\.\d tokens a pass · [\d,.]+ tokens/s · lookup", figures)
    assert "\x1b[2m" in text.splitlines()[-2]
    assert legend == [" 1  2  3  4–5  6–7  8+  tokens a pass"]
    assert re.search(r"\x1b\[[\d;]+m 8\+ \x1b\[0m", text.splitlines()[-1])


def test_a_dumb_terminal_gets_no_sequences_and_no_chat(model: str) -> None:
    code, text = run_in_terminal("run", "hello", "--model", model, TERM="dumb")
    assert code == 0
    assert text.replace("\r\n", "\n").startswith(f"{SAFE}\n")
    assert "\x1b" not in text
    assert "4–5" not in text  # the legend
    code, text = run_in_terminal(TERM="dumb")
    assert code == 2
    assert "Use `specchat run PROMPT`" in plain(text)


def counting(model: str, *args: str) -> subprocess.Popen[bytes]:
    """A program whose answer takes minutes."""
    pipe = subprocess.PIPE
    words = command("count", *args, "--jsonl", "--model", f"{model}?pace=0.2")
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)


def test_a_signal_ends_it_and_what_there_is_is_printed_and_kept(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    with counting(model, "--keep") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["token_ids"], "lines come as they are made"
        engine = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.read().splitlines()
        assert process.stderr.read() == b""
    assert process.returncode == 143
    whole = json.loads(lines[-1])
    assert whole["finish_reason"] == "cancelled"
    assert engine
    ended, alive = psutil.wait_procs(engine, timeout=120)
    assert (len(ended), alive) == (len(engine), [])
    with reading() as chats:
        answer = chats.open(chats.find().id).transcript.answers()[0]
    assert (answer.reason, answer.text) == ("cancelled", whole["text"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(model: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("hello", "--model", model), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "specchat: Cannot write the answer (No space left on device).\n"


def engine_of(pid: int) -> int:
    """The engine that a run has started."""
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
        os.kill(engine_of(process.pid), signal.SIGKILL)
        rest, err = process.stdout.read(), process.stderr.read()
    assert process.returncode == 1
    assert start
    assert COUNTING.startswith((start.decode() + rest).rstrip("\n"))
    assert re.fullmatch(r"specchat: The engine was killed .*\n", err)
    assert "send the message again" not in err


def test_a_second_ctrl_c_ends_even_a_stuck_engine(model: str) -> None:
    # Each pass takes ten minutes: nothing but a kill ends it.
    with subprocess.Popen(
        command("hello", "--model", f"{model}?pace=600"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        engine = engine_of(process.pid)
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


def test_the_built_in_model_answers(call: Call) -> None:
    code, out, err = call("Hello", "--max-tokens", "12", "--json", "--threads", "1")
    assert (code, err) == (0, "")
    data = json.loads(out)
    # On llama.cpp where that is installed and the model is there as a GGUF file.
    assert (data["model"], data["backend"]) in (("builtin", "transformers"), ("builtin", "llama.cpp"))
    assert 1 <= data["tokens"] <= 12
    assert sum(data["runs"]) == data["tokens"]
    assert data["decode_seconds"] > 0


def messages(chats: Chats, number: int) -> list[str]:
    return [entry.text for entry in chats.open(number).transcript.entries if isinstance(entry, Prompt | Answer)]


def test_an_exchange_is_kept_and_goes_on(call: Call, model: str, tmp_path: Path) -> None:
    assert call("hello", "--model", model)[0] == 0
    assert not (tmp_path / "data").exists(), "a plain answer is not kept"
    first = json.loads(call("hello", "--keep", "--json", "--model", model)[1])
    with reading() as chats:
        (row,) = chats.newest()
        assert (row.id, row.title, row.answers) == (first["chat"], "hello", 1)
        opened = chats.open(row.id)
    answer = opened.transcript.answers()[0]
    # All that a chat keeps: runs, steps, figures, token texts, what it was asked with.
    assert answer.text == first["text"]
    assert [run.tokens for run in answer.runs if run.tokens] == first["runs"]
    assert [token for i in range(len(answer.log)) for token in answer.log.record(i).tokens] == first["token_ids"]
    assert (answer.reason, answer.figures.prompt_tokens) == ("eos", first["prompt_tokens"])
    assert answer.pieces.raw(first["token_ids"][0])
    assert opened.model["asked"] == model

    second = json.loads(call("alpha beta", "--continue", "--json", "--model", model)[1])
    assert second["chat"] == first["chat"]
    # The model was told of the exchange before.
    assert second["prompt_tokens"] > first["prompt_tokens"] + first["tokens"]
    third = json.loads(call("hello", "--resume", "hel", "--json", "--model", model)[1])
    assert third["prompt_tokens"] > second["prompt_tokens"] + second["tokens"]
    with reading() as chats:
        assert len(chats.newest()) == 1
        kept = ["hello", first["text"], "alpha beta", second["text"], "hello", third["text"]]
        assert messages(chats, first["chat"]) == kept
    (tmp_path / "settings.toml").write_text("history = false\n")
    assert json.loads(call("alpha beta", "--resume", str(first["chat"]), "--json", "--model", model)[1])["chat"] is None
    with reading() as chats:
        assert messages(chats, first["chat"]) == kept


def test_a_chat_goes_on_with_its_own_model_system_prompt_and_settings(call: Call, model: str, tmp_path: Path) -> None:
    call("hello", "--keep", "--system", "Be brief.", "--model", model, "--method", "greedy", "--max-tokens", "4")
    answer = json.loads(call("alpha beta", "--continue", "--json")[1])
    assert (answer["model"], answer["method"], answer["tokens"]) == (model, "greedy", 4)
    assert answer["messages"][0] == {"role": "system", "content": "Be brief."}
    options = ("--method", "lookup", "--max-tokens", "2", "--system", "Be long.")
    overridden = json.loads(call("alpha beta", "--continue", "--json", *options)[1])
    assert (overridden["model"], overridden["method"], overridden["tokens"]) == (model, "lookup", 2)
    assert overridden["messages"][0] == {"role": "system", "content": "Be long."}
    (tmp_path / "answers.jsonl").unlink()
    code, out, err = call("alpha beta", "--continue")
    assert (code, out) == (2, "")
    assert err.endswith("specchat: The chat was with that model. Choose another one with --model.\n")


def test_a_history_that_cannot_be_written_costs_no_answer(call: Call, model: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    code, out, err = call("hello", "--keep", "--model", model)
    assert (code, out) == (0, f"{ANSWER}\n")
    assert err.startswith("specchat: ")
    assert re.search(r"The (end of the )?chat (is not being|was not) saved", err)


KEY = "sk-marked-8c1f"
WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Environment with empty folders and a key in it."""
    folders = {name: str(tmp_path / name.lower()) for name in ("SPECCHAT_CONFIG", "SPECCHAT_DATA", "SPECCHAT_CACHE", "HOME")}
    for folder in folders.values():
        Path(folder).mkdir()
    return {**os.environ, **folders, "FAKE_KEY": KEY}


def run_program(home: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "specchat", *words)
    return subprocess.run(words, check=False, env=home, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def configured(home: dict[str, str], fake: FakeServer) -> None:
    file = Path(home["SPECCHAT_CONFIG"]) / "settings.toml"
    file.write_text(f'[servers.fake]\nurl = "{fake.url}/v1"\nkey_env = "FAKE_KEY"\n')


def test_an_answer_of_a_server_and_its_figures(call: Call, tmp_path: Path) -> None:
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        code, out, err = call("--json", "--keep", "--model", f"{fake.url}/v1", "hi")
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
    # It opens again as it was.
    exported = [sys.executable, "-m", "specchat", "chats", "export", "1", str(tmp_path / "chat.json")]
    subprocess.run(exported, check=True, capture_output=True)
    answer = read_chat(tmp_path / "chat.json").transcript.entries[1]
    assert isinstance(answer, Answer)
    assert (answer.text, answer.figures.certainty) == (WRITTEN.text, "exact")
    assert [run.tokens for run in answer.runs] == WRITTEN.lengths
    assert set(answer.log.tokens) == {-1}
    with serving("vLLM", vllm(WRITTEN, merged=[2])) as fake:
        body = json.loads(call("--json", "--model", fake.url, "hi")[1])
    assert (body["certainty"], body["token_ids"]) == ("unknown", list(range(100, 114)))
    assert "It merged passes into one chunk." in body["doubt"]


def test_where_nothing_is_known_nothing_is_claimed(call: Call) -> None:
    with serving(stream=text_only(of_words("The"))) as fake:
        body = json.loads(call("--json", "--model", f"{fake.url}#small", "hi")[1])
    assert (body["certainty"], body["runs"], body["steps"], body["tokens_per_step"]) == ("unknown", [], 0, 0.0)


def test_a_key_is_sent_and_appears_nowhere(home: dict[str, str], tmp_path: Path) -> None:
    error = {"error": {"message": f"no such key {KEY}"}}
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        configured(home, fake)
        listed = list[str]()

        def list_processes() -> None:
            listed.append(subprocess.run(["ps", "axww", "-o", "args"], check=True, capture_output=True, text=True).stdout)

        fake.stream = [*llama_server(WRITTEN)[:4], list_processes, *llama_server(WRITTEN)[4:]]
        outputs = [run_program(home, "run", "--keep", "--model", "fake", "hi") for _ in range(14 if FULL else 1)]
        fake.stream = (401, error, {})
        outputs.append(run_program(home, "run", "--model", "fake", "hi"))
    assert outputs[-1].returncode == 2
    assert {done.returncode for done in outputs[:-1]} == {0}
    assert all("specchat.engine" in listing and KEY not in listing for listing in listed)
    outputs += [run_program(home, "settings"), run_program(home, "chats", "show", "1", "--json")]
    assert {headers.get("Authorization") for _, headers, _ in fake.asked} == {f"Bearer {KEY}"}
    for done in outputs:
        assert KEY not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix in (".db", ".sqlite", ".sqlite3") for path in files), files
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
