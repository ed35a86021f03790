"""`specchat bench` and `replay` from the command line, on recorded answers: no weights, the same counts every time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.app.cli.bench.items import read_items
from specchat.app.cli.bench.lab import show_table
from specchat.app.cli.bench.run import SPARE, headline, table
from specchat.app.cli.bench.statistics import Result
from specchat.app.text.cells import width
from specchat.backends.transcripts import scan_transcripts
from specchat.errors import UserError

from ....fakes.engines import paced, wait_until
from ....fakes.model_servers import Pass, Written, llama_server, of_words, serving, text_only, vllm
from ....fakes.records import recorded_model
from ....fakes.terminal import Tty
from ..conftest import Call

TEXT = "the quick brown fox jumps over the lazy dog and the small cat sleeps near the warm stove in the kitchen "


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A file of prompts in two categories, which the recorded model beside it knows."""
    path = tmp_path / "prompts.jsonl"
    rows = [(f"{i} {TEXT}", TEXT + (TEXT if i % 2 else f"and {i} more")) for i in range(6)]
    lines = [{"prompt": p, "category": "even" if i % 2 == 0 else "odd"} for i, (p, _) in enumerate(rows)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded_model(tmp_path, dict(rows))
    return path


def start_bench(prompts: Path, pace: float, *args: object, **variables: str) -> subprocess.Popen[str]:
    """Start the command in another process."""
    model = f"recorded:{prompts.with_name('answers.jsonl')}?pace={pace}"
    words = [sys.executable, "-m", "specchat", "bench", str(prompts), "--model", model, *map(str, args)]
    environment = {**os.environ, "SPECCHAT_CONFIG": str(prompts.parent), **variables}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_methods_are_compared_in_every_form(prompts: Path) -> None:
    table_file = prompts.with_name("t.md")
    # A pass takes 10 ms, and nothing else any time: speedups follow the number of passes.
    process = start_bench(
        prompts, 0.01, "--methods", "lookup,fusion,early-exit", "--against", "transformers", "--json",
        "--markdown", table_file, "--rounds", 2, **paced(),
    )  # fmt: skip
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert (report["backend"], report["prompts"]) == ("recorded", 6)
    rows = {(row["method"], row["category"]): row for row in report["results"]}
    assert list(rows) == [(m, c) for m in ("greedy", "lookup", "fusion") for c in ("even", "odd", "all")]
    for row in rows.values():
        assert row["identical"] == row["prompts"] == (6 if row["category"] == "all" else 3)
        assert row["pairs"] == 2 * row["prompts"]
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    lookup = rows["lookup", "all"]
    assert lookup["tokens_per_step"] > 2
    # Passes over more nodes take longer.
    assert 3 < lookup["speedup"] < lookup["tokens_per_step"]
    assert report["headline"].startswith(f"lookup {lookup['speedup']:.2f}×, 95% ")
    assert len(report["machine"]["load"]) == 2
    for reason in ("early-exit is left out", "transformers is left out"):
        assert reason in err
        assert any(reason in problem for problem in report["problems"])
    markdown = table_file.read_text()
    assert "| category | method |" in markdown
    assert "| **all** | **lookup** |" in markdown
    for part in (report["headline"], report["machine"]["processor"], report["versions"]["torch"], report["command"]):
        assert part in markdown


@pytest.mark.parametrize(
    ("speedup", "low", "high", "prompts", "sentence"),
    [
        (1.83, 0.0002, 1664017.91, 2, "lookup 1.83×, 95% under 0.01 to over 100: too few prompts to say."),
        (1.83, 0.64, 9.91, 40, "lookup 1.83×, 95% 0.64 to 9.91: not clearly faster than greedy."),
        (1.83, 1.7, 1.9, 4, "lookup 1.83×, 95% 1.70 to 1.90: faster than greedy."),
        (1.83, 1.0024, 2.8, 6, "lookup 1.83×, 95% 1.00 to 2.80: too few prompts to say."),
        (0.83, 0.7, 0.9, 40, "lookup 0.83×, 95% 0.70 to 0.90: nothing was faster than greedy."),
        (1.83, None, None, 1, "lookup 1.83×: too few prompts to say."),
    ],
)
def test_the_headline(speedup: float, low: float | None, high: float | None, prompts: int, sentence: str) -> None:
    def result(method: str, *interval: float | None) -> Result:
        speedup, low, high = interval
        return Result(method=method, category="all", prompts=prompts, speedup=speedup, speedup_low=low, speedup_high=high)

    plain = result("greedy", 1.0, 1.0, 1.0)
    worse = result("jacobi", 0.5, 0.4, 0.6)
    best = result("lookup", speedup, low, high)
    assert headline([plain, best, worse], "greedy") == sentence
    # Where it may be the best by chance, what is surely faster is named too.
    sure = result("draft", speedup - 0.1, 1.3, 1.8)
    more = f" draft {speedup - 0.1:.2f}×, 95% 1.30 to 1.80: faster than greedy."
    assert headline([plain, sure, best, worse], "greedy") == (sentence if round(low or 0, 2) > 1 else sentence + more)
    assert headline([plain], "greedy") == ""


def test_the_report_says_that_the_machine_was_busy(call: Call, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (999.0, 0.0, 0.0))  # what this machine does meanwhile is chance
    options = ("--methods", "lookup", "--clock", "cpu", "--limit", 1, "--threads", 1)
    _, out, _ = call("bench", prompts, "--model", f"recorded:{prompts.with_name('answers.jsonl')}", *options)
    out = " ".join(out.split())
    assert "The machine was busy: load 999.0 on " in out
    assert "Processor seconds leave out the waiting." in out
    assert ", 1 thread): 2 prompts" in out


def test_ctrl_c_shows_what_is_done(prompts: Path) -> None:
    record = prompts.with_name("r.jsonl")
    prompts.write_text(prompts.read_text() * 30)  # minutes of answers
    process = start_bench(prompts, 0.02, "--methods", "lookup", "--max-tokens", 12, "--json", "--record", record)
    wait_until(lambda: record.exists() and record.read_bytes().count(b"\n") >= 4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "")
    assert 1 <= sum(row["prompts"] for row in json.loads(out)["results"] if row["category"] in ("even", "odd")) < 360


def file(folder: Path, text: str, name: str = "p.jsonl") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_of_every_kind_become_prompts(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = [{"prompt": "one"}, {"turns": ["x", "y"], "category": "math"}, {"messages": chat, "category": "chat"}]
    prompts = read_items(file(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n"), None)
    assert [(i.id, i.category, i.turns) for i in prompts.items[:3]] == [
        ("1", "prompts", ("one",)),
        ("2", "math", ("x",)),
        ("2/2", "math", ("x", "y")),
    ]
    assert prompts.items[3].messages == ({"role": "user", "content": "a"},)  # an answer at the end is not asked for
    assert prompts.problems == []


def test_bad_lines_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = ['{"category": "math"}', "nonsense", '{"turns": []}', "[1]", '{"messages": [{"role": "user"}]}', '{"prompt": " "}']
    text = "\n".join(['{"prompt": "a"}', *bad])
    prompts = read_items(file(tmp_path, text), None)
    assert len(prompts.items) == 1
    assert [f"line {n}" in problem for n, problem in zip(range(2, 8), prompts.problems, strict=True)] == [True] * 6
    for text in ("\n\n", "nonsense {"):
        with pytest.raises(UserError, match=r"p\.jsonl"):
            read_items(file(tmp_path, text), None)


METHODS = ("greedy", "early-exit:layers=2:schedule=constant:tokens=4", "transformers/prompt-lookup", "lookup:nodes=32")


def bench_table() -> tuple[list[str], list[list[str]]]:
    """Make the table that `specchat bench` prints."""
    figures: Any = {
        "tokens_per_second": 123.4, "speedup": 1.5, "speedup_low": 1.41, "speedup_high": 1.62, "tokens_per_step": 3.21,
        "acceptance_rate": 0.4, "nodes_per_token": 2.2, "identical": 6, "prompts": 6, "draft_share": 0.02,
        "forward_share": 0.9,
    }  # fmt: skip
    head, rows, _ = table(
        [Result(category=category, method=method, **figures) for category in ("copy", "sums") for method in METHODS]
    )
    return head, rows


@pytest.mark.parametrize("cells", [72, 100, 160])
def test_a_table_keeps_within_the_width_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    out = Tty()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(cells))
    monkeypatch.setenv("TERM", "xterm-256color")
    head, rows = bench_table()
    show_table(head, rows, left=2, spare=SPARE, bold={1})
    lines = out.getvalue().splitlines()
    assert all(line.startswith("\x1b[1m") == line.endswith("\x1b[0m") for line in lines)
    assert any(line.startswith("\x1b[1mcopy") for line in lines)
    lines = [line.removeprefix("\x1b[1m").removesuffix("\x1b[0m") for line in lines]
    assert max(map(width, lines)) <= cells
    title = lines[0].split()
    assert {"category", "method", "speedup"} <= {*title}
    remark = " ".join(" ".join(lines).partition("Too narrow to show: ")[2].split())
    left_out = remark.partition(".")[0].split(", ") if remark else []
    assert sorted(title + left_out) == sorted(head)
    assert (cells == 160) == (not left_out)
    assert len([line for line in lines if "1.50×" in line]) == len(rows)


def test_a_pipe_gets_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    head, rows = bench_table()
    show_table(head, rows, left=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == head
    assert len(lines) == 1 + len(rows)


REPLAYED = "The quick brown fox jumps over the lazy dog while the small cat sleeps near the old warm stove in the kitchen. "


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    rows = [
        {"prompt": f"Repeat: {REPLAYED}", "response": REPLAYED},
        {"messages": [{"role": "user", "content": REPLAYED}, {"role": "assistant", "content": REPLAYED * 2}]},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_a_replay_scores_the_model_free_methods_and_names_bad_lines(records: Path, call: Call) -> None:
    with records.open("a") as file:
        file.write('\nnot json\n{"prompt": 3}\n[]\n')
    empty = records.with_name("empty.jsonl")
    empty.touch()
    methods = "greedy,lookup:nodes=8,lookup:nodes=16,lookup:variant=reference"
    code, out, err = call("replay", records, empty, "--json", "--methods", methods)
    assert code == 0, err
    report = json.loads(out)
    rows = {row["method"]: row for row in report["results"]}
    assert list(rows) == ["greedy", "lookup:nodes=8", "lookup:nodes=16", "lookup:variant=reference"]
    assert rows["greedy"]["tokens_per_step"] == 1
    assert 2 < rows["lookup:nodes=8"]["tokens_per_step"] < rows["lookup:nodes=16"]["tokens_per_step"]
    for row in rows.values():
        assert row["tokens"] == rows["greedy"]["tokens"]
    assert {row[key] for row in rows.values() for key in ("speedup", "tokens_per_second")} == {None}
    assert report["transcripts"] == [str(records), str(empty)]
    assert [f"line {n}" in problem for n, problem in zip((3, 4, 5), report["problems"], strict=False)] == [True] * 3
    assert "empty.jsonl contains no records" in report["problems"][3]
    assert "line 3" in err


def test_every_model_free_method_is_replayed(records: Path, call: Call) -> None:
    code, out, err = call("replay", records, "--limit", "1")
    assert code == 0, err
    for name in ("lookup", "ngram", "fusion"):
        assert f"  {name} " in out
    assert "jacobi" not in out
    assert "name a model with --model or --on-model" in out
    assert out.startswith("category  method ")


def test_a_model_runs_the_passes_and_the_record_decides(records: Path, call: Call) -> None:
    # The model, a recorded one too, was told other answers: the tokens must be those of the record that is replayed.
    other = records.with_name("other.jsonl")
    other.write_text(json.dumps({"prompt": "Who?", "response": "Nobody but the owl."}))
    code, out, err = call("replay", records, "--model", f"recorded:{other}", "--methods", "lookup,jacobi", "--json")
    assert code == 0, err
    report = json.loads(out)
    rows = {row["method"]: row for row in report["results"]}
    assert list(rows) == ["greedy", "lookup", "jacobi"]
    assert len({row["tokens"] for row in rows.values()}) == 1
    assert rows["lookup"]["tokens_per_step"] > 2
    speeds = [rows[name]["tokens_per_second"] for name in ("lookup", "greedy")]
    assert rows["lookup"]["speedup"] == pytest.approx(speeds[0] / speeds[1])
    assert rows["lookup"]["speedup_low"] < rows["lookup"]["speedup"] < rows["lookup"]["speedup_high"]
    assert {"machine", "versions", "command"} <= set(report)


def test_every_answer_of_a_chat_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    chat = [{"role": r, "content": c} for r, c in (("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"))]
    path.write_text(json.dumps({"messages": chat, "response": "d", "finish_reason": "length"}) + "\n\n")
    records, problems = scan_transcripts(path)
    assert problems == []
    assert [(r.response, len(r.messages), r.ended) for r in records] == [("b", 2, True), ("d", 4, False)]
    assert records[1].prompt == "system: s\n\nuser: a\n\nassistant: b\n\nuser: c\n\nassistant: "


FAST = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
SLOW = Written(tuple(Pass((token,)) for one in FAST.passes for token in one.tokens), eos=False)
"""The same tokens, a pass for each."""


def test_a_server_against_a_plain_one(call: Call, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("one\n\ntwo\n\nthree\n")
    record = tmp_path / "record.jsonl"
    with (
        serving("llama-server", llama_server(FAST)) as fast,
        serving("llama-server", llama_server(SLOW), speculates=False) as slow,
    ):
        options = (tmp_path / "p.txt", "--model", fast.url, "--against", slow.url, "--rounds", 2, "--record", record)
        code, out, err = call("bench", *options, "--json", "--markdown", tmp_path / "t.md")
        bodies = [body for path, _, body in fast.asked if path == "/v1/chat/completions"]
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["servers"] == {"plain": slow.url, "ngram-simple": fast.url}
    plain, speculating = report["results"]
    count = sum(FAST.lengths)
    names = ("method", "speedup", "tokens_per_step", "acceptance_rate", "identical")
    assert [plain[name] for name in names] == ["plain", 1.0, 1.0, None, 3]
    assert speculating["tokens_per_step"] == count / len(FAST.lengths)
    assert speculating["acceptance_rate"] == FAST.accepted / FAST.drafted
    assert speculating["certainty"] == {"exact": 3}
    assert (speculating["identical"], speculating["pairs"]) == (3, 6)
    # By the server's own clock: 31.5 ms for the prompt, then 1.25 ms a pass.
    slow_seconds, fast_seconds = (31.5 + 0.001 + 1.25 * (len(answer.lengths) - 1) for answer in (SLOW, FAST))
    assert speculating["speedup"] == pytest.approx(slow_seconds / fast_seconds)
    # It reads every prompt anew; the prompts are asked for in both rounds, after one question what it is and a warm-up.
    assert all(body["cache_prompt"] is False and body["temperature"] == 0 for body in bodies)
    assert len(bodies) == 1 + 1 + 6
    head, _, *cells = [line for line in (tmp_path / "t.md").read_text().splitlines() if line.startswith("|")]
    assert "passes" in head
    assert "forward" not in head
    assert "exact" in cells[1]
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert {row["text"] for row in rows} == {FAST.text}
    assert rows[0]["messages"][-1]["role"] == "user"


def test_a_server_alone_has_no_speedup_and_ids_are_kept(call: Call, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    (tmp_path / "p.txt").write_text("one\n\ntwo\n")
    with serving("vLLM", vllm(FAST, merged=[2])) as fake:
        report = json.loads(call("bench", tmp_path / "p.txt", "--model", fake.url, "--json", "--record", record)[1])
        salts = {body["cache_salt"] for _, _, body in fake.asked if body}
        assert len(salts) == len([body for _, _, body in fake.asked if body])
    (row,) = report["results"]
    assert (row["method"], row["speedup"], row["identical"]) == ("speculation K=10", None, None)
    assert row["certainty"] == {"unknown": 2}
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert rows[0]["token_ids"] == list(range(100, 114))
    assert rows[0]["prompt_ids"] == list(range(13))


def test_passes_that_a_server_does_not_report_are_not_counted(call: Call, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("one\n\ntwo\n")
    with serving(stream=text_only(FAST)) as fake:
        code, out, err = call("bench", tmp_path / "p.txt", "--model", f"{fake.url}#small")
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("prompts"))
    assert line.split()[3:8] == ["–"] * 5
    assert line.split()[-1] == "unknown"
