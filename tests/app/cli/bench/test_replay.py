"""`specchat replay`: from files to tables, with what is wrong in them named by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.backends.transcripts import scan_transcripts

from ..conftest import Call

Run = Callable[..., subprocess.CompletedProcess[str]]

TEXT = "The quick brown fox jumps over the lazy dog while the small cat sleeps near the old warm stove in the kitchen. "


@pytest.fixture
def run(call: Call) -> Run:
    return lambda *args: subprocess.CompletedProcess(args, *call("replay", *args))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    rows = [
        {"prompt": f"Repeat: {TEXT}", "response": TEXT},
        {"messages": [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT * 2}]},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_a_replay_scores_the_model_free_methods_and_names_bad_lines(records: Path, run: Run) -> None:
    with records.open("a") as file:
        file.write('\nnot json\n{"prompt": 3}\n[]\n')
    empty = records.with_name("empty.jsonl")
    empty.touch()
    done = run(records, empty, "--json", "--methods", "greedy,lookup:nodes=8,lookup:nodes=16,lookup:variant=reference")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rows = {row["method"]: row for row in report["results"]}
    assert list(rows) == ["greedy", "lookup:nodes=8", "lookup:nodes=16", "lookup:variant=reference"]
    assert rows["greedy"]["tokens_per_step"] == 1
    assert 2 < rows["lookup:nodes=8"]["tokens_per_step"] < rows["lookup:nodes=16"]["tokens_per_step"]
    for row in rows.values():
        assert row["tokens"] == rows["greedy"]["tokens"]
        assert {"method", "tokens", "steps", "tokens_per_step"} <= set(row)
    assert {row[key] for row in rows.values() for key in ("measured_speedup", "tokens_per_second")} == {None}
    assert report["transcripts"] == [str(records), str(empty)]
    assert [f"line {n}" in problem for n, problem in zip((3, 4, 5), report["problems"], strict=False)] == [True] * 3
    assert "empty.jsonl contains no records" in report["problems"][3]
    assert "line 3" in done.stderr


def test_every_model_free_method_is_replayed_and_tables_are_written(records: Path, tmp_path: Path, run: Run) -> None:
    done = run(records, "--markdown", tmp_path / "t.md", "--limit", "1")
    assert done.returncode == 0, done.stderr
    for name in ("lookup", "ngram", "fusion"):
        assert f"\n{name} " in done.stdout
    assert "jacobi" not in done.stdout
    assert "name a model with --model or --on-model" in done.stdout
    assert (tmp_path / "t.md").read_text().startswith("| method | tokens a pass |")


def test_a_model_runs_the_passes_and_the_record_decides(records: Path, run: Run) -> None:
    # The model, a recorded one too, was told other answers: the tokens must be those of the record that is replayed.
    other = records.with_name("other.jsonl")
    other.write_text(json.dumps({"prompt": "Who?", "response": "Nobody but the owl."}))
    done = run(records, "--model", f"recorded:{other}", "--methods", "lookup,jacobi", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rows = {row["method"]: row for row in report["results"]}
    assert list(rows) == ["greedy", "lookup", "jacobi"]
    assert len({row["tokens"] for row in rows.values()}) == 1
    assert rows["lookup"]["tokens_per_step"] > 2
    speeds = [rows[name]["tokens_per_second"] for name in ("lookup", "greedy")]
    assert rows["lookup"]["measured_speedup"] == pytest.approx(speeds[0] / speeds[1])
    assert rows["lookup"]["speedup_low"] < rows["lookup"]["measured_speedup"] < rows["lookup"]["speedup_high"]
    assert {"machine", "versions", "command"} <= set(report)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere.jsonl"], "There is no file nowhere.jsonl"),
        (["FILE", "--methods", "jacobi"], "The method jacobi cannot be replayed: it needs the model's other choices"),
        (["FILE", "--methods", "lokup"], "did you mean lookup?"),
        (["FILE", "--methods", "lookup:nodes"], "not a method with settings"),
        (["FILE", "--on-model", "builtin", "--model", "builtin"], "leave out --model"),
        (["FILE", "--on-model", "builtin", "--methods", "lookahead"], "needs the model's other choices"),
        (["FILE", "--tokenizer", "nofolder"], "tokenizer.json"),
    ],
)
def test_what_can_be_mended_is_one_sentence(records: Path, args: list[str], says: str, run: Run) -> None:
    done = run(*(records if arg == "FILE" else arg for arg in args))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_every_answer_of_a_chat_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    chat = [{"role": r, "content": c} for r, c in (("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"))]
    path.write_text(json.dumps({"messages": chat, "response": "d", "finish_reason": "length"}) + "\n\n")
    records, problems = scan_transcripts(path)
    assert problems == []
    assert [(r.response, len(r.messages), r.ended) for r in records] == [("b", 2, True), ("d", 4, False)]
    assert records[1].prompt == "system: s\n\nuser: a\n\nassistant: b\n\nuser: c\n\nassistant: "
