"""`specchat run` with a server as the model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from specchat.app.chat.entries import Answer
from specchat.app.saved.chat_json import read_chat

from ....cases import FULL
from ....fakes.model_servers import FakeServer, llama_server, of_words, serving, text_only, vllm
from ..conftest import Call

KEY = "sk-marked-8c1f"
WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment of its own, with a key in it."""
    own = {name: str(tmp_path / name.lower()) for name in ("SPECCHAT_CONFIG", "SPECCHAT_DATA", "SPECCHAT_CACHE", "HOME")}
    for folder in own.values():
        Path(folder).mkdir()
    return {**os.environ, **own, "FAKE_KEY": KEY}


def run(home: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
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
        code, out, err = call("run", "--json", "--model", f"{fake.url}/v1", "hi")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert {name: told[name] for name in ("text", "runs", "certainty", "doubt", "method", "finish_reason", "token_ids")} == {
        "text": WRITTEN.text,
        "runs": WRITTEN.lengths,
        "certainty": "exact",
        "doubt": "",
        "method": "ngram-simple",
        "finish_reason": "eos",
        "token_ids": [],
    }
    assert (told["draft_tokens"], told["accepted_tokens"], told["prompt_tokens"]) == (24, WRITTEN.accepted, 13)
    with serving("vLLM", vllm(WRITTEN, merged=[2])) as fake:
        told = json.loads(call("run", "--json", "--model", fake.url, "hi")[1])
    assert (told["certainty"], told["token_ids"]) == ("unknown", list(range(100, 114)))
    assert "It merged passes into one chunk." in told["doubt"]


def test_where_nothing_is_known_nothing_is_claimed(call: Call) -> None:
    with serving(stream=text_only(of_words("The"))) as fake:
        told = json.loads(call("run", "--json", "--model", f"{fake.url}#small", "hi")[1])
        # What is odd about an answer is said where there is no verdict on it, too.
        fake.stream = text_only(of_words("The"), "odd")
        code, out, err = call("run", "--model", f"{fake.url}#small", "hi")
    assert (told["certainty"], told["runs"], told["steps"], told["tokens_per_step"]) == ("unknown", [], 0, 0.0)
    assert (code, out.strip()) == (0, "The")
    assert "gives a reason for the end that specchat does not know: odd." in err


def crash_engine() -> None:
    """End the engine of the `run` that asks, as a fault in a library would: a trace of every thread goes into its log."""
    for process in psutil.Process().children(recursive=True):
        if "specchat.engine" in process.cmdline():
            process.send_signal(signal.SIGABRT)
            process.wait(30)  # or it would see the stream end first


def test_a_key_is_sent_and_appears_nowhere(home: dict[str, str], tmp_path: Path) -> None:
    said = {"error": {"message": f"no such key {KEY}"}}
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        configured(home, fake)
        listed = list[str]()

        def list_processes() -> None:
            listed.append(subprocess.run(["ps", "axww", "-o", "args"], check=True, capture_output=True, text=True).stdout)

        fake.stream = [*llama_server(WRITTEN)[:4], list_processes, *llama_server(WRITTEN)[4:]]
        outputs = [run(home, "run", "--keep", "--model", "fake", "hi") for _ in range(14 if FULL else 1)]
        outputs.append(run(home, "run", "--json", "--model", fake.url, "hi"))
        fake.stream = (401, said, {})
        outputs.append(run(home, "run", "--model", "fake", "hi"))
        fake.stream = [*llama_server(WRITTEN)[:4], b'data: {"error":"' + KEY.encode() + b'"}\n\n']
        outputs.append(run(home, "run", "--model", "fake", "hi"))
        fake.stream = [*llama_server(WRITTEN)[:4], crash_engine]
        outputs.append(run(home, "run", "--keep", "--model", "fake", "hi"))
    assert [done.returncode for done in outputs[-3:]] == [2, 2, 1]
    assert {done.returncode for done in outputs[:-3]} == {0}
    assert all("specchat.engine" in each and KEY not in each for each in listed)
    outputs += [run(home, "settings"), run(home, "chats", "export", "1", "--format", "json")]
    assert {headers.get("Authorization") for _, headers, _ in fake.asked} == {f"Bearer {KEY}"}
    for done in outputs:
        assert KEY not in done.stdout + done.stderr
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix in (".db", ".sqlite", ".sqlite3") for path in kept), kept
    for path in kept:
        assert KEY.encode() not in path.read_bytes(), path


def test_a_kept_answer_is_opened_again_as_it_was(call: Call, tmp_path: Path) -> None:
    with serving("llama-server", llama_server(WRITTEN)) as fake:
        call("run", "--keep", "--model", fake.url, "hi")
    file = tmp_path / "chat.json"
    assert call("chats", "export", "1", file)[0] == 0
    answer = read_chat(file).transcript.entries[1]
    assert isinstance(answer, Answer)
    assert (answer.text, answer.figures.certainty) == (WRITTEN.text, "exact")
    assert [run.tokens for run in answer.runs] == WRITTEN.lengths
    assert set(answer.log.tokens) == {-1}
