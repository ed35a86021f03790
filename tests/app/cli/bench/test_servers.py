"""`specchat bench` with servers as the models."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ....fakes.model_servers import Pass, Written, llama_server, of_words, serving, text_only, vllm
from ..conftest import Call

Run = Callable[..., subprocess.CompletedProcess[str]]

FAST = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
SLOW = Written(tuple(Pass((token,)) for one in FAST.passes for token in one.tokens), eos=False)
"""The same tokens, a pass for each."""


@pytest.fixture
def bench(call: Call) -> Run:
    """Runs a command: `bench`, if its first word is none."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        words = words if words[0] in ("bench", "tune") else ("bench", *words)
        return subprocess.CompletedProcess([str(word) for word in words], *call(*words))

    return run


def test_a_server_against_a_plain_one(bench: Run, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("one\n\ntwo\n\nthree\n")
    record = tmp_path / "record.jsonl"
    with (
        serving("llama-server", llama_server(FAST)) as fast,
        serving("llama-server", llama_server(SLOW), speculates=False) as slow,
    ):
        options = (tmp_path / "p.txt", "--model", fast.url, "--against", slow.url, "--rounds", 2, "--record", record)
        done = bench(*options, "--json", "--markdown", tmp_path / "t.md")
        again = bench(*options, "--resume")
        asked = [body for path, _, body in fast.asked if path == "/v1/chat/completions"]
        answered = len(asked)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["servers"] == {"plain": slow.url, "ngram-simple": fast.url}
    plain, speculating = report["results"]
    count = sum(FAST.lengths)
    assert {name: plain[name] for name in ("method", "speedup", "tokens_per_step", "acceptance_rate", "identical")} == {
        "method": "plain",
        "speedup": 1.0,
        "tokens_per_step": 1.0,
        "acceptance_rate": None,
        "identical": 3,
    }
    assert speculating["tokens_per_step"] == count / len(FAST.lengths)
    assert speculating["acceptance_rate"] == FAST.accepted / FAST.drafted
    assert speculating["certainty"] == {"exact": 3}
    assert (speculating["identical"], speculating["pairs"]) == (3, 6)
    # By the server's own clock: 31.5 ms for the prompt, then 1.25 ms a pass.
    slow_seconds, fast_seconds = (31.5 + 0.001 + 1.25 * (len(each.lengths) - 1) for each in (SLOW, FAST))
    assert speculating["speedup"] == pytest.approx(slow_seconds / fast_seconds)
    # It reads every prompt anew; the prompts are asked for in both rounds, after one question what it is and a warm-up.
    assert all(body["cache_prompt"] is False and body["temperature"] == 0 for body in asked)
    assert answered == (1 + 1 + 6) + 1, "the run that was gone on with asks only what it is"
    assert "| exact |" in (tmp_path / "t.md").read_text()
    head, *_ = [line for line in again.stdout.splitlines() if line.startswith("category")]
    assert "passes" in head
    assert "forward" not in head
    rows = [json.loads(line) for line in record.read_text().splitlines()[1:]]
    assert {row["text"] for row in rows} == {FAST.text}
    assert rows[0]["messages"][-1]["role"] == "user"


def test_alone_it_has_no_speedup_and_ids_are_kept(bench: Run, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    (tmp_path / "p.txt").write_text("one\n\ntwo\n")
    with serving("vLLM", vllm(FAST, merged=[2])) as fake:
        report = json.loads(bench(tmp_path / "p.txt", "--model", fake.url, "--json", "--record", record).stdout)
        salts = {body["cache_salt"] for _, _, body in fake.asked if body}
        assert len(salts) == len([body for _, _, body in fake.asked if body])
    (row,) = report["results"]
    assert (row["method"], row["speedup"], row["identical"]) == ("speculation K=10", None, None)
    assert row["certainty"] == {"unknown": 2}
    _, *rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert rows[0]["token_ids"] == list(range(100, 114))
    assert rows[0]["prompt_ids"] == list(range(13))


def test_passes_that_are_not_told_are_not_counted(bench: Run, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("one\n\ntwo\n")
    with serving(stream=text_only(FAST)) as fake:
        done = bench(tmp_path / "p.txt", "--model", f"{fake.url}#small")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("prompts"))
    assert line.split()[3:8] == ["–"] * 5
    assert line.split()[-1] == "unknown"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "lookup"], "Leave out --methods"),
        (["--clock", "cpu"], "Leave out --clock"),
        (["--against", "transformers"], "A server is compared with servers"),
    ],
)
def test_what_a_server_cannot_do_is_refused_before_it_is_asked(bench: Run, words: list[str], sentence: str) -> None:
    done = bench("--model", "http://localhost:9", *words)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


def test_a_server_is_not_tuned(bench: Run) -> None:
    done = bench("tune", "--model", "http://localhost:9")
    assert (done.returncode, "compare two servers with `bench --against`" in done.stderr) == (2, True), done.stderr
